//! The responses of the page, with what the browser may do with each.

use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, SET_COOKIE};
use maud::Markup;
use serde_json::json;

use crate::admin::answer::{self, Answer};
use crate::http_server::FullResponse;

/// What the browser may load: the files above, and answers of this host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What a picture may: it has styles of its own, and runs nothing.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// A view.
pub(super) fn html(shown: Markup, status: StatusCode) -> FullResponse {
    let mut response = with_type("text/html; charset=utf-8", shown.into_string());
    *response.status_mut() = status;
    response
}

/// A text of this type.
pub(super) fn with_type(kind: &'static str, text: String) -> FullResponse {
    let mut response = answer::response(Ok(Answer::text(kind, text)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert("referrer-policy", HeaderValue::from_static("no-referrer"));
    headers.insert(
        "cross-origin-opener-policy",
        HeaderValue::from_static("same-origin"),
    );
    response
}

/// An answer that sets a cookie.
pub(super) fn with_cookie(cookie: &str) -> FullResponse {
    let mut response = answer::response(Answer::json(&json!({})));
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// A picture: it has styles of its own, and runs nothing.
pub(super) fn picture(svg: String) -> FullResponse {
    let mut response = with_type("image/svg+xml", svg);
    let policy = HeaderValue::from_static(PICTURE_POLICY);
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    response
}
