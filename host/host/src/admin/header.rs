//! Headers of a request.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::answer::Refused;

/// The value of a header that must not be repeated.
pub(super) fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, Refused> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    match values.next() {
        Some(_) => Err(Refused::invalid(format!("expected one `{name}` header"))),
        None => Ok(first),
    }
}
