//! Whether an HTTP server can be connected to, without a request: what it does with one is nobody's business before the first message.

use std::error::Error;
use std::time::Duration;

use reqwest::{ClientBuilder, Url};
use tower::BoxError;
use tower::util::MapResultLayer;

/// The longest that a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Ends a request once there is a connection to send it on.
#[derive(Debug, thiserror::Error)]
#[error("connected")]
struct Connected;

/// Connects as the client would for a request to `url`: name, address, and TLS where the URL has it. Nothing is sent.
pub(super) async fn reach(client: ClientBuilder, url: &Url) -> Result<(), reqwest::Error> {
    let client = client
        .timeout(CONNECT_TIMEOUT)
        .connector_layer(MapResultLayer::new(stop))
        .build()?;
    match client.head(url.clone()).send().await {
        Err(error) if is_connected(&error) => Ok(()),
        ended => ended.map(drop),
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

    use reqwest::Client;

    use super::*;

    async fn reached(scheme: &str, port: u16) -> Result<(), reqwest::Error> {
        let url = format!("{scheme}://127.0.0.1:{port}/work");
        let client = Client::builder().no_proxy();
        reach(client, &Url::parse(&url).unwrap()).await
    }

    #[tokio::test]
    async fn a_listener_is_reached_and_sent_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        reached("http", port).await.unwrap();
        let mut sent = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, b"");
        drop((listener, stream));
        let refused = reached("http", port).await.unwrap_err();
        assert!(refused.is_connect(), "{refused:?}");
    }

    #[tokio::test]
    async fn a_server_without_tls_is_not_reached_by_https() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let plain = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let refused = reached("https", port).await.unwrap_err();
        assert!(refused.is_connect(), "{refused:?}");
        plain.join().unwrap();
    }
}
