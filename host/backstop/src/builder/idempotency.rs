//! Work that is done once for each key.

use std::time::Duration;

use super::Backstop;
use crate::config::raw::{Idempotency, Span};
use crate::config::{OnMissingKey, OnUnknown, RecordAttributes, RecordFormat};

/// Work that is done once for each key, by the records in a table of DynamoDB (feature `idempotency`).
///
/// ```
/// # use backstop::{Backstop, OnUnknown};
/// let host = Backstop::queue("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
///     .idempotency("idempotency")
///     .idempotency_key("/order/id")
///     .on_unknown(OnUnknown::DeadLetter)
///     .handler(|_order| async { Ok(()) });
/// # let _ = host;
/// ```
impl Backstop {
    /// The table whose records say which messages are done. A repeated message is deleted without its work.
    pub fn idempotency(self, table: impl Into<String>) -> Self {
        let table = table.into();
        self.idempotent("table", |it| it.table.clone_from(&table))
    }

    /// Where the key is in the body: a JSON pointer or JMESPath. The default is the message's original id.
    pub fn idempotency_key(self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.idempotent("key", |it| it.key = Some(path.clone()))
    }

    /// What of the body has to be the same in a repeat: a JSON pointer or JMESPath.
    pub fn idempotency_validate(self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.idempotent("validate", |it| it.validate = Some(path.clone()))
    }

    /// What keys begin with. The default is the queue's name in SQS.
    pub fn idempotency_prefix(self, prefix: impl Into<String>) -> Self {
        let prefix = prefix.into();
        self.idempotent("prefix", |it| it.prefix = Some(prefix.clone()))
    }

    /// Whose records the table holds. The default is [`RecordFormat::Python`].
    pub fn idempotency_format(self, format: RecordFormat) -> Self {
        self.idempotent("format", |it| it.format = Some(format))
    }

    /// How long the lease of work in progress lasts. It is renewed while the work runs. The default is 20 seconds.
    pub fn idempotency_lease(self, lease: Duration) -> Self {
        self.idempotent("lease", |it| it.lease = Some(Span(lease)))
    }

    /// How long completed work is remembered. The default is 30 days: SQS keeps a message for 14 days at most, and a policy delays it for 14 days at most.
    pub fn idempotency_expires_after(self, duration: Duration) -> Self {
        self.idempotent("expires-after", |it| {
            it.expires_after = Some(Span(duration))
        })
    }

    /// What happens to work that may have been done, because its host crashed. The default is [`OnUnknown::Retry`].
    pub fn on_unknown(self, on_unknown: OnUnknown) -> Self {
        self.idempotent("on-unknown", |it| it.on_unknown = Some(on_unknown))
    }

    /// What happens to a message without a key. The default is [`OnMissingKey::Error`].
    pub fn on_missing_key(self, on_missing_key: OnMissingKey) -> Self {
        self.idempotent("on-missing-key", |it| {
            it.on_missing_key = Some(on_missing_key)
        })
    }

    /// The names of a record's attributes, and the table's sort key. The default is those of Powertools, without a sort key.
    pub fn idempotency_attributes(self, attributes: RecordAttributes) -> Self {
        self.idempotent("attributes", |it| it.attributes = Some(attributes.clone()))
    }

    fn idempotent(self, key: &str, set: impl Fn(&mut Idempotency)) -> Self {
        self.value(&format!("idempotency.{key}"), |queue| {
            set(queue.idempotency.get_or_insert_default());
        })
    }
}
