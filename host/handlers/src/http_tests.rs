use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use backstop_core::failure::Milliseconds;
use backstop_queue::ordinary_message;

/// The result of an attempt whose request gets these bytes as the response, on a connection that then stays open or is closed.
async fn attempt(scheme: &str, response: &'static [u8], stays_open: bool) -> Result<(), Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
    let worker = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(response).await.unwrap();
        if stays_open {
            std::future::pending::<()>().await;
        }
    });
    let result = http(&url, None).unwrap().handle(&ordinary_message()).await;
    worker.abort();
    result
}

fn http(url: &str, proxy: Option<&str>) -> Result<Http, HttpError> {
    let options = HttpOptions {
        url: url.to_owned(),
        proxy: proxy.map(str::to_owned),
        ..HttpOptions::default()
    };
    Http::new(&options, "q", Duration::from_secs(60))
}

/// What a worker says that answers its health path with this.
async fn health(answer: &'static [u8]) -> (Result<(), Error>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = HttpOptions {
        url: format!("http://{}/work?a=b", listener.local_addr().unwrap()),
        health: Some("/healthz".to_owned()),
        ..HttpOptions::default()
    };
    let worker = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4_096];
        let read = stream.read(&mut request).await.unwrap();
        stream.write_all(answer).await.unwrap();
        String::from_utf8_lossy(&request[..read]).into_owned()
    });
    let handler = Http::new(&options, "q", Duration::from_secs(60)).unwrap();
    let said = handler.is_reachable().await;
    (said, worker.await.unwrap())
}

#[tokio::test]
async fn a_worker_with_a_health_path_is_ready_when_that_says_so() {
    let (said, request) = health(b"HTTP/1.1 204 No Content\r\n\r\n").await;
    said.unwrap();
    assert!(
        request.starts_with("GET /healthz HTTP/1.1\r\n"),
        "{request}"
    );
    for (answer, code) in [
        (
            &b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n"[..],
            "HTTP 503",
        ),
        // Whoever sends elsewhere is not the worker.
        (b"HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n", "HTTP 302"),
        (b"", "ECONNRESET"),
    ] {
        let (said, _) = health(answer).await;
        let error = said.unwrap_err();
        assert_eq!((error.code.as_str(), error.unavailable), (code, true));
    }
}

#[test]
fn a_health_path_is_one_of_the_worker_or_a_url() {
    let worker = Url::parse("http://worker:8080/work/?a=b").unwrap();
    for (health, expected) in [
        ("/healthz", Some("http://worker:8080/healthz")),
        ("/", Some("http://worker:8080/")),
        ("http://other:81/ready", Some("http://other:81/ready")),
        ("healthz", None),
        ("//other/healthz", None),
        ("file:///etc/passwd", None),
        ("", None),
    ] {
        let url = health_url(&worker, health);
        assert_eq!(url.as_ref().map(Url::as_str), expected, "{health}");
    }
}

#[tokio::test]
async fn an_error_with_an_endless_body_keeps_its_status_and_headers() {
    let response = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 1000\r\n\r\nbusy";
    let error = attempt("http", response, true).await.unwrap_err();
    assert_eq!(
        (error.code.as_str(), error.message.as_str()),
        ("HTTP 503", "busy")
    );
    assert_eq!(
        (error.status, error.retry_after),
        (Some(503), Some(Milliseconds(7_000)))
    );
    // The same goes for a body that is cut off or wrongly encoded.
    for response in [
        &b"HTTP/1.1 400 Bad\r\ncontent-length: 1000\r\n\r\nno"[..],
        b"HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\nzz\r\n",
    ] {
        let error = attempt("http", response, false).await.unwrap_err();
        assert_eq!((error.status, error.message.as_str()), (Some(400), "no"));
    }
}

#[tokio::test]
async fn a_response_that_is_not_http_is_a_protocol_error() {
    for (scheme, response, code) in [
        ("http", &b"hello\r\n\r\n"[..], "EPROTO"),
        ("http", b"HTTP/1.1 abc\r\n\r\n", "EPROTO"),
        ("http", b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "EPROTO"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "EPROTO"),
        ("http", b"", "ECONNRESET"),
        ("http", b"HTTP/1.1 200 OK\r\n", "ECONNRESET"),
    ] {
        let error = attempt(scheme, response, false).await.unwrap_err();
        let text = String::from_utf8_lossy(response);
        assert_eq!(error.code, code, "{text:?}: {error}");
        // A handshake that fails is no connection; after it, the worker may have read the message.
        assert_eq!(error.unavailable, scheme == "https", "{text:?}: {error}");
    }
}

#[tokio::test]
async fn without_a_connection_the_worker_is_unavailable() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    for (url, proxy, code) in [
        (closed.as_str(), None, "ECONNREFUSED"),
        ("http://nobody.invalid/", None, "ENOTFOUND"),
        (
            "http://worker.internal/",
            Some(closed.as_str()),
            "ECONNREFUSED",
        ),
    ] {
        let handler = http(url, proxy).unwrap();
        let tried = handler.handle(&ordinary_message()).await.unwrap_err();
        let probed = handler.is_reachable().await.unwrap_err();
        for error in [tried, probed] {
            assert_eq!(
                (error.code.as_str(), error.unavailable),
                (code, true),
                "{error}"
            );
            assert!(error.message.ends_with(&format!(" at {url}")), "{error}");
        }
    }
}

#[test]
fn an_address_is_shown_without_its_secrets() {
    let url = Url::parse("http://user:secret@worker:8080/work?token=secret#x").unwrap();
    assert_eq!(without_secrets(&url).as_str(), "http://worker:8080/work");
}

#[test]
fn only_an_http_url_is_accepted() {
    let to = "http://127.0.0.1:8080/work";
    assert!(http(to, None).is_ok());
    assert!(http(to, Some("http://user:secret@127.0.0.1:3128")).is_ok());
    for url in [
        "",
        "127.0.0.1:8080",
        "ftp://host/",
        "http://",
        "unix:/run/x",
    ] {
        assert!(http(url, None).is_err(), "{url}");
        assert!(http(to, Some(url)).is_err(), "{url}");
    }
}
