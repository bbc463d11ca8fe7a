//! Sends what letters become to their targets, with retries while they may still succeed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use backstop_backoff::{Class, classify};
use backstop_core::failure::Error;
use backstop_functions::LambdaApi;
use backstop_queue::{BATCH_BYTES, BATCH_ENTRIES};
use backstop_queue::{BatchResult, Outgoing, Queue, QueueError};
use futures_util::future::join_all;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often a request is tried.
const TRIES: u32 = 8;

/// The wait before the second try. Each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);

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

/// Splits messages into batches that SQS accepts: the positions of the first and after the last of each.
pub(super) fn batches(sizes: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (position, size) in sizes.iter().enumerate() {
        let is_full = position - start >= BATCH_ENTRIES || bytes + size > BATCH_BYTES;
        if position > start && is_full {
            batches.push(start..position);
            (start, bytes) = (position, 0);
        }
        bytes += size;
    }
    if start < sizes.len() {
        batches.push(start..sizes.len());
    }
    batches
}

/// Sends one batch of messages.
pub(super) async fn send_batch(
    queue: &Arc<dyn Queue>,
    messages: Vec<Outgoing>,
    stop: &CancellationToken,
) -> Sending {
    let mut sending = Sending {
        results: vec![Sent::Unusable(String::new()); messages.len()],
        uncertain: Vec::new(),
    };
    // A FIFO queue recognises a message that is sent twice.
    let is_fifo = messages.iter().any(|it| it.deduplication_id.is_some());
    let mut left: Vec<usize> = (0..messages.len()).collect();
    let mut wait = FIRST_WAIT;
    for tried in 1..=TRIES {
        let batch: Vec<_> = pick(&messages, &left);
        let mut again = Vec::new();
        match queue.send_tracked(&batch).await {
            Ok(results) => {
                for (position, result) in left.iter().copied().zip(results) {
                    let sent = match result {
                        Ok(id) => Sent::Accepted(id),
                        Err(error) if error.retryable => {
                            again.push(position);
                            if error.code == "Unanswered" && !is_fifo {
                                sending.uncertain.push(position);
                            }
                            Sent::Unusable(error.to_string())
                        }
                        Err(error) => Sent::Refused(error.to_string()),
                    };
                    set(&mut sending.results, position, sent);
                }
            }
            Err(error) if error.retryable => {
                let is_throttled = classify(&error.code, None) == Class::Throttled;
                for position in &left {
                    set(
                        &mut sending.results,
                        *position,
                        Sent::Unusable(error.to_string()),
                    );
                }
                if !is_throttled && !is_fifo {
                    sending.uncertain.extend(&left);
                }
                again = left;
            }
            Err(error) if concerns_one(&error) && left.len() > 1 => {
                for position in left {
                    let one = pick(&messages, &[position]);
                    let alone = Box::pin(send_batch(queue, one, stop)).await;
                    if !alone.uncertain.is_empty() {
                        sending.uncertain.push(position);
                    }
                    if let Some(sent) = alone.results.into_iter().next() {
                        set(&mut sending.results, position, sent);
                    }
                }
                break;
            }
            Err(error) => {
                for position in left {
                    let sent = if concerns_one(&error) {
                        Sent::Refused(error.to_string())
                    } else {
                        Sent::Unusable(error.to_string())
                    };
                    set(&mut sending.results, position, sent);
                }
                break;
            }
        }
        left = again;
        if left.is_empty() || tried == TRIES || stop.is_cancelled() {
            break;
        }
        sleep(wait).await;
        wait *= 2;
    }
    sending.uncertain.sort_unstable();
    sending.uncertain.dedup();
    sending
}

fn pick(messages: &[Outgoing], positions: &[usize]) -> Vec<Outgoing> {
    let at = |position: &usize| messages.get(*position).cloned();
    positions.iter().filter_map(at).collect()
}

fn set(results: &mut [Sent], position: usize, sent: Sent) {
    if let Some(slot) = results.get_mut(position) {
        *slot = sent;
    }
}

