//! Events, and where the idempotency key is in them.

use backstop_core::idempotency::RecordFormat;
use serde::Serialize;

use crate::json::{Json, JsonError};

/// An event, in which the idempotency key and the payload for validation are found.
///
/// Numbers keep their digits and objects their order, because the formats of Powertools hash both.
///
/// ```
/// use backstop_idempotency::Event;
///
/// let received = Event::parse(r#"{"order": {"id": 12345678901234567890}}"#)?;
/// let made = Event::of(&serde_json::json!({"order": {"id": 7}}))?;
/// # Ok::<(), backstop_idempotency::JsonError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Event(pub(crate) Json);

impl Event {
    /// Parses JSON text.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Json::parse(text).map(Self)
    }

    /// A value as serde writes it.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JsonError> {
        Json::of(value).map(Self)
    }
}

/// Where something is in an event: a JSON pointer (RFC 6901) such as `/order/id`, or, with the feature `jmespath`, a JMESPath expression such as `order.id` or `powertools_json(body).[user, order]`.
///
/// ```
/// use backstop_idempotency::Path;
///
/// let path: Path = "/order/id".parse()?;
/// # Ok::<(), backstop_idempotency::PathError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Path(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Pointer(String),
    #[cfg(feature = "jmespath")]
    JmesPath(std::sync::Arc<crate::jmespath::Expression>),
}

/// Why text is no path.
///
/// ```
/// use backstop_idempotency::{Path, PathError};
///
/// let error = "order..id".parse::<Path>().unwrap_err();
/// assert!(matches!(error, PathError::JmesPath(..) | PathError::NotAPointer(_)));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// A JSON pointer begins with `/`, and this program was built without JMESPath.
    #[error(
        "`{0}` is not a JSON pointer such as `/order/id`; JMESPath needs the feature `jmespath`"
    )]
    NotAPointer(String),
    /// The text is not a JMESPath expression.
    #[error("`{0}` is not a JMESPath expression: {1}")]
    JmesPath(String, String),
}

/// Why a path cannot be followed in an event.
#[derive(Debug, thiserror::Error)]
#[error("the path cannot be followed in this event: {0}")]
pub struct SearchError(pub(crate) String);

impl std::str::FromStr for Path {
    type Err = PathError;

    /// Text that is empty or begins with `/` is a pointer, other text is JMESPath: no JMESPath expression begins with `/`.
    fn from_str(text: &str) -> Result<Self, PathError> {
        if text.is_empty() || text.starts_with('/') {
            return Ok(Self(Kind::Pointer(text.to_owned())));
        }
        #[cfg(feature = "jmespath")]
        return crate::jmespath::Expression::compile(text)
            .map(|it| Self(Kind::JmesPath(it.into())))
            .map_err(|why| PathError::JmesPath(text.to_owned(), why));
        #[cfg(not(feature = "jmespath"))]
        Err(PathError::NotAPointer(text.to_owned()))
    }
}

impl Path {
    /// What is at this path. `null` if there is nothing, as in JMESPath.
    #[cfg_attr(
        not(feature = "jmespath"),
        expect(unused_variables, reason = "a pointer finds the same in both formats")
    )]
    pub(crate) fn find(&self, format: RecordFormat, event: &Event) -> Result<Json, SearchError> {
        match &self.0 {
            Kind::Pointer(pointer) => Ok(event.0.pointer(pointer).cloned().unwrap_or(Json::Null)),
            #[cfg(feature = "jmespath")]
            Kind::JmesPath(expression) => expression.find(format, &event.0).map_err(SearchError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_a_path_is_null() {
        let event = Event::parse(r#"{"order": {"id": 7}}"#).unwrap();
        let find = |path: &str| {
            let path: Path = path.parse().unwrap();
            path.find(RecordFormat::Python, &event).unwrap()
        };
        assert_eq!(find("/order/id"), Json::Number("7".to_owned()));
        assert_eq!(find("/order/number"), Json::Null);
        assert_eq!(find(""), event.0);
    }
}
