use super::*;
use std::sync::Mutex;

#[derive(Clone, Debug, PartialEq)]
struct Sized(u32, usize);

impl Entry for Sized {
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
        let result = match ids.contains(&1) {
            true => Err(QueueError::new("SendMessageBatch", code, "")),
            false => Ok(vec![Ok(()); ids.len()]),
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
async fn an_entry_fails_when_its_deadline_has_passed() {
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
    assert!(Instant::now() >= until && seen.lock().unwrap().len() > 3);
}
