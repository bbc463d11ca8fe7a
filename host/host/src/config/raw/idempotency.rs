//! The table `idempotency` of a queue: work that is done once for each key.

use super::*;

table! {
    /// Work that is done once for each key.
    Idempotency at "queues.NAME.idempotency", "a table with `table`, such as { table = \"idempotency\", key = \"/order/id\" }";

    /// The table whose records say which messages are done. A repeated message is deleted without its work.
    table: String {
        row: "the table's name",
        shown: "required",
        method: "idempotency",
        flag: Some(Flag::new("idempotency-table", "TABLE", "The DynamoDB table that records which messages are done: a repeated message is deleted without its work (host/docs/rust/idempotency.md)")),
    }

    /// Where the key is in the body: a JSON pointer or JMESPath. The default is the message's original id.
    key: Option<String> => idempotency_key(String) {
        row: "where the key is in the body: a JSON pointer such as `/order/id`, or JMESPath such as `order.id`",
        shown: "the message's original id, which a resent message keeps",
        flag: Some(Flag::new("idempotency-key", "PATH", "Where the key is in the body: a JSON pointer such as /order/id, or JMESPath [default: the message's original id]").requires("idempotency-table")),
    }

    /// What of the body has to be the same in a repeat: a JSON pointer or JMESPath.
    validate: Option<String> => idempotency_validate(String) {
        row: "what of the body has to be the same in a repeat",
        shown: "nothing",
        flag: Some(Flag::new("idempotency-validate", "PATH", "What of the body has to be the same in a repeat: a JSON pointer or JMESPath").requires("idempotency-table")),
    }

    /// What keys begin with. The default is the queue's name in SQS.
    prefix: Option<String> => idempotency_prefix(String) {
        row: "what keys begin with: queues with the same work have the same",
        shown: "the queue's name in SQS",
        flag: Some(Flag::new("idempotency-prefix", "TEXT", "What keys begin with [default: the queue's name]").requires("idempotency-table")),
    }

    /// Whose records the table holds.
    format: Option<RecordFormat> = "python" => idempotency_format(RecordFormat) {
        row: "whose records the table holds: `python` or `typescript`",
        shown: "`python`",
        flag: Some(Flag::new("idempotency-format", "python|typescript", "Whose records the table holds: those of Powertools for Python or for TypeScript").requires("idempotency-table")),
    }

    /// How long the lease of work in progress lasts. It is renewed while the work runs.
    lease: Option<Span> = "20s" => idempotency_lease(Duration) {
        bounds: "at least 1s: the clocks of two machines differ",
        row: "how long work in progress is protected; renewed while it runs ([what is safe](../rust/idempotency.md#leases))",
        flag: Some(Flag::new("idempotency-lease", "DURATION", "How long work in progress is protected; renewed while it runs").requires("idempotency-table")),
    }

    /// How long completed work is remembered: SQS keeps a message for 14 days at most, and a policy delays it for 14 days at most.
    expires_after: Option<Span> = "30d" => idempotency_expires_after(Duration) {
        bounds: "at least 1s",
        row: "how long done work is remembered: [longer than a message can come again](../rust/idempotency.md#how-long-records-count)",
        flag: Some(Flag::new("idempotency-expires-after", "DURATION", "How long done work is remembered").requires("idempotency-table")),
    }

    /// What happens to work that may have been done, because its host crashed.
    on_unknown: Option<OnUnknown> = "retry" => on_unknown(OnUnknown) {
        row: "what happens to work that may have been done: `retry` or `dead-letter`",
        shown: "`retry`",
        flag: Some(Flag::new("idempotency-on-unknown", "retry|dead-letter", "What happens to work that may have been done, because its host crashed").requires("idempotency-table")),
    }

    /// What happens to a message without a key.
    on_missing_key: Option<OnMissingKey> = "error" => on_missing_key(OnMissingKey) {
        row: "what happens to a message without a key: `error` or `not-idempotent`",
        shown: "`error`",
        flag: Some(Flag::new("idempotency-on-missing-key", "error|not-idempotent", "What happens to a message without a key").requires("idempotency-table")),
    }

    /// The names of a record's attributes, and the table's sort key. The default is those of Powertools, without a sort key.
    attributes: Option<RecordAttributes> => idempotency_attributes(RecordAttributes) {
        row: "the names of a record's attributes, and the sort key, below",
        shown: "those of Powertools",
    }
}
