//! A request as the routes see it: its query, the variable part of its path, its body and its sender.

use std::time::Duration;

use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use url::form_urlencoded;

use super::answer::Refused;
use super::caller::Caller;

/// The most bytes of a request's body.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// How long a request's body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// A request to a route.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Who sends it.
    pub(crate) caller: Caller,
    /// The variable part of the path: of `/v1/messages/{}`, the id.
    pub(crate) variable: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Call {
    /// A request of the page to a route.
    pub(super) fn of_page(
        caller: Caller,
        query: Vec<(String, String)>,
        body: Option<&Value>,
    ) -> Self {
        Self {
            caller,
            variable: String::new(),
            query,
            body: body.map_or_else(Bytes::new, |body| body.to_string().into()),
        }
    }

    /// A request to the page with this body.
    pub(super) fn of_body(caller: Caller, body: Bytes) -> Self {
        Self {
            caller,
            variable: String::new(),
            query: Vec::new(),
            body,
        }
    }

    /// The names and values of a query.
    pub(super) fn parse_query(query: &str) -> Vec<(String, String)> {
        form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect()
    }

    /// The values of one query parameter, in their order.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.query.iter().filter(move |(given, _)| given == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Rejects query parameters with other names.
    pub(crate) fn expect_only(&self, names: &[&str]) -> Result<(), Refused> {
        let unknown = |(name, _): &&(String, String)| !names.contains(&name.as_str());
        match (self.query.iter().find(unknown), names) {
            (None, _) => Ok(()),
            (Some((name, _)), []) => Err(Refused::invalid(format!(
                "unknown parameter `{name}`: expected none"
            ))),
            (Some((name, _)), names) => Err(Refused::invalid(format!(
                "unknown parameter `{name}`: expected {}",
                names.join(", ")
            ))),
        }
    }

    /// The body, from JSON. The error names the mistake.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        serde_json::from_slice(&self.body)
            .map_err(|error| Refused::invalid(format!("invalid body: {error}")))
    }
}

/// How long a file may take to arrive.
const FILE_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a body to its end, within its bounds.
pub(super) async fn read_body(body: Incoming) -> Result<Bytes, Refused> {
    read(body, BODY_BYTES, BODY_TIMEOUT).await
}

/// Reads a file of at most so many bytes.
pub(super) async fn read_file(body: Incoming, most: usize) -> Result<Bytes, Refused> {
    read(body, most, FILE_TIMEOUT).await
}

async fn read(body: Incoming, bytes: usize, longest: Duration) -> Result<Bytes, Refused> {
    let most = u64::try_from(bytes).unwrap_or(u64::MAX);
    if body.size_hint().lower() > most {
        return Err(Refused::too_large(bytes));
    }
    match timeout(longest, Limited::new(body, bytes).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refused::too_large(bytes)),
        Ok(Err(error)) => Err(Refused::invalid(format!("the body is incomplete: {error}"))),
        Err(_) => Err(Refused::too_slow()),
    }
}
