//! How often requests for dead letters are tried.

use backstop_core::backoff::Backoff;
use backstop_queue::{AFTER_LOST_SEND, QueueError, Retry};

/// Requests that somebody waits for: three seconds at most.
pub(crate) const PROMPT: Retry = Retry::new(Backoff::milliseconds(200, 2_000)).tries(5);

/// Requests of a run, which goes on by itself: half a minute at most.
pub(crate) const PATIENT: Retry = Retry::new(Backoff::milliseconds(200, 30_000)).tries(8);

/// Requests of which each may leave another copy of a letter.
pub(crate) const SENDS: Retry = PATIENT.after_unknown(AFTER_LOST_SEND);

/// A request that may be made twice, again while that may still succeed.
pub(crate) async fn read<T, F>(request: impl Fn() -> F) -> Result<T, QueueError>
where
    F: Future<Output = Result<T, QueueError>>,
{
    PROMPT.request(request, QueueError::is_retryable).await
}
