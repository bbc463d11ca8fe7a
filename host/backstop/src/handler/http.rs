//! The sidecar: each message is a POST to a URL, with the headers of the Elastic Beanstalk worker daemon. 2xx is success.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Proxy, Response, Url};
use tokio::time::{Instant, timeout_at};

use super::{Handler, error_payload, reach};
use crate::failure::{Error, MESSAGE_BYTES, Milliseconds};
use crate::queue::{Message, short_name};
use crate::retry_after::parse_retry_after;

/// How much of an error's body is read, and for how long: the status and the headers say that the attempt failed, and a body that does not end must not make a timeout of it.
const BODY_BYTES: usize = 64 << 10;
const BODY_TIME: Duration = Duration::from_secs(1);

/// Posts messages to a URL.
#[derive(Debug)]
pub struct Http {
    client: Client,
    proxy: Option<Proxy>,
    url: Url,
    queue: String,
}

/// The URL can't be posted to.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Not a URL.
    #[error(
        "`{url}` is not a URL that can be posted to: expected one such as http://127.0.0.1:8080/"
    )]
    Url {
        /// What was given.
        url: String,
    },
    /// Not the URL of a proxy.
    #[error("`{url}` is not the URL of a proxy: expected one such as http://proxy.internal:3128")]
    Proxy {
        /// What was given.
        url: String,
    },
    /// No HTTP client to be had.
    #[error("can't set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

impl Http {
    /// A handler that posts the messages of `queue` to `url`, through `proxy` where one is given.
    ///
    /// A proxy of the environment is not taken: one that answers for the worker, even with a page of its own, would have messages deleted that nobody has handled.
    pub fn new(url: &str, proxy: Option<&str>, queue: &str) -> Result<Self, HttpError> {
        let url = web_url(url).ok_or_else(|| HttpError::Url {
            url: url.to_owned(),
        })?;
        let proxy = proxy
            .map(|given| {
                let no_proxy = || HttpError::Proxy {
                    url: given.to_owned(),
                };
                Proxy::all(web_url(given).ok_or_else(no_proxy)?).map_err(|_| no_proxy())
            })
            .transpose()?;
        let client = client(proxy.as_ref()).build().map_err(HttpError::Client)?;
        Ok(Self {
            client,
            proxy,
            url,
            queue: short_name(queue).to_owned(),
        })
    }
}

/// A URL of the web, with a host.
fn web_url(url: &str) -> Option<Url> {
    Url::parse(url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

#[async_trait]
impl Handler for Http {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let request = self
            .client
            .post(self.url.clone())
            .headers(headers(&self.queue, message))
            .body(message.body.to_string());
        let response = request
            .send()
            .await
            .map_err(|error| connection_error(&error))?;
        if response.status().is_success() {
            return Ok(());
        }
        Err(status_error(response).await)
    }

    /// A connection can be made, with TLS where the URL has it.
    async fn answers(&self) -> Result<(), Error> {
        reach::reach(client(self.proxy.as_ref()), &self.url)
            .await
            .map_err(|error| connection_error(&error))
    }
}

/// How the worker is connected to: straight, or through this proxy.
fn client(proxy: Option<&Proxy>) -> ClientBuilder {
    let client = Client::builder().no_proxy();
    let client = match proxy {
        Some(proxy) => client.proxy(proxy.clone()),
        None => client,
    };
    client
        .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_secs(5))
        .redirect(reqwest::redirect::Policy::none())
}

