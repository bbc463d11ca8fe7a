//! HTTP: responses whose status is an error, and clients that get none.

use std::error::Error as StdError;
use std::fmt;

use backstop_core::failure::Error;
use backstop_core::retry_after::retry_after;
use backstop_core::text::chain;

use super::{Describe, network};

/// A response of an HTTP client, for [`success`]. hyper's and reqwest's implement it; for another client:
///
/// ```
/// use backstop_retry::{Describe, HttpResponse, RequestError};
///
/// struct Response(u16);
///
/// impl HttpResponse for Response {
///     fn status(&self) -> u16 {
///         self.0
///     }
///
///     fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
///         [("retry-after", "7")].into_iter()
///     }
/// }
///
/// let busy = RequestError::<std::io::Error, _>::Status(Response(429)).describe();
/// assert_eq!((busy.code.as_str(), busy.retry_after.unwrap().0), ("HTTP 429", 7_000));
/// ```
pub trait HttpResponse {
    /// Its status.
    fn status(&self) -> u16;

    /// Its headers that are text, with names in lower case.
    fn headers(&self) -> impl Iterator<Item = (&str, &str)>;
}

impl<B> HttpResponse for ::hyper::Response<B> {
    fn status(&self) -> u16 {
        self.status().as_u16()
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.headers().iter();
        headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }
}

#[cfg(feature = "reqwest")]
impl HttpResponse for ::reqwest::Response {
    fn status(&self) -> u16 {
        self.status().as_u16()
    }

    fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let headers = self.headers().iter();
        headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
    }
}

/// Why a request of reqwest failed, for functions that also read the body: `async fn get(..) -> Result<String, ReqwestError>`. `?` makes one of an error of reqwest.
#[cfg(feature = "reqwest")]
pub type ReqwestError = RequestError<::reqwest::Error, ::reqwest::Response>;

/// Why an HTTP request failed: no response, or one whose status is an error. Keeps the response, so that its headers reach the policy and its body the caller.
#[derive(Debug)]
pub enum RequestError<E, R> {
    /// The client got no response.
    Failed(E),
    /// The status of the response is 400 or above.
    Status(R),
}

/// Turns a response whose status is 400 or above into an error. Unlike the method of `reqwest` for this, it keeps the headers: `Retry-After` is among them.
///
/// ```
/// use backstop_retry::{Describe, RequestError, success};
/// use hyper::Response;
///
/// let busy = Response::builder().status(503).header("retry-after", "7").body("busy").unwrap();
/// let error: RequestError<hyper::Error, _> = success(busy).unwrap_err();
/// assert_eq!(error.describe().retry_after.unwrap().0, 7_000);
/// ```
///
/// With the features `reqwest`, in a function that reads the body too:
///
#[cfg_attr(feature = "reqwest", doc = "```")]
#[cfg_attr(not(feature = "reqwest"), doc = "```ignore")]
/// use backstop_retry::{ReqwestError, Retrier, RetryError, success};
///
/// async fn articles(client: &reqwest::Client) -> Result<String, ReqwestError> {
///     let response = success(client.get("https://example.com/articles").send().await?)?;
///     Ok(response.text().await?)
/// }
///
/// # async fn example(client: reqwest::Client, retrier: Retrier) -> Result<(), RetryError<ReqwestError>> {
/// let text = retrier.run(|_| articles(&client)).await?;
/// # Ok(())
/// # }
/// ```
pub fn success<E, R: HttpResponse>(response: R) -> Result<R, RequestError<E, R>> {
    match response.status() {
        400.. => Err(RequestError::Status(response)),
        _ => Ok(response),
    }
}

impl<E, R> From<E> for RequestError<E, R> {
    fn from(error: E) -> Self {
        Self::Failed(error)
    }
}

impl<E: Describe, R: HttpResponse> Describe for RequestError<E, R> {
    fn describe(&self) -> Error {
        match self {
            Self::Failed(error) => error.describe(),
            Self::Status(response) => describe_response(response),
        }
    }

    fn as_error(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(error) => error.as_error(),
            Self::Status(_) => None,
        }
    }
}

/// The code is `HTTP 503`, the details are the headers.
fn describe_response(response: &impl HttpResponse) -> Error {
    let status = response.status();
    let header = |name: &str| {
        let mut headers = response.headers();
        headers.find_map(|(known, value)| (known == name).then_some(value))
    };
    Error::new(format!("HTTP {status}"), "")
        .status(status)
        .retry_after(retry_after(header))
        .details(response.headers())
}

impl<E: fmt::Display, R: HttpResponse> fmt::Display for RequestError<E, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error}"),
            Self::Status(response) => write!(f, "HTTP {}", response.status()),
        }
    }
}

impl<E: StdError + 'static, R: HttpResponse + fmt::Debug> StdError for RequestError<E, R> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::Status(_) => None,
        }
    }
}

described! {
    /// The code is that of the connection's error; `Timeout` of hyper is `ETIMEDOUT`.
    ::hyper::Error => |error| {
        let code = match network::code(error) {
            Some(code) => code,
            None if error.is_timeout() => "ETIMEDOUT",
            None => "ECONNRESET",
        };
        Error::new(code, chain(error))
    };
    /// The code is that of the connection's error, `HTTP 503` for a status, or what the client could not do: `Redirect`, and the permanent `Decode`, for a body that is not what was expected, and `ValidationException`, for a request that can't be built.
    #[cfg(feature = "reqwest")]
    ::reqwest::Error => |error| {
        let text = chain(error);
        if let Some(status) = error.status() {
            let status = status.as_u16();
            return Error::new(format!("HTTP {status}"), text).status(status);
        }
        let code = match network::code(error) {
            Some(code) => code,
            None if error.is_timeout() => "ETIMEDOUT",
            None if error.is_builder() => "ValidationException",
            None if error.is_redirect() => "Redirect",
            None if error.is_decode() => return Error::permanent("Decode", text),
            None if error.is_connect() => "ECONNREFUSED",
            None => "ECONNRESET",
        };
        Error::new(code, text)
    };
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
