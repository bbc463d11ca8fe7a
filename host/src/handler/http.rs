//! The sidecar: each message is a POST to a URL, with the headers of the Elastic Beanstalk worker daemon. 2xx is success.

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Response, Url};

use super::{Handler, reach, shaped};
use crate::clock;
use crate::failure::{Error, MESSAGE_BYTES, Milliseconds};
use crate::queue::{Message, short_name};

/// How much of an error's body is read.
const BODY_BYTES: usize = 64 << 10;

/// Posts messages to a URL.
#[derive(Debug)]
pub struct Http {
    client: Client,
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
    /// No HTTP client to be had.
    #[error("can't set up an HTTP client")]
    Client(#[source] reqwest::Error),
}

impl Http {
    /// A handler that posts the messages of `queue` to `url`.
    pub fn new(url: &str, queue: &str) -> Result<Self, HttpError> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = parsed.ok_or_else(|| HttpError::Url {
            url: url.to_owned(),
        })?;
        let client = client().build().map_err(HttpError::Client)?;
        Ok(Self {
            client,
            url,
            queue: short_name(queue).to_owned(),
        })
    }
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
        reach::reach(client(), &self.url)
            .await
            .map_err(|error| connection_error(&error))
    }
}

/// How the worker is connected to.
fn client() -> ClientBuilder {
    Client::builder()
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
        shaped::error(&body).unwrap_or_else(|| Error::new(format!("HTTP {status}"), body));
    error.status = Some(status);
    error.retry_after = retry_after(&headers);
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        Some((name.to_string(), value.to_str().ok()?.to_owned()))
    };
    error.details.extend(headers.iter().filter_map(text));
    error
}

async fn start_of_body(mut response: Response) -> String {
    let mut body = Vec::new();
    while body.len() < BODY_BYTES {
        match response.chunk().await {
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    let body = String::from_utf8_lossy(&body);
    let mut body = body.trim().to_owned();
    if shaped::error(&body).is_none() {
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

/// The wait that a `Retry-After` asks for: whole seconds, or until an HTTP date, none once that has passed.
pub fn parse_retry_after(value: &str) -> Option<Milliseconds> {
    let value = value.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Milliseconds::from_duration(Duration::from_secs(seconds)));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    let date = date.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_millis(clock::now().0);
    Some(Milliseconds::from_duration(date.saturating_sub(now)))
}

/// An error on the way: the code is that of Node's errno where the operating system gives the reason.
fn connection_error(error: &reqwest::Error) -> Error {
    let mut causes =
        std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let io = causes
        .clone()
        .find_map(|cause| cause.downcast_ref::<std::io::Error>());
    let text = causes
        .by_ref()
        .last()
        .map_or_else(|| error.to_string(), ToString::to_string);
    let code = match io.map(std::io::Error::kind) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let in_a_minute =
            std::time::UNIX_EPOCH + Duration::from_millis(clock::now().0) + Duration::from_secs(60);
        let date = parse_retry_after(&httpdate::fmt_http_date(in_a_minute)).unwrap();
        assert!((58_000..=60_000).contains(&date.0), "{date}");
        for (value, expected) in [
            ("120", Some(120_000)),
            (" 0 ", Some(0)),
            ("99999999999", Some(u32::MAX)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(
                parse_retry_after(value).map(|wait| wait.0),
                expected,
                "{value:?}"
            );
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
        assert!(Http::new("http://127.0.0.1:8080/work", "q").is_ok());
        for url in [
            "",
            "127.0.0.1:8080",
            "ftp://host/",
            "http://",
            "unix:/run/x",
        ] {
            assert!(Http::new(url, "q").is_err(), "{url}");
        }
    }
}
