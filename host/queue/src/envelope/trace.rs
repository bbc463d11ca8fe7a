//! A span in an envelope: as a W3C `traceparent`. Another text is none, as in a message that a stranger has sent.

use backstop_traces::TraceContext;
use serde::{Deserialize, Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(
    trace: &Option<TraceContext>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match trace {
        Some(trace) => serializer.collect_str(trace),
        None => serializer.serialize_none(),
    }
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<TraceContext>, D::Error> {
    let text = serde_json::Value::deserialize(deserializer)?;
    Ok(text.as_str().and_then(TraceContext::of_traceparent))
}
