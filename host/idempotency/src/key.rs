//! The key of a record: prefix, `#` and the hash of a value.

use backstop_core::idempotency::OnMissingKey;
use serde::Serialize;

use crate::event::{Event, SearchError};
use crate::json::{Json, JsonError};
use crate::settings::Settings;

/// The key of a record, and the hash of the payload that a repeat must have.
///
/// ```
/// use backstop_idempotency::{Event, Idempotency, MemoryStore};
///
/// let idempotency = Idempotency::builder(MemoryStore::default(), "orders").key("/id").build()?;
/// let key = idempotency.key_of(&Event::parse(r#"{"id": 7}"#)?)?;
/// // To look a record up in the table.
/// assert_eq!(key.unwrap().as_str(), "orders#8f14e45fceea167a5a36dedd4bea2543");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    id: String,
    validation: Option<String>,
}

/// Why an event has no key.
///
/// ```
/// use backstop_idempotency::{Event, Idempotency, KeyError, MemoryStore};
///
/// let idempotency = Idempotency::builder(MemoryStore::default(), "orders").key("/id").build()?;
/// let missing = idempotency.key_of(&Event::parse("{}")?);
/// assert!(matches!(missing, Err(KeyError::Missing)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is nothing where the key should be.
    #[error("the event has no idempotency key")]
    Missing,
    /// The builder was given no path.
    #[error("no path says where the idempotency key is in an event")]
    NoPath,
    /// The event is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A path fails in this event.
    #[error(transparent)]
    Search(#[from] SearchError),
}

impl Key {
    /// The record's key in the store: prefix, `#` and hash.
    pub fn as_str(&self) -> &str {
        &self.id
    }

    /// The hash of the payload that a repeat must have.
    pub fn validation(&self) -> Option<&str> {
        self.validation.as_deref()
    }

    pub(crate) fn of<T: Serialize + ?Sized>(
        settings: &Settings,
        value: &T,
    ) -> Result<Option<Self>, KeyError> {
        Self::of_json(settings, &Json::of(value)?)
    }

    fn of_json(settings: &Settings, value: &Json) -> Result<Option<Self>, KeyError> {
        if value.is_missing() {
            return match settings.on_missing_key {
                OnMissingKey::Error => Err(KeyError::Missing),
                OnMissingKey::NotIdempotent => Ok(None),
            };
        }
        Ok(Some(Self {
            id: format!("{}#{}", settings.prefix, settings.hash(value)),
            validation: None,
        }))
    }

    /// `None` if the event has no key and need not have one.
    pub(crate) fn of_event(settings: &Settings, event: &Event) -> Result<Option<Self>, KeyError> {
        let path = settings.key.as_ref().ok_or(KeyError::NoPath)?;
        let format = settings.store.format();
        let Some(key) = Self::of_json(settings, &path.find(format, event)?)? else {
            return Ok(None);
        };
        let validation = settings.validate.as_ref();
        let validation = validation.map(|path| path.find(format, event));
        let validation = validation.transpose()?.map(|it| settings.hash(&it));
        Ok(Some(Self { validation, ..key }))
    }
}