/// `X-Aws-Sqsd-*` as the worker daemon sends them. A value that no header can carry is left out.
fn headers(queue: &str, message: &Message) -> HeaderMap {
    let first_received =
        jiff::Timestamp::from_millisecond(i64::try_from(message.first_received.0).unwrap_or(0))
            .unwrap_or_default();
    let mut fields = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("x-aws-sqsd-msgid".to_owned(), message.id.clone()),
        ("x-aws-sqsd-queue".to_owned(), queue.to_owned()),
        (
            "x-aws-sqsd-first-received-at".to_owned(),
            first_received.to_string(),
        ),
        (
            "x-aws-sqsd-receive-count".to_owned(),
            message.receive_count.to_string(),
        ),
    ];
    fields.extend(
        message
            .sender
            .clone()
            .map(|sender| ("x-aws-sqsd-sender-id".to_owned(), sender)),
    );
    fields.extend(
        message
            .trace_header
            .clone()
            .map(|trace| ("x-amzn-trace-id".to_owned(), trace)),
    );
    fields.extend(
        message
            .attributes
            .iter()
            .map(|(name, value)| (format!("x-aws-sqsd-attr-{name}"), value.to_text())),
    );
    fields
        .into_iter()
        .filter_map(|(name, value)| {
            Some((
                HeaderName::try_from(name).ok()?,
                HeaderValue::try_from(value).ok()?,
            ))
        })
        .collect()
}

/// The error of an answer that is not 2xx: its status, its headers, and its body as the text or as an error of Lambda's shape.
async fn status_error(response: Response) -> Error {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    let body = start_of_body(response).await;
    let mut error =
        error_payload::error(&body).unwrap_or_else(|| Error::new(format!("HTTP {status}"), body));
    error.status = Some(status);
    error.retry_after = retry_after(&headers);
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.to_string(), value.to_str().ok()?.to_owned()))
    };
    error.details.extend(headers.iter().filter_map(text));
    error
}

/// What there is of the body within [`BODY_BYTES`] and [`BODY_TIME`].
async fn start_of_body(mut response: Response) -> String {
    let mut body = Vec::new();
    let until = Instant::now() + BODY_TIME;
    while body.len() < BODY_BYTES {
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = BODY_BYTES - body.len();
                body.extend(chunk.iter().take(room));
            }
            Ok(Ok(None) | Err(_)) | Err(_) => break,
        }
    }
    let body = String::from_utf8_lossy(&body);
    let mut body = body.trim().to_owned();
    if error_payload::error(&body).is_none() {
        crate::text::cut(&mut body, MESSAGE_BYTES);
    }
    body
}

/// `x-amz-retry-after` (milliseconds), or `Retry-After` (seconds or an HTTP date; RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Milliseconds> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    if let Some(milliseconds) =
        text("x-amz-retry-after").and_then(|value| value.trim().parse().ok())
    {
        return Some(Milliseconds(milliseconds));
    }
    parse_retry_after(text("retry-after")?)
}

/// An error on the way: the code is that of Node's errno where the operating system gives the reason, and `EPROTO` where what came is not HTTP, or not TLS that can be trusted.
fn connection_error(error: &reqwest::Error) -> Error {
    let causes = || std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let io = causes().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    let is_malformed = causes().any(is_malformed);
    let text = causes()
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    let code = match io.map(std::io::Error::kind) {
        _ if is_malformed => "EPROTO",
        Some(std::io::ErrorKind::ConnectionRefused) => "ECONNREFUSED",
        Some(std::io::ErrorKind::ConnectionReset | std::io::ErrorKind::UnexpectedEof) => {
            "ECONNRESET"
        }
        Some(std::io::ErrorKind::BrokenPipe) => "EPIPE",
        Some(std::io::ErrorKind::HostUnreachable) => "EHOSTUNREACH",
        Some(std::io::ErrorKind::NetworkUnreachable) => "ENETUNREACH",
        Some(std::io::ErrorKind::TimedOut) => "ETIMEDOUT",
        _ if error.is_timeout() => "ETIMEDOUT",
        _ if text.contains("lookup") => "ENOTFOUND",
        _ if error.is_connect() => "ECONNREFUSED",
        _ => "ECONNRESET",
    };
    Error::new(code, text)
}

