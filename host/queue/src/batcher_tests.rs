use super::*;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use crate::{BATCH_BYTES, Callers, EntryError, QueueError};

#[derive(Clone, Debug, PartialEq)]
struct Sized(u32, usize);

impl Entry for Sized {
    type Accepted = ();

    const CONCURRENT: usize = 4;

    fn size(&self) -> usize {
        self.1
    }
}

type Seen = Arc<Mutex<Vec<Vec<u32>>>>;

/// A request whose results come from `answer`, by entry and number of earlier tries. It records every batch.
fn scripted(
    answer: impl Fn(u32, usize) -> Result<(), EntryError> + Send + Sync + 'static,
) -> (Seen, Request<Sized>) {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let request: Request<Sized> = Arc::new(move |entries| {
        let mut log = log.lock().unwrap();
        let results = entries
            .iter()
            .map(|entry| {
                answer(
                    entry.0,
                    log.iter().flatten().filter(|id| **id == entry.0).count(),
                )
            })
            .collect();
        log.push(entries.iter().map(|entry| entry.0).collect());
        Box::pin(async move { Ok(results) })
    });
    (seen, request)
}

async fn submit_all(batcher: &Batcher<Sized>, entries: Vec<Sized>) -> Vec<Result<(), SubmitError>> {
    let until = Instant::now() + Duration::from_secs(60);
    let submitted = entries
        .into_iter()
        .map(|entry| batcher.submit(entry, until));
    futures_util::future::join_all(submitted).await
}

