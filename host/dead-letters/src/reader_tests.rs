use super::*;
use backstop_queue::{LocalQueue, LocalSettings, Outgoing};
use proptest::prelude::*;
use std::num::NonZeroU32;

async fn queue_of(letters: usize, settings: LocalSettings) -> Arc<LocalQueue> {
    let queue = LocalQueue::new("dead", settings);
    for number in 0..letters {
        queue
            .send(&[Outgoing::new(number.to_string())])
            .await
            .unwrap();
    }
    queue
}

fn at_most(most: usize) -> ReadOptions {
    ReadOptions {
        most,
        visibility: None,
    }
}

/// A queue that moves messages after this many receives.
fn moves_after(receives: u32) -> LocalSettings {
    let target = LocalQueue::new("further", LocalSettings::default());
    LocalSettings {
        redrive: NonZeroU32::new(receives).map(|most| (target, most)),
        ..LocalSettings::default()
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_seen_once_and_visible_again() {
    let queue = queue_of(95, LocalSettings::default()).await;
    for (most, letters, end) in [
        (10_000, 95, End::Empty),
        (95, 95, End::Most),
        (30, 30, End::Most),
        (1, 1, End::Most),
    ] {
        let mut bodies = Vec::new();
        let stop = CancellationToken::new();
        let seen = read(queue.clone(), at_most(most), &stop, async |letter| {
            bodies.push(letter.message.body);
        });
        let seen = seen.await.unwrap();
        assert_eq!((seen.letters, seen.end), (letters, end));
        assert_eq!((seen.about, seen.hidden), (Some(95), 0));
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), letters);
        assert_eq!(queue.describe().await.unwrap().visible, Some(95));
    }
}

#[tokio::test(start_paused = true)]
async fn reading_ends_before_the_first_letters_become_visible() {
    let queue = queue_of(30, LocalSettings::default()).await;
    let options = ReadOptions {
        visibility: Some(VisibilityTimeout::from_seconds(20)),
        ..ReadOptions::default()
    };
    let stop = CancellationToken::new();
    let mut reader = Reader::open(queue.clone(), options).await.unwrap();
    assert!(!reader.next(&stop).await.unwrap().is_empty());
    tokio::time::advance(Duration::from_secs(16)).await;
    assert!(reader.next(&stop).await.unwrap().is_empty());
    assert_eq!(reader.end(), Some(End::Time));
    // Somebody else may hold them after their timeout: nothing is taken from him.
    tokio::time::advance(Duration::from_secs(10)).await;
    let theirs = queue
        .receive(10, Duration::ZERO, VisibilityTimeout::MAX)
        .await;
    assert_eq!(theirs.unwrap().len(), 10);
    reader.release().await;
    assert_eq!(queue.describe().await.unwrap().visible, Some(20));
}

