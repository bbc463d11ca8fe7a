//! Work that is done once for each key.

use super::{Backstop, Change};
use crate::config::raw::Idempotency;

/// Work that is done once for each key, by the records in a table of DynamoDB (feature `idempotency`).
///
/// ```
/// # use backstop_core::idempotency::OnUnknown;
/// # use backstop_host::Backstop;
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
        Idempotency::change(self, "table", |it| it.table.clone_from(&table))
    }
}
