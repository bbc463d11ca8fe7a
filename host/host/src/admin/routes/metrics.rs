//! `/metrics`: the metrics for Prometheus, as at the address of `metrics`.

use std::sync::Arc;

use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::exporter::TEXT;

/// The metrics in the text format.
pub(super) async fn metrics(host: Arc<Interface>, _: Call) -> Result<Answer, Refused> {
    Ok(Answer::text(TEXT, host.metrics()?.render()))
}
