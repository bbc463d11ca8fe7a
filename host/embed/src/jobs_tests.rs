use std::sync::atomic::AtomicUsize;

use backstop_queue::ordinary_message;

use super::*;

/// A taker that counts how often it is woken for the first job.
#[derive(Debug, Default)]
struct Counting {
    woken: AtomicUsize,
    has_ended: AtomicBool,
}

impl Taker for Counting {
    fn cancels(&self) -> bool {
        true
    }

    fn wake(&self, is_first: bool) {
        self.woken
            .fetch_add(usize::from(is_first), Ordering::Relaxed);
    }

    fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

fn jobs() -> Arc<Jobs<Counting>> {
    Arc::new(Jobs::new(Counting::default()))
}

/// An attempt that goes on by itself.
fn attempt(jobs: &Arc<Jobs<Counting>>) -> tokio::task::JoinHandle<Result<(), Error>> {
    let handler = JobHandler(Arc::clone(jobs));
    tokio::spawn(async move { handler.handle(&ordinary_message()).await })
}

#[tokio::test(start_paused = true)]
async fn an_attempt_ends_as_its_job_is_answered() {
    let jobs = jobs();
    let (succeeds, fails) = (attempt(&jobs), attempt(&jobs));
    tokio::task::yield_now().await;
    assert_eq!(jobs.taker().woken.load(Ordering::Relaxed), 1);
    let taken = jobs.take(10);
    assert_eq!(taken.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2]);
    taken[0].answer(Ok(()));
    taken[0].answer(Err(Error::new("Late", "")));
    taken[1].answer(Err(Error::new("Busy", "")));
    assert_eq!(succeeds.await.unwrap(), Ok(()));
    assert_eq!(fails.await.unwrap().unwrap_err().code, "Busy");
    assert!(jobs.is_empty() && jobs.take_over().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_nobody_takes_is_no_attempt() {
    let jobs = jobs();
    let error = attempt(&jobs).await.unwrap().unwrap_err();
    assert!(error.unavailable, "{error:?}");
    assert_eq!(error.code, BUSY);
    assert!(jobs.take(1).is_empty());
    assert!(jobs.take_over().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_program_learns_of_attempts_that_ended_from_outside() {
    let jobs = jobs();
    let (taken, waiting) = (attempt(&jobs), attempt(&jobs));
    tokio::task::yield_now().await;
    let job = jobs.take(1).pop().unwrap();
    taken.abort();
    waiting.abort();
    let (taken, waiting) = (taken.await, waiting.await);
    assert!(taken.is_err() && waiting.is_err());
    assert!(job.is_over());
    assert_eq!(jobs.take_over(), [job.number]);
    assert!(jobs.take_over().is_empty() && jobs.is_empty());
    job.answer(Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_dropped_is_a_worker_that_ended() {
    let jobs = jobs();
    let dropped = attempt(&jobs);
    tokio::task::yield_now().await;
    drop(jobs.take(1));
    let error = dropped.await.unwrap().unwrap_err();
    assert!(JobHandler(jobs).has_ended(&error), "{error:?}");
}

#[test]
fn nothing_to_take_is_noticed_while_nothing_can_come() {
    let (jobs, mut ran) = (jobs(), 0);
    jobs.if_nothing(|| ran += 1);
    jobs.put(
        Arc::new(ordinary_message()),
        oneshot::channel().0,
        &Arc::default(),
    );
    jobs.if_nothing(|| ran += 1);
    assert_eq!(ran, 1);
}
