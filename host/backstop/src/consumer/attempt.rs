//! One attempt: the handler runs until it ends, its time is over, or the consumer stops.

use std::sync::Arc;

use tokio::task::JoinError;
use tokio::time::sleep;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::Shared;
use crate::failure::{Error, Milliseconds};
use crate::handler::{PANIC, TIMEOUT};
use crate::queue::Message;

/// How an attempt ended.
pub(super) enum Outcome {
    Succeeded,
    Failed(Error),
    /// The consumer stopped before the attempt ended.
    Interrupted,
}

/// Runs the handler on a message.
pub(super) async fn run(shared: &Shared, message: &Arc<Message>) -> Outcome {
    let (handler, message) = (Arc::clone(&shared.handler), Arc::clone(message));
    // In its own task, so that a panic is an outcome like any other.
    let task = tokio::spawn(async move { handler.handle_shared(message).await }.in_current_span());
    let mut attempt = AbortOnDropHandle::new(task);
    let longest = shared.options.attempt_timeout;
    tokio::select! {
        biased;
        ended = &mut attempt => outcome(ended),
        () = sleep(longest) => {
            let longest = Milliseconds::from_duration(longest);
            Outcome::Failed(Error::new(TIMEOUT, format!("no outcome within {longest}")))
        }
        () = shared.abort.cancelled() => Outcome::Interrupted,
    }
}

fn outcome(ended: Result<Result<(), Error>, JoinError>) -> Outcome {
    match ended {
        Ok(Ok(())) => Outcome::Succeeded,
        Ok(Err(error)) => Outcome::Failed(error.within_bounds()),
        Err(ended) => {
            let panic = ended.try_into_panic().ok();
            let text = panic.as_ref().and_then(|panic| {
                panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied())
            });
            let error = Error::new(PANIC, text.unwrap_or("the handler panicked"));
            Outcome::Failed(error.within_bounds())
        }
    }
}
