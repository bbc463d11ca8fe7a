//! What policies see of HTTP responses, and of connections that give none.

use backstop_core::failure::Milliseconds;
use hyper::Response;

use super::*;

fn response(status: u16, headers: &[(&str, &str)]) -> Response<&'static str> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body("body").unwrap()
}

#[test]
fn only_a_status_of_400_or_above_is_an_error() {
    for (status, is_error) in [
        (200, false),
        (304, false),
        (399, false),
        (400, true),
        (404, true),
        (503, true),
    ] {
        let result: Result<_, RequestError<hyper::Error, _>> = success(response(status, &[]));
        assert_eq!(result.is_err(), is_error, "{status}");
    }
}

#[test]
fn the_status_and_the_headers_of_a_response_reach_the_policy() {
    let headers = [("Retry-After", "7"), ("X-Reason", "maintenance")];
    let error: RequestError<hyper::Error, _> = success(response(503, &headers)).unwrap_err();
    assert_eq!(error.to_string(), "HTTP 503");
    let described = error.describe();
    assert_eq!(
        (&*described.code, described.status),
        ("HTTP 503", Some(503))
    );
    assert_eq!(described.retry_after, Some(Milliseconds(7_000)));
    assert_eq!(
        described.details,
        [("retry-after", "7"), ("x-reason", "maintenance")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
    // The body is still there for the caller.
    let RequestError::Status(response) = error else {
        panic!("{error:?}");
    };
    assert_eq!(response.into_body(), "body");
}

/// The description of a request of reqwest that gets these bytes as the response, on a connection that then stays open for a while or is closed.
#[cfg(feature = "reqwest")]
async fn requested(bytes: &'static [u8], stays_open: bool) -> Error {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4_096]).unwrap();
        stream.write_all(bytes).unwrap();
        if stays_open {
            // Until the client gives up.
            let _ = stream.read(&mut [0; 16]);
        }
    });
    let client = reqwest::Client::builder().no_proxy();
    let client = client.timeout(Duration::from_millis(200)).build().unwrap();
    let result = async { success(client.get(url).send().await?) }.await;
    let error: RequestError<reqwest::Error, _> = result.unwrap_err();
    error.describe()
}

#[cfg(feature = "reqwest")]
#[tokio::test]
async fn errors_of_reqwest_have_the_codes_of_the_host() {
    let busy = requested(
        b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n",
        false,
    );
    let busy = busy.await;
    assert_eq!(busy.code, "HTTP 503");
    assert_eq!(busy.retry_after, Some(Milliseconds(7_000)));
    for (bytes, stays_open, code) in [
        (&b"hello\r\n\r\n"[..], false, "EPROTO"),
        (b"", false, "ECONNRESET"),
        (b"HTTP/1.1 200", false, "ECONNRESET"),
        (b"", true, "ETIMEDOUT"),
    ] {
        let error = requested(bytes, stays_open).await;
        assert_eq!(error.code, code, "{error:?}");
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for (url, code) in [
        ("http://127.0.0.1:1/", "ECONNREFUSED"),
        ("http://no-such-host.invalid/", "ENOTFOUND"),
        ("no url", "ValidationException"),
    ] {
        let error = client.get(url).send().await.unwrap_err().describe();
        assert_eq!(error.code, code, "{error:?}");
    }
}
