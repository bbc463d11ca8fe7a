//! Checks that an HTTP server accepts connections, without sending a request, because a request might make it do work.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url};
use tower::BoxError;
use tower::util::MapResultLayer;

/// Aborts a request as soon as its connection is established.
#[derive(Debug, thiserror::Error)]
#[error("connected")]
struct Connected;

/// A client that connects as one from this builder does, and sends nothing. It is made in advance: that takes files, and a check is made when they may be short.
pub(super) fn client(builder: ClientBuilder, longest: Duration) -> Result<Client, reqwest::Error> {
    builder
        .timeout(longest)
        .connector_layer(MapResultLayer::new(stop))
        .build()
}

/// Connects as the [client] would for a request to `url`: resolves the name, connects, and sets up TLS for `https`. Sends no request.
pub(super) async fn reach(client: &Client, url: &Url) -> Result<(), reqwest::Error> {
    match client.head(url.clone()).send().await {
        Err(error) if is_connected(&error) => Ok(()),
        result => result.map(drop),
    }
}

fn stop<C>(connected: Result<C, BoxError>) -> Result<C, BoxError> {
    connected.and_then(|_| Err(Connected.into()))
}

fn is_connected(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Connected>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    async fn reached(scheme: &str, port: u16) -> Result<(), reqwest::Error> {
        let url = format!("{scheme}://127.0.0.1:{port}/work");
        let client = client(Client::builder().no_proxy(), Duration::from_secs(3)).unwrap();
        reach(&client, &Url::parse(&url).unwrap()).await
    }

    #[tokio::test]
    async fn a_listener_is_reached_and_receives_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        reached("http", port).await.unwrap();
        let mut sent = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, b"");
        drop((listener, stream));
        let error = reached("http", port).await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
    }

    #[tokio::test]
    async fn a_server_without_tls_is_not_reached_by_https() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let plain = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let error = reached("https", port).await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        plain.join().unwrap();
    }
}
