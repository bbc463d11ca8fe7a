//! Decision records: the file that `backstop policy replay` reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use backstop_core::failure::Failure;
use backstop_records::{DecisionRecord, End, Observer as _, Recorder};

use crate::event::{Evaluated, Event, Observer};

/// Passes every decision of a retrier to a recorder.
pub(crate) struct Records(pub(crate) Arc<Recorder>);

impl Observer for Records {
    fn observe(&self, event: &Event<'_>) {
        let (retrier, failure, evaluated, end) = match *event {
            Event::Retrying {
                retrier,
                failure,
                evaluated,
                ..
            } => (retrier, failure, evaluated, None),
            Event::Ended {
                retrier,
                end,
                failed: Some((failure, evaluated)),
                ..
            } => (retrier, failure, evaluated, Some(end)),
            // Nothing was decided.
            Event::Ended { failed: None, .. } | Event::Succeeded { .. } => return,
        };
        self.0.decided(&record(retrier, failure, evaluated, end));
    }
}

fn record(
    retrier: &str,
    failure: &Failure,
    evaluated: &Evaluated,
    end: Option<End>,
) -> DecisionRecord {
    DecisionRecord {
        time: failure.failed_at.plus(evaluated.took),
        queue: retrier.to_owned(),
        policy: evaluated.policy.to_vec(),
        failure: failure.clone(),
        payload: BTreeMap::new(),
        payload_left_out: 0,
        details_left_out: 0,
        others: Default::default(),
        decision: evaluated.decision.clone(),
        log: evaluated.log.clone(),
        hops: 0,
        duplicate: false,
        end,
        fuel: evaluated.fuel,
        took_us: u64::try_from(evaluated.took.as_micros()).unwrap_or(u64::MAX),
        shadow: None,
    }
}
