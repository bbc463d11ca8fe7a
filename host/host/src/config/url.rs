//! The URLs in the configuration.

use backstop_aws::http_url;

pub use backstop_aws::parse_endpoint;
use url::Url;

use super::{ConfigError, value};

/// What stands before a URL whose name has the addresses of several hosts.
const BY_NAME: &str = "dns+";

/// The URL of an admin interface, and whether its name stands for several hosts.
pub(crate) fn admin_url(text: &str) -> Option<(Url, bool)> {
    let (plain, is_name) = match text.strip_prefix(BY_NAME) {
        Some(plain) => (plain, true),
        None => (text, false),
    };
    let url = Url::parse(plain).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some((url, is_name))
}

pub(super) fn endpoint(place: &str, text: &str) -> Result<String, ConfigError> {
    parse_endpoint(text).map_err(|why| value(place, why))
}

/// Checks the URL of a queue. No request is made.
pub(super) fn queue_url(place: &str, url: String) -> Result<String, ConfigError> {
    const SUCH_AS: &str = "expected one such as https://sqs.eu-west-1.amazonaws.com/123456789012/orders, or local:orders";
    if let Some(name) = url.strip_prefix("local:")
        && !name.is_empty()
        && !name.contains(['/', ':'])
    {
        return Ok(url);
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        let why = format!("`{url}` is not the URL of a queue: {SUCH_AS}");
        return Err(value(place, why));
    }
    match http_url(&url) {
        Ok(_) => Ok(url),
        Err(why) => Err(value(
            place,
            format!("`{url}` is not the URL of a queue: {why}; {SUCH_AS}"),
        )),
    }
}
