//! Requests to a queue that are tried again while they may still succeed.

use std::time::Duration;

use backstop_queue::{BatchResult, QueueError};
use tokio::time::sleep;

/// How often a request is tried.
const TRIES: u32 = 5;

/// How long the second try waits; each further one waits three times as long.
const DELAY: Duration = Duration::from_millis(100);

/// Tries a request again while it may still succeed.
pub(crate) async fn with_retries<T, F>(request: impl Fn() -> F) -> Result<T, QueueError>
where
    F: Future<Output = Result<T, QueueError>>,
{
    let mut delay = DELAY;
    for _ in 1..TRIES {
        match request().await {
            Err(error) if error.retryable => sleep(delay).await,
            result => return result,
        }
        delay *= 3;
    }
    request().await
}

/// The result of each entry of a batch request, with retries of those that may still succeed.
pub(crate) async fn each<'a, T, F>(
    entries: &'a [T],
    request: impl Fn(&'a [T]) -> F,
) -> Vec<Result<(), String>>
where
    F: Future<Output = BatchResult>,
{
    let mut results = Vec::new();
    let mut delay = DELAY;
    for tried in 1..=TRIES {
        let (all, can_retry) = match request(entries).await {
            Ok(all) => {
                let can_retry = all.iter().any(|it| matches!(it, Err(it) if it.retryable));
                let all = all.into_iter().map(|it| it.map_err(|it| it.to_string()));
                (all.collect(), can_retry)
            }
            Err(error) => (vec![Err(error.to_string()); entries.len()], error.retryable),
        };
        results = merge(results, all);
        if !can_retry || tried == TRIES {
            break;
        }
        sleep(delay).await;
        delay *= 3;
    }
    results
}

/// An entry that has succeeded once is done: deleting or releasing it again may fail.
fn merge(before: Vec<Result<(), String>>, now: Vec<Result<(), String>>) -> Vec<Result<(), String>> {
    if before.len() != now.len() {
        return now;
    }
    let pairs = before.into_iter().zip(now);
    pairs.map(|(before, now)| before.or(now)).collect()
}