/// Whether the queue may have rejected a batch because of one of its messages.
fn concerns_one(error: &QueueError) -> bool {
    !error.retryable
        && !error.is_access_denied()
        && !error.is_missing_queue()
        && !error.code.starts_with("KMS.")
}

/// Invokes a function with each event.
pub(super) async fn invoke(
    api: &LambdaApi,
    function: &str,
    events: Vec<String>,
    stop: &CancellationToken,
) -> Sending {
    let each = events
        .into_iter()
        .map(|event| invoke_one(api, function, event, stop));
    let mut sending = Sending::default();
    for (position, (sent, is_uncertain)) in join_all(each).await.into_iter().enumerate() {
        sending.results.push(sent);
        if is_uncertain {
            sending.uncertain.push(position);
        }
    }
    sending
}

async fn invoke_one(
    api: &LambdaApi,
    function: &str,
    event: String,
    stop: &CancellationToken,
) -> (Sent, bool) {
    let mut wait = FIRST_WAIT;
    let mut is_uncertain = false;
    let mut last = String::new();
    for tried in 1..=TRIES {
        match api.queue_event(function, event.clone()).await {
            Ok(id) => return (Sent::Accepted(id), is_uncertain),
            Err(error) => {
                last = error.to_string();
                match classify(&error.code, error.status) {
                    Class::Permanent if of_event(&error) => {
                        return (Sent::Refused(last), is_uncertain);
                    }
                    Class::Permanent => return (Sent::Unusable(last), is_uncertain),
                    Class::Throttled => {}
                    Class::Transient => is_uncertain = true,
                }
            }
        }
        if tried == TRIES || stop.is_cancelled() {
            break;
        }
        sleep(wait).await;
        wait *= 2;
    }
    (Sent::Unusable(last), is_uncertain)
}

/// Whether Lambda rejects the event, and not the caller or the function.
fn of_event(error: &Error) -> bool {
    let of_event = [
        "RequestTooLargeException",
        "RequestEntityTooLargeException",
        "InvalidRequestContentException",
    ];
    of_event.contains(&error.code.as_str())
}

/// The result of each entry of a batch request that can be repeated, such as a delete, with retries of those that may still succeed.
pub(super) async fn repeat<'a, T, F>(
    entries: &'a [T],
    request: impl Fn(&'a [T]) -> F,
) -> Vec<Result<(), String>>
where
    F: Future<Output = BatchResult>,
{
    let mut results: Vec<Result<(), String>> = vec![Err(String::new()); entries.len()];
    let mut wait = FIRST_WAIT;
    for tried in 1..=TRIES {
        let mut can_retry = false;
        match request(entries).await {
            Ok(all) => {
                for (slot, result) in results.iter_mut().zip(all) {
                    can_retry |= matches!(&result, Err(error) if error.retryable) && slot.is_err();
                    // An entry that has succeeded once is done: the same request may fail later.
                    if slot.is_err() {
                        *slot = result.map_err(|error| error.to_string());
                    }
                }
            }
            Err(error) => {
                can_retry = error.retryable;
                for slot in results.iter_mut().filter(|slot| slot.is_err()) {
                    *slot = Err(error.to_string());
                }
            }
        }
        if !can_retry || tried == TRIES {
            break;
        }
        sleep(wait).await;
        wait *= 2;
    }
    results
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "a list of one batch is meant"
)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_ten_messages_and_a_mebibyte_at_most() {
        assert!(batches(&[]).is_empty());
        assert_eq!(batches(&[1; 10]), [0..10]);
        assert_eq!(batches(&[1; 21]), [0..10, 10..20, 20..21]);
        assert_eq!(batches(&[BATCH_BYTES; 2]), [0..1, 1..2]);
        assert_eq!(batches(&[600_000, 400_000, 100_000]), [0..2, 2..3]);
        assert_eq!(batches(&[2 * BATCH_BYTES]), [0..1]);
    }
}