#[tokio::test(start_paused = true)]
async fn entries_go_in_batches_of_ten_and_the_rest_after_the_linger() {
    let (seen, request) = scripted(|_, _| Ok(()));
    let batcher = Batcher::start(Duration::from_millis(100), request);
    let outcomes = submit_all(&batcher, (0..23).map(|id| Sized(id, 1)).collect()).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let sizes: Vec<_> = seen.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_lingers_no_longer_than_a_caller_may_add_to_it() {
    let (seen, request) = scripted(|_, _| Ok(()));
    let callers = Arc::<Callers>::default();
    let linger = Linger::of(Some(Arc::clone(&callers)), Duration::from_millis(100));
    let batcher = Batcher::start(linger, request);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(60);
    // What each works for before its first entry and before its second, in milliseconds.
    let work = [[1, 40], [20, 20], [30, 10], [35, 300]];
    let works = callers.begin(4).into_iter().zip((0..).zip(work));
    join_all(works.map(async |(caller, (id, work))| {
        for (entry, took) in work.into_iter().enumerate() {
            sleep(Duration::from_millis(took)).await;
            let entry = Sized(10 * u32::try_from(entry).unwrap() + id, 1);
            assert_eq!(batcher.submit(entry, until).await, Ok(()));
        }
        drop(caller);
    }))
    .await;
    // The first batch after 35 ms; the second when it has lingered from 45 to 145 ms; the last one at once.
    assert_eq!(begun.elapsed(), Duration::from_millis(335));
    let batches = [vec![0, 1, 2, 3], vec![12, 11, 10], vec![13]];
    assert_eq!(*seen.lock().unwrap(), batches);
    // Nobody else is at work.
    assert_eq!(batcher.submit(Sized(20, 1), until).await, Ok(()));
    assert_eq!(begun.elapsed(), Duration::from_millis(335));
}

#[tokio::test(start_paused = true)]
async fn batchers_that_share_their_callers_all_send_when_none_is_at_work() {
    let slow: Request<Sized> = Arc::new(|entries| {
        Box::pin(async move {
            sleep(Duration::from_millis(50)).await;
            Ok(vec![Ok(()); entries.len()])
        })
    });
    let callers = Arc::<Callers>::default();
    let linger = Linger::of(Some(Arc::clone(&callers)), Duration::from_secs(10));
    let batchers = [0, 1].map(|_| Batcher::start(linger.clone(), Arc::clone(&slow)));
    let begun = Instant::now();
    let until = begun + Duration::from_secs(60);
    let works = callers.begin(2).into_iter().zip(&batchers);
    join_all(works.map(async |(caller, batcher)| {
        assert_eq!(batcher.submit(Sized(0, 1), until).await, Ok(()));
        assert_eq!(begun.elapsed(), Duration::from_millis(50));
        // Neither waits for the other's next entry.
        sleep(Duration::from_secs(1)).await;
        drop(caller);
    }))
    .await;
}

/// The sizes of the batches of ten callers, which begin one after another and submit ten entries each. An entry takes 1 ms to make, and a request 10 ms.
async fn ten_callers(apart: Duration) -> Vec<usize> {
    let sizes = Arc::<Mutex<Vec<_>>>::default();
    let log = Arc::clone(&sizes);
    let request: Request<Sized> = Arc::new(move |entries| {
        log.lock().unwrap().push(entries.len());
        Box::pin(async move {
            sleep(Duration::from_millis(10)).await;
            Ok(vec![Ok(()); entries.len()])
        })
    });
    let callers = Arc::<Callers>::default();
    let linger = Linger::of(Some(Arc::clone(&callers)), Duration::from_millis(100));
    let batcher = Batcher::start(linger, request);
    let until = Instant::now() + Duration::from_secs(60);
    let callers = (0..10).map(async |number| {
        sleep(apart * number).await;
        for caller in callers.begin(1) {
            for _ in 0..10 {
                sleep(Duration::from_millis(1)).await;
                assert_eq!(batcher.submit(Sized(number, 1), until).await, Ok(()));
            }
            drop(caller);
        }
    });
    join_all(callers).await;
    let sizes = sizes.lock().unwrap();
    sizes.clone()
}

#[tokio::test(start_paused = true)]
async fn callers_that_go_on_together_share_all_batches() {
    assert_eq!(ten_callers(Duration::ZERO).await, [10; 10]);
}

#[tokio::test(start_paused = true)]
async fn callers_that_begin_at_different_times_come_to_share_their_batches() {
    let sizes = ten_callers(Duration::from_millis(3)).await;
    assert_eq!(sizes.iter().sum::<usize>(), 100);
    assert!(sizes.len() <= 15, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_never_exceeds_the_size_limit_of_a_request() {
    let (seen, request) = scripted(|_, _| Ok(()));
    let batcher = Batcher::start(Duration::from_millis(100), request);
    let half = BATCH_BYTES / 2;
    submit_all(
        &batcher,
        vec![
            Sized(0, half),
            Sized(1, half),
            Sized(2, 1),
            Sized(3, BATCH_BYTES),
        ],
    )
    .await;
    assert_eq!(*seen.lock().unwrap(), [vec![0, 1], vec![2], vec![3]]);
}

#[tokio::test(start_paused = true)]
async fn only_retryable_failures_are_sent_again() {
    let (seen, request) = scripted(|id, tries| match (id, tries) {
        (1, 0..=1) => Err(EntryError::new("InternalError", "", false)),
        (2, _) => Err(EntryError::new("ReceiptHandleIsInvalid", "", true)),
        _ => Ok(()),
    });
    let batcher = Batcher::start(Duration::from_millis(10), request);
    let outcomes = submit_all(&batcher, (0..4).map(|id| Sized(id, 1)).collect()).await;
    let rejected = SubmitError::Entry(EntryError::new("ReceiptHandleIsInvalid", "", true));
    assert_eq!(outcomes, [Ok(()), Ok(()), Err(rejected), Ok(())]);
    assert_eq!(*seen.lock().unwrap(), [vec![0, 1, 2, 3], vec![1], vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_fails_its_batch_does_not_fail_the_others() {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let request: Request<Sized> = Arc::new(move |entries| {
        let ids: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        log.lock().unwrap().push(ids.clone());
        let code = "AWS.SimpleQueueService.BatchRequestTooLong";
        let result = if ids.contains(&1) {
            Err(QueueError::new("SendMessageBatch", code, ""))
        } else {
            Ok(vec![Ok(()); ids.len()])
        };
        Box::pin(async move { result })
    });
    let batcher = Batcher::start(Duration::from_millis(10), request);
    let outcomes = submit_all(&batcher, (0..3).map(|id| Sized(id, 1)).collect()).await;
    let succeeded: Vec<_> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(succeeded, [true, false, true]);
    let batches = [vec![0, 1, 2], vec![0], vec![1], vec![2]];
    assert_eq!(*seen.lock().unwrap(), batches);
}

#[tokio::test(start_paused = true)]
async fn an_entry_whose_caller_has_given_up_is_not_sent() {
    let (seen, request) = scripted(|_, _| Ok(()));
    let batcher = Batcher::start(Duration::from_millis(100), request);
    let until = Instant::now() + Duration::from_secs(60);
    let timeout = Duration::from_millis(10);
    let abandoned = tokio::time::timeout(timeout, batcher.submit(Sized(0, 1), until)).await;
    assert!(abandoned.is_err());
    assert_eq!(batcher.submit(Sized(1, 1), until).await, Ok(()));
    assert_eq!(*seen.lock().unwrap(), [vec![1]]);
}

#[tokio::test(start_paused = true)]
async fn while_too_many_batches_are_under_way_entries_wait_for_a_place_in_a_fuller_batch() {
    let seen = Seen::default();
    let log = Arc::clone(&seen);
    let request: Request<Sized> = Arc::new(move |entries| {
        let ids: Vec<_> = entries.iter().map(|entry| entry.0).collect();
        log.lock().unwrap().push(ids.clone());
        Box::pin(async move {
            sleep(Duration::from_secs(1)).await;
            Ok(vec![Ok(()); ids.len()])
        })
    });
    let batcher = Batcher::start(Duration::from_millis(10), request);
    let until = Instant::now() + Duration::from_secs(60);
    // All places are taken for a second, and the others come one by one meanwhile.
    let first = (0..40).map(|id| (id, Duration::ZERO));
    let later = (40..48).map(|id| (id, Duration::from_millis(u64::from(id))));
    let submitted = first.chain(later).map(async |(id, after)| {
        sleep(after).await;
        batcher.submit(Sized(id, 1), until).await
    });
    let outcomes = join_all(submitted).await;
    assert!(outcomes.iter().all(Result::is_ok));
    let seen = seen.lock().unwrap();
    let sizes: Vec<_> = seen.iter().map(Vec::len).collect();
    assert_eq!(sizes, [10, 10, 10, 10, 8]);
}

#[tokio::test(start_paused = true)]
async fn an_entry_fails_when_its_next_try_would_come_after_its_deadline() {
    let (seen, request) = scripted(|_, _| Err(EntryError::new("InternalError", "", false)));
    let batcher = Batcher::start(Duration::ZERO, request);
    let until = Instant::now() + Duration::from_secs(20);
    let outcome = batcher.submit(Sized(0, 1), until).await;
    assert_eq!(
        outcome,
        Err(SubmitError::Entry(EntryError::new(
            "InternalError",
            "",
            false
        )))
    );
    let left = until - Instant::now();
    assert!(left <= Duration::from_secs(5) && seen.lock().unwrap().len() > 3);
}

#[derive(Clone)]
struct Sent;

impl Entry for Sent {
    type Accepted = ();

    const CONCURRENT: usize = 4;
    const AFTER_UNKNOWN: Backoff = Backoff::milliseconds(2_000, 8_000);

    fn size(&self) -> usize {
        1
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_may_have_arrived_is_sent_again_after_growing_pauses() {
    for (code, expected) in [("ETIMEDOUT", 3..=4), ("ECONNREFUSED", 8..=12)] {
        let tries = Arc::<Mutex<Vec<Instant>>>::default();
        let log = Arc::clone(&tries);
        let lost_until = Instant::now() + Duration::from_secs(10);
        let request: Request<Sent> = Arc::new(move |entries| {
            log.lock().unwrap().push(Instant::now());
            let result = if Instant::now() < lost_until {
                Err(QueueError::new("SendMessageBatch", code, ""))
            } else {
                Ok(vec![Ok(()); entries.len()])
            };
            Box::pin(async move { result })
        });
        let batcher = Batcher::start(Duration::ZERO, request);
        let until = Instant::now() + Duration::from_secs(60);
        assert_eq!(batcher.submit(Sent, until).await, Ok(()));
        let tries = tries.lock().unwrap();
        let lost = tries.iter().filter(|at| **at < lost_until).count();
        assert!(expected.contains(&lost), "{code}: {lost}");
    }
}