#[tokio::test(start_paused = true)]
async fn a_stop_makes_visible_what_was_received() {
    let queue = queue_of(200, LocalSettings::default()).await;
    let stop = CancellationToken::new();
    let seen = read(queue.clone(), at_most(1_000), &stop, async |_| {
        stop.cancel()
    });
    let seen = seen.await.unwrap();
    assert_eq!(seen.end, End::Stopped);
    assert!(seen.letters < 200, "{seen:?}");
    assert_eq!(queue.describe().await.unwrap().visible, Some(200));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_could_move_letters_is_refused_or_left_in_time() {
    let queue = queue_of(20, moves_after(99)).await;
    let refused = Reader::open(queue.clone(), at_most(10)).await.unwrap_err();
    assert!(matches!(refused, ReadError::Redrive { receives: 99, .. }));

    let queue = queue_of(20, moves_after(100)).await;
    let stop = CancellationToken::new();
    let mut ends = Vec::new();
    for _ in 0..98 {
        let seen = read(queue.clone(), at_most(100), &stop, async |_| {})
            .await
            .unwrap();
        ends.push(seen.end);
    }
    assert_eq!(ends.first(), Some(&End::Empty));
    assert_eq!(ends.last(), Some(&End::Receives));
    // It is said ten times before the queue moves one.
    let first = ends.iter().position(|end| *end == End::Receives).unwrap();
    assert_eq!(first, 89);
    assert_eq!(queue.len(), 20);
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_gone_and_the_rest_is_visible() {
    let queue = queue_of(25, LocalSettings::default()).await;
    let stop = CancellationToken::new();
    let mut reader = Reader::open(queue.clone(), at_most(10)).await.unwrap();
    let mut deleted = 0;
    loop {
        let letters = reader.next(&stop).await.unwrap();
        if letters.is_empty() {
            break;
        }
        // Every second one; the others fill the reader's hands.
        let ids = letters.iter().step_by(2).map(|it| it.message.id.clone());
        let ids: Vec<_> = ids.collect();
        assert_eq!(reader.delete(&ids).await, []);
        deleted += ids.len();
    }
    let seen = reader.release().await;
    assert!(seen.letters > 10 && deleted > 5, "{seen:?}");
    assert_eq!(queue.len(), 25 - deleted);
    assert_eq!(queue.describe().await.unwrap().visible, Some(25 - deleted));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_grows_faster_than_it_is_read_is_read_to_its_end() {
    let queue = queue_of(30, LocalSettings::default()).await;
    let growing = Arc::clone(&queue);
    let growth = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let more: Vec<_> = (0..10).map(|_| Outgoing::new("later")).collect();
            growing.send(&more).await.unwrap();
        }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let there = queue.len();
    let started = Instant::now();
    let stop = CancellationToken::new();
    // Each letter takes a moment, so there is always one more.
    let mut reader = Reader::open(queue.clone(), at_most(10_000)).await.unwrap();
    while !reader.next(&stop).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let seen = reader.release().await;
    growth.abort();
    assert_eq!(seen.end, End::Empty);
    // A second of the growth counts as the start.
    let letters = there..=there + 110;
    assert!(
        letters.contains(&seen.letters) && seen.later > 0,
        "{seen:?}"
    );
    assert!(started.elapsed() < Duration::from_secs(30), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn two_readings_at_the_same_time_say_what_the_other_one_holds() {
    let queue = queue_of(60, LocalSettings::default()).await;
    let stop = CancellationToken::new();
    let mut first = Reader::open(queue.clone(), at_most(40)).await.unwrap();
    let mut second = Reader::open(queue.clone(), at_most(100)).await.unwrap();
    while !first.next(&stop).await.unwrap().is_empty() {}
    while !second.next(&stop).await.unwrap().is_empty() {}
    let second = second.release().await;
    assert_eq!((second.letters, second.held_by_others), (20, 40));
    assert!(second.lacks_letters_of_others());
    let first = first.release().await;
    assert_eq!((first.letters, first.held_by_others), (40, 0));
}

#[tokio::test(start_paused = true)]
async fn a_reading_that_sees_only_later_letters_does_not_say_that_it_saw_all() {
    let queue = queue_of(30, LocalSettings::default()).await;
    let stop = CancellationToken::new();
    let mut reader = Reader::open(queue.clone(), at_most(10_000)).await.unwrap();
    // Somebody takes what was there, and many letters arrive: for all that is known, some of those before are behind them.
    let taken = drain(&queue).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..30 {
        let more: Vec<_> = (0..10).map(|_| Outgoing::new("later")).collect();
        queue.send(&more).await.unwrap();
    }
    while !reader.next(&stop).await.unwrap().is_empty() {}
    let seen = reader.release().await;
    assert_eq!((seen.letters, seen.about), (0, Some(30)), "{seen:?}");
    assert_eq!((seen.end, taken), (End::Later, 30), "{seen:?}");
    assert!(!crate::redrive::is_complete(&seen));
}

/// Receives everything, and keeps it invisible.
async fn drain(queue: &LocalQueue) -> usize {
    let mut taken = 0;
    loop {
        let received = queue.receive(10, Duration::ZERO, VisibilityTimeout::MAX);
        match received.await.unwrap().len() {
            0 => return taken,
            more => taken += more,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_letter_is_lost_or_kept(letters in 0_usize..130, most in 1_usize..150) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let queue = queue_of(letters, LocalSettings::default()).await;
            let stop = CancellationToken::new();
            let seen = read(queue.clone(), at_most(most), &stop, async |_| {}).await.unwrap();
            assert_eq!(seen.letters, letters.min(most));
            assert_eq!(queue.describe().await.unwrap().visible, Some(letters));
        });
    }
}
