//! One attempt: the handler runs until it ends, its time is over, or the consumer stops.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::Shared;
use crate::failure::{Error, Milliseconds};
use crate::handler::{PANIC, TIMEOUT};
use crate::queue::Message;
use backstop_traces::Span;

/// How an attempt ended.
pub(super) enum Outcome {
    Succeeded,
    Failed(Error),
    /// The worker was unavailable: the message has not been attempted.
    Unavailable(Error),
    /// The consumer stopped before the attempt ended, or the worker stopped together with it.
    Interrupted,
}

/// How long after a worker broke off an attempt the consumer may stop, for both to have been stopped together.
const STOPPED_TOGETHER: Duration = Duration::from_secs(1);

/// Runs the handler on a message, in the task of its worker. A panic of the handler is an outcome like any other.
/// The handler is inside of the span, which ends with it.
pub(super) async fn run(shared: &Shared, message: &Arc<Message>, span: &Span) -> Outcome {
    let outcome = span.scope(ended(shared, message)).await;
    match &outcome {
        Outcome::Succeeded => {}
        Outcome::Failed(error) => {
            span.fail(&error.code);
            shared.previous.failed(message, span.context());
        }
        Outcome::Unavailable(error) => span.fail(&error.code),
        Outcome::Interrupted => span.fail("interrupted"),
    }
    span.end();
    outcome
}

async fn ended(shared: &Shared, message: &Arc<Message>) -> Outcome {
    let started = Instant::now();
    let outcome = handled(shared, message, started).await;
    shared.stats.measures.attempted(&outcome, started.elapsed());
    match &outcome {
        Outcome::Failed(error) if shared.handler.has_ended(error) => {
            let stopped = timeout(STOPPED_TOGETHER, shared.stop.cancelled()).await;
            match stopped {
                Ok(()) => Outcome::Interrupted,
                Err(_) => outcome,
            }
        }
        Outcome::Failed(_)
        | Outcome::Succeeded
        | Outcome::Unavailable(_)
        | Outcome::Interrupted => outcome,
    }
}

async fn handled(shared: &Shared, message: &Arc<Message>, started: Instant) -> Outcome {
    let handle = async { shared.handler.handle_shared(Arc::clone(message)).await };
    let longest = shared.options.attempt_timeout;
    tokio::select! {
        biased;
        ended = AssertUnwindSafe(handle).catch_unwind() => outcome(ended),
        // A handler that does not wait needs no timer: there is none before this is polled.
        () = async { sleep(longest.saturating_sub(started.elapsed())).await } => {
            let longest = Milliseconds::from_duration(longest);
            Outcome::Failed(Error::new(TIMEOUT, format!("no outcome within {longest}")))
        }
        () = shared.abort.cancelled() => Outcome::Interrupted,
    }
}

fn outcome(ended: Result<Result<(), Error>, Box<dyn Any + Send>>) -> Outcome {
    match ended {
        Ok(Ok(())) => Outcome::Succeeded,
        Ok(Err(error)) if error.unavailable => Outcome::Unavailable(error.within_bounds()),
        Ok(Err(error)) => Outcome::Failed(error.within_bounds()),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            let error = Error::new(PANIC, text.unwrap_or("the handler panicked"));
            Outcome::Failed(error.within_bounds())
        }
    }
}
