//! The answers of routes, and refusals.

use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};

use super::VERSION;
use crate::config::AdminRole;
use crate::http_server::FullResponse;
use crate::text::visible;

/// What a route answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    status: StatusCode,
    content: Content,
    /// What an action did, in a few words for the log.
    pub(super) result: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Content {
    Json(Value),
    Text(&'static str, String),
}

impl Answer {
    /// A JSON object. The version of the interface is added to it.
    pub(crate) fn json(object: &impl Serialize) -> Result<Self, Refused> {
        let value = serde_json::to_value(object).map_err(Refused::internal)?;
        Ok(Self::of(StatusCode::OK, Content::Json(versioned(value))))
    }

    /// A JSON object with a status other than 200.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Text of this content type.
    pub(crate) fn text(content_type: &'static str, text: String) -> Self {
        Self::of(StatusCode::OK, Content::Text(content_type, text))
    }

    /// The JSON of an answer; `null` of one that is none.
    pub(super) fn into_json(self) -> Value {
        match self.content {
            Content::Json(value) => value,
            Content::Text(..) => Value::Null,
        }
    }

    /// Says in a few words what an action did, for the log.
    pub(crate) fn with_result(mut self, result: impl Into<String>) -> Self {
        self.result = result.into();
        self
    }

    fn of(status: StatusCode, content: Content) -> Self {
        Self {
            status,
            content,
            result: String::new(),
        }
    }
}

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Refused {
    status: StatusCode,
    reason: String,
    /// What is missing if the client may not send this request at all.
    access: Option<&'static str>,
    header: Option<(HeaderName, HeaderValue)>,
}

impl Refused {
    /// What is missing if the client may not send this request at all, as a label of metrics: the `token`, the right `site`, or the `role`.
    pub(super) const fn access(&self) -> Option<&'static str> {
        self.access
    }

    fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
            access: None,
            header: None,
        }
    }

    /// 400: the request is not what the route expects.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, reason)
    }

    /// 401: the token is missing or wrong.
    pub(super) fn unauthorized(reason: impl Into<String>) -> Self {
        let mut refused = Self::new(StatusCode::UNAUTHORIZED, reason);
        refused.header = Some((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        refused.access = Some("token");
        refused
    }

    /// 403: the request may be of another site.
    pub(super) fn forbidden(reason: impl Into<String>) -> Self {
        let mut refused = Self::new(StatusCode::FORBIDDEN, reason);
        refused.access = Some("site");
        refused
    }

    /// 403: who sends the request may look, and not do what needs this role.
    fn not_allowed(needed: AdminRole) -> Self {
        let reason = match needed {
            AdminRole::View => "looking needs a token of this host",
            AdminRole::Bodies => {
                "you may not see bodies of messages: expected the role `bodies` or `act`, such as by the token of `admin-bodies-token-file`"
            }
            AdminRole::Act => {
                "you may look only: expected the role `act`, such as by the token of `admin-token-file`"
            }
        };
        let mut refused = Self::new(StatusCode::FORBIDDEN, reason);
        refused.access = Some("role");
        refused
    }

    /// 403: the proxy names somebody who is in none of the groups that may do anything.
    pub(super) fn no_group() -> Self {
        let reason = "you are in no group that may look: expected one of `admin-proxy.groups`";
        let mut refused = Self::new(StatusCode::FORBIDDEN, reason);
        refused.access = Some("role");
        refused
    }

    /// Refuses what needs another role than this one.
    pub(super) fn unless(role: AdminRole, needed: AdminRole) -> Result<(), Self> {
        if role >= needed {
            Ok(())
        } else {
            Err(Self::not_allowed(needed))
        }
    }

    /// 404: the path, or what the request names, does not exist.
    pub(crate) fn not_found(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason)
    }

    /// 405: the path has another method.
    pub(super) fn method(allowed: &'static str) -> Self {
        let reason = format!("expected the method {allowed}");
        let mut refused = Self::new(StatusCode::METHOD_NOT_ALLOWED, reason);
        refused.header = Some((ALLOW, HeaderValue::from_static(allowed)));
        refused
    }

    /// 409: it would change more than the request names.
    pub(crate) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    /// 408: the body did not arrive in time.
    pub(super) fn too_slow() -> Self {
        let reason = "the body did not arrive in time";
        Self::new(StatusCode::REQUEST_TIMEOUT, reason)
    }

    /// 413: the body has too many bytes.
    pub(super) fn too_large(most: usize) -> Self {
        let reason = format!("expected a body of at most {most} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, reason)
    }

    /// 415: the body is not JSON.
    pub(super) fn not_json() -> Self {
        let reason = "expected a body with `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason)
    }

    /// 415: the body is no file.
    pub(super) fn not_of_type(expected: &str) -> Self {
        let reason = format!("expected a body with `Content-Type: {expected}`");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason)
    }

    /// 500: a fault of the host.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }

    /// 503: not now.
    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason)
    }
}

fn versioned(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.insert("version".to_owned(), VERSION.into());
    }
    value
}

/// The response of a route.
pub(super) fn response(answered: Result<Answer, Refused>) -> FullResponse {
    let (status, content, header) = match answered {
        Ok(Answer {
            status, content, ..
        }) => (status, content, None),
        Err(refused) => {
            let error = json!({ "error": refused.reason });
            let content = Content::Json(versioned(error));
            (refused.status, content, refused.header)
        }
    };
    let (content_type, text) = match content {
        Content::Json(value) => (
            "application/json",
            format!("{}\n", visible(&value.to_string())),
        ),
        Content::Text(content_type, text) => (content_type, text),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    // No page may embed, cache or reinterpret an answer.
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.extend(header);
    response
}
