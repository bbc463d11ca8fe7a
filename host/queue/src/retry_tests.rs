use std::sync::Mutex;

use super::*;

const RETRY: Retry = Retry::new(Backoff::milliseconds(100, 1_000)).tries(5);

fn failed(code: &str) -> QueueError {
    QueueError::new("SendMessageBatch", code, "")
}

/// The waits between the tries of a request that always fails.
async fn waits(retry: Retry) -> Vec<u128> {
    let tries = Mutex::new(Vec::new());
    let result: Result<(), _> = retry
        .request(
            || {
                tries.lock().unwrap().push(Instant::now());
                async { Err(failed("InternalError")) }
            },
            QueueError::is_retryable,
        )
        .await;
    assert_eq!(result, Err(failed("InternalError")));
    let tries = tries.into_inner().unwrap();
    let pairs = tries.windows(2);
    pairs.map(|it| (it[1] - it[0]).as_millis()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_waits_of_a_request_grow_within_their_bounds_and_differ_from_those_of_others() {
    let mut first = Vec::new();
    for _ in 0..20 {
        let waits = waits(RETRY).await;
        assert_eq!(waits.len(), 4);
        for (wait, most) in waits.iter().zip([100, 200, 400, 800]) {
            assert!((most / 2..=most + 1).contains(wait), "{waits:?}");
        }
        first.push(waits[0]);
    }
    first.sort_unstable();
    first.dedup();
    assert!(first.len() > 5, "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn no_try_begins_after_the_time_is_over() {
    let waits = waits(RETRY.tries(u32::MAX).within(Duration::from_secs(3))).await;
    let all: u128 = waits.iter().sum();
    assert!((2_000..3_000).contains(&all), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_can_t_succeed_is_not_repeated() {
    let begun = Instant::now();
    let request = || async { Err::<(), _>(failed("AccessDenied")) };
    let result = RETRY.request(request, QueueError::is_retryable).await;
    assert_eq!(result, Err(failed("AccessDenied")));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// Sends the entries 0 to 3 with these results, by entry and number of earlier tries. Returns each request, too.
async fn send(
    retry: Retry,
    answer: impl Fn(u32, usize) -> Result<(), EntryError>,
) -> (Vec<Tried<()>>, Vec<Vec<u32>>) {
    let requests = Mutex::new(Vec::<Vec<u32>>::new());
    let all = retry.batch(
        &[0, 1, 2, 3],
        || true,
        |entries: Vec<u32>| {
            let mut requests = requests.lock().unwrap();
            let before = |entry| requests.iter().flatten().filter(|it| **it == entry).count();
            let results = entries.iter().map(|it| answer(*it, before(*it))).collect();
            requests.push(entries);
            async move { Ok(results) }
        },
    );
    (all.await, requests.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn only_the_entries_of_a_batch_that_may_still_succeed_are_sent_again() {
    let refused = || EntryError::new("ReceiptHandleIsInvalid", "", true);
    let (all, requests) = send(RETRY, |entry, tries| match (entry, tries) {
        (1, 0..=1) => Err(EntryError::new("InternalError", "", false)),
        (2, _) => Err(refused()),
        (3, 0) => Err(EntryError::missing()),
        _ => Ok(()),
    })
    .await;
    let results: Vec<_> = all.iter().map(|it| it.result.clone()).collect();
    assert_eq!(results, [Ok(()), Ok(()), Err(refused().into()), Ok(())]);
    let uncertain: Vec<_> = all.iter().map(|it| it.is_uncertain).collect();
    assert_eq!(uncertain, [false, false, false, true]);
    assert_eq!(requests, [vec![0, 1, 2, 3], vec![1, 3], vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn after_its_last_try_an_entry_has_its_last_error() {
    let throttled = || EntryError::new("RequestThrottled", "", true);
    let (all, requests) = send(RETRY, |entry, _| match entry {
        0 => Err(throttled()),
        _ => Ok(()),
    })
    .await;
    assert_eq!(all[0].result, Err(throttled().into()));
    assert_eq!(requests.len(), 5);
}

#[tokio::test(start_paused = true)]
async fn any_number_of_entries_have_their_results_in_order() {
    let entries: Vec<_> = (0..35_u64).collect();
    let echo = |entries: Vec<u64>| async move {
        // The first batches take the longest.
        let took = 100_u64.saturating_sub(entries[0]);
        sleep(Duration::from_millis(took)).await;
        Ok(entries.into_iter().map(Ok).collect())
    };
    let results = RETRY.batches(&entries, 8, echo).await;
    assert_eq!(results, entries.into_iter().map(Ok).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_batch_goes_on_no_longer_than_it_may() {
    let begun = Instant::now();
    let request = |_| async { Err(failed("ETIMEDOUT")) };
    let all: Vec<Tried<()>> = RETRY.batch(&["one"], || false, request).await;
    assert_eq!(all[0].result, Err(failed("ETIMEDOUT").into()));
    assert!(all[0].is_uncertain);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_entry_that_makes_its_queue_refuse_the_whole_batch_fails_alone() {
    let request = |entries: Vec<u32>| async move {
        if entries.contains(&2) {
            Err(failed("InvalidMessageContents"))
        } else {
            Ok(entries.into_iter().map(Ok).collect())
        }
    };
    let all = RETRY.batch(&[0, 1, 2, 3], || true, request).await;
    let results: Vec<_> = all.into_iter().map(|it| it.result).collect();
    let refused = Err(failed("InvalidMessageContents").into());
    assert_eq!(results, [Ok(0), Ok(1), refused, Ok(3)]);
}
