//! A connection that can be slow, stalled or cut, between a host and what it talks to.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// What happens to what is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Fair,
    /// Every piece arrives this much later.
    Slow(Duration),
    /// Nothing arrives as long as this lasts, and all of it afterwards.
    Stalled,
    /// Connections end, and new ones end at once.
    Cut,
}

/// A forwarded port.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) port: u16,
    weather: watch::Sender<Weather>,
}

impl Link {
    /// Forwards a port of its own to this one, whoever listens there.
    pub(crate) async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (weather, seen) = watch::channel(Weather::Fair);
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else {
                    sleep(Duration::from_millis(10)).await;
                    continue;
                };
                if *seen.borrow() != Weather::Cut {
                    tokio::spawn(forward(client, target, seen.clone()));
                }
            }
        });
        Self { port, weather }
    }

    pub(crate) fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

async fn forward(client: TcpStream, target: u16, mut seen: watch::Receiver<Weather>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    for stream in [&client, &server] {
        let _ = stream.set_nodelay(true);
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = pass(from_client, to_server, seen.clone());
    let back = pass(from_server, to_client, seen.clone());
    tokio::select! {
        () = async { tokio::join!(there, back); } => {}
        _ = seen.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut seen: watch::Receiver<Weather>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let weather = *seen.borrow();
        match weather {
            Weather::Fair | Weather::Cut => {}
            Weather::Slow(by) => sleep(by).await,
            Weather::Stalled => {
                let _ = seen.wait_for(|weather| *weather != Weather::Stalled).await;
            }
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}
