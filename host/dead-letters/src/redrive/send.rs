//! Sends what letters become to their targets, with retries while they may still succeed.

use std::sync::Arc;

use backstop_core::failure::Error;
use backstop_functions::LambdaApi;
use backstop_queue::{Meaning, Outgoing, Queue, SubmitError, Tried};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::requests::{PATIENT, SENDS};

/// What has become of a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sent {
    /// Accepted, with the id that it has got, if known.
    Accepted(Option<String>),
    /// Not accepted, for a reason that concerns this letter.
    Refused(String),
    /// Not sent: the target can't be used.
    Unusable(String),
}

/// The result of sending some letters.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// What has become of each, in their order.
    pub(super) results: Vec<Sent>,
    /// The positions of those that may have arrived twice or without an answer.
    pub(super) uncertain: Vec<usize>,
}

/// Sends one batch of messages.
pub(super) async fn send_batch(
    queue: &Arc<dyn Queue>,
    messages: &[Outgoing],
    stop: &CancellationToken,
) -> Sending {
    // A FIFO queue recognises a message that is sent twice.
    let is_fifo = messages.iter().any(|it| it.deduplication_id.is_some());
    let send = |batch: Vec<_>| async move { queue.send_tracked(&batch).await };
    let goes_on = || !stop.is_cancelled();
    let all = SENDS.batch(messages, goes_on, send).await;
    let mut sending = Sending::default();
    for Tried {
        result,
        is_uncertain,
    } in all
    {
        sending.add(
            result.map_or_else(Sent::of_error, Sent::Accepted),
            is_uncertain && !is_fifo,
        );
    }
    sending
}

impl Sending {
    fn add(&mut self, sent: Sent, is_uncertain: bool) {
        if is_uncertain {
            self.uncertain.push(self.results.len());
        }
        self.results.push(sent);
    }
}

impl Sent {
    fn of_error(error: SubmitError) -> Self {
        let is_of_letter = match &error {
            SubmitError::Entry(error) => !error.retryable,
            SubmitError::Request(error) => error.may_concern_one_entry(),
            SubmitError::Ended => false,
        };
        Self::failed(is_of_letter, error.to_string())
    }

    fn failed(is_of_letter: bool, why: String) -> Self {
        if is_of_letter {
            Self::Refused(why)
        } else {
            Self::Unusable(why)
        }
    }
}

/// Invokes a function with each event.
pub(super) async fn invoke(
    api: &LambdaApi,
    function: &str,
    events: Vec<String>,
    stop: &CancellationToken,
) -> Sending {
    let each = events.iter();
    let each = each.map(|event| invoke_one(api, function, event, stop));
    let mut sending = Sending::default();
    for (sent, is_uncertain) in join_all(each).await {
        sending.add(sent, is_uncertain);
    }
    sending
}

async fn invoke_one(
    api: &LambdaApi,
    function: &str,
    event: &str,
    stop: &CancellationToken,
) -> (Sent, bool) {
    let mut is_uncertain = false;
    let meaning = |error: &Error| Meaning::of_invocation(&error.code, error.status);
    let request = || api.queue_event(function, event.to_owned());
    let result = PATIENT.request(request, |error| {
        is_uncertain |= meaning(error) == Meaning::Unknown;
        meaning(error).may_pass() && !stop.is_cancelled()
    });
    match result.await {
        Ok(id) => (Sent::Accepted(id), is_uncertain),
        Err(error) => {
            is_uncertain |= meaning(&error) == Meaning::Unknown;
            let is_of_event = meaning(&error) == Meaning::Refused;
            let sent = Sent::failed(is_of_event, error.to_string());
            (sent, is_uncertain)
        }
    }
}