/// Whether this says that the other side speaks another language: an answer that hyper can't read, a handshake that rustls refuses.
fn is_malformed(cause: &(dyn std::error::Error + 'static)) -> bool {
    if let Some(hyper) = cause.downcast_ref::<hyper::Error>() {
        return hyper.is_parse();
    }
    cause.downcast_ref::<std::io::Error>().is_some_and(|io| {
        // One error of I/O in another is none of its sources.
        let within = io.get_ref().is_some_and(|inner| is_malformed(inner));
        io.kind() == std::io::ErrorKind::InvalidData || within
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// What becomes of an attempt whose request is answered with these bytes, on a connection that then stays open or is closed.
    async fn answered(scheme: &str, answer: &'static [u8], stays_open: bool) -> Result<(), Error> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/", listener.local_addr().unwrap());
        let worker = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await.unwrap();
            stream.write_all(answer).await.unwrap();
            if stays_open {
                std::future::pending::<()>().await;
            }
        });
        let result = Http::new(&url, None, "q").unwrap().handle(&message()).await;
        worker.abort();
        result
    }

    fn message() -> Message {
        Message {
            id: "m-1".to_owned(),
            receipt_handle: crate::queue::ReceiptHandle("h".to_owned()),
            body: "one".into(),
            attributes: std::collections::BTreeMap::new(),
            receive_count: std::num::NonZeroU32::MIN,
            sent: crate::failure::Timestamp(0),
            first_received: crate::failure::Timestamp(0),
            received: Instant::now(),
            sender: None,
            group: None,
            deduplication_id: None,
            trace_header: None,
        }
    }

    #[tokio::test]
    async fn a_failed_answer_whose_body_does_not_end_keeps_its_status_and_headers() {
        let answer = b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 1000\r\n\r\nbusy";
        let error = answered("http", answer, true).await.unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.message.as_str()),
            ("HTTP 503", "busy")
        );
        assert_eq!(
            (error.status, error.retry_after),
            (Some(503), Some(Milliseconds(7_000)))
        );
        // Nor does one that ends too soon, or is none of the encoding that it says it is.
        for answer in [
            &b"HTTP/1.1 400 Bad\r\ncontent-length: 1000\r\n\r\nno"[..],
            b"HTTP/1.1 400 Bad\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\nzz\r\n",
        ] {
            let error = answered("http", answer, false).await.unwrap_err();
            assert_eq!((error.status, error.message.as_str()), (Some(400), "no"));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_not_http_is_not_called_a_reset_connection() {
        for (scheme, answer, code) in [
            ("http", &b"hello\r\n\r\n"[..], "EPROTO"),
            ("http", b"HTTP/1.1 abc\r\n\r\n", "EPROTO"),
            ("http", b"HTTP/1.1 200 OK\r\nno header\r\n\r\n", "EPROTO"),
            ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "EPROTO"),
            ("http", b"", "ECONNRESET"),
            ("http", b"HTTP/1.1 200 OK\r\n", "ECONNRESET"),
        ] {
            let error = answered(scheme, answer, false).await.unwrap_err();
            let text = String::from_utf8_lossy(answer);
            assert_eq!(error.code, code, "{text:?}: {error}");
        }
    }

    #[test]
    fn amazons_retry_after_in_milliseconds_comes_first() {
        let mut headers = HeaderMap::new();
        assert_eq!(retry_after(&headers), None);
        headers.insert("retry-after", HeaderValue::from_static("2"));
        assert_eq!(retry_after(&headers), Some(Milliseconds(2_000)));
        headers.insert("x-amz-retry-after", HeaderValue::from_static("1500"));
        assert_eq!(retry_after(&headers), Some(Milliseconds(1_500)));
    }

    #[test]
    fn only_a_web_url_can_be_posted_to() {
        let to = "http://127.0.0.1:8080/work";
        assert!(Http::new(to, None, "q").is_ok());
        assert!(Http::new(to, Some("http://user:secret@127.0.0.1:3128"), "q").is_ok());
        for url in [
            "",
            "127.0.0.1:8080",
            "ftp://host/",
            "http://",
            "unix:/run/x",
        ] {
            assert!(Http::new(url, None, "q").is_err(), "{url}");
            assert!(Http::new(to, Some(url), "q").is_err(), "{url}");
        }
    }
}
