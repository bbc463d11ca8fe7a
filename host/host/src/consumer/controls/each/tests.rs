use super::*;
use std::future::pending;
use std::pin::pin;

use crate::queue::ordinary_message;
use futures_util::FutureExt;
use proptest::prelude::*;

fn each(rate: Option<&str>, max_in_flight: Option<usize>) -> Arc<Each> {
    let options = EachOptions {
        by: InCommon::Pointer("/tenant".to_owned()),
        rate: rate.map(|rate| rate.parse().unwrap()),
        max_in_flight,
    };
    Each::new("orders", &Budget::new(100, 1 << 20), Some(&options))
}

fn of_tenant(tenant: &str) -> Message {
    Message {
        body: format!(r#"{{"tenant":"{tenant}"}}"#).into(),
        ..ordinary_message()
    }
}

/// The turn of a message that need not wait.
fn begins(each: &Arc<Each>, tenant: &str) -> Option<Turn> {
    let message = of_tenant(tenant);
    match each.enter(&message, pending()).now_or_never()? {
        Entry::Begins(turn) => turn,
        Entry::HeldBack(_) | Entry::Interrupted => None,
    }
}

/// How long a message would be held back, if it is.
fn held_back(each: &Arc<Each>, tenant: &str) -> Option<Duration> {
    let message = of_tenant(tenant);
    match each.enter(&message, pending()).now_or_never()? {
        Entry::HeldBack(HeldBack { why, wait }) => {
            assert_eq!(why, NotNow::Limited(tenant.to_owned()));
            Some(wait)
        }
        Entry::Begins(_) | Entry::Interrupted => None,
    }
}

/// A message that waits for its turn in a task of its own.
fn waits(each: &Arc<Each>, tenant: &'static str) -> tokio::task::JoinHandle<Option<Turn>> {
    let each = Arc::clone(each);
    tokio::spawn(async move {
        match each.enter(&of_tenant(tenant), pending()).await {
            Entry::Begins(turn) => turn,
            Entry::HeldBack(_) | Entry::Interrupted => None,
        }
    })
}

/// What the queue says of a key: attempts, messages that wait in memory, and those that are held back.
fn counts(each: &Each, tenant: &str) -> (usize, usize, usize) {
    let state = each.state();
    let key = state.keys.get(tenant);
    key.map_or((0, 0, 0), |key| {
        (key.in_hand - key.early, key.in_memory(), key.held)
    })
}

#[tokio::test(start_paused = true)]
async fn without_limits_or_without_the_key_every_message_begins_at_once() {
    let none = Each::new("orders", &Budget::new(1, 1), None);
    let limited = each(Some("1/h"), Some(1));
    let keyless = Message {
        body: "[]".into(),
        ..ordinary_message()
    };
    for (each, message) in [(&none, &of_tenant("a")), (&limited, &keyless)] {
        for _ in 0..100 {
            let entry = each.enter(message, pending()).now_or_never();
            assert!(matches!(entry, Some(Entry::Begins(None))));
        }
    }
    assert!(none.serving().is_none());
}

#[tokio::test(start_paused = true)]
async fn messages_beyond_the_rate_wait_in_memory_for_two_seconds_at_most() {
    let each = each(Some("10/s"), None);
    // A second is saved up.
    let turns: Vec<_> = (0..10).map(|_| begins(&each, "a").unwrap()).collect();
    let started = Instant::now();
    let waiting: Vec<_> = (0..20).map(|_| waits(&each, "a")).collect();
    tokio::task::yield_now().await;
    assert_eq!(counts(&each, "a"), (10, 20, 0));
    assert_eq!(held_back(&each, "a"), Some(Duration::ZERO));
    assert_eq!(held_back(&each, "a"), Some(Duration::from_millis(100)));
    // Other keys have limits of their own.
    assert!(begins(&each, "b").is_some());
    for waits in waiting {
        assert!(waits.await.unwrap().is_some());
    }
    let took = started.elapsed().as_millis();
    assert!((1_990..=2_010).contains(&took), "{took}");
    drop(turns);
    assert_eq!(counts(&each, "a"), (0, 0, 2));
}

#[tokio::test(start_paused = true)]
async fn no_more_attempts_of_a_key_are_made_at_once_than_its_limit() {
    let each = each(None, Some(2));
    let first = begins(&each, "a").unwrap();
    let second = begins(&each, "a").unwrap();
    // Nobody knows how long they take.
    assert_eq!(held_back(&each, "a"), Some(Duration::ZERO));
    assert!(begins(&each, "b").is_some());
    // As they end, it pays to wait.
    drop(first);
    let third = begins(&each, "a").unwrap();
    let fourth = waits(&each, "a");
    tokio::task::yield_now().await;
    assert_eq!(counts(&each, "a"), (2, 1, 1));
    drop(second);
    assert!(fourth.await.unwrap().is_some());
    drop(third);
    assert_eq!(counts(&each, "a"), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_wait_any_more_takes_no_turn() {
    let each = each(None, Some(1));
    drop(begins(&each, "a").unwrap());
    let first = begins(&each, "a").unwrap();
    let message = of_tenant("a");
    {
        let mut gone = pin!(each.enter(&message, pending()));
        assert!(gone.as_mut().now_or_never().is_none());
        assert_eq!(counts(&each, "a"), (1, 1, 0));
    }
    let interrupted = each.enter(&message, tokio::time::sleep(Duration::from_secs(1)));
    assert!(matches!(interrupted.await, Entry::Interrupted));
    drop(first);
    assert!(begins(&each, "a").is_some());
    assert_eq!(counts(&each, "a"), (0, 0, 0));
    assert_eq!(each.state().in_memory, 0);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_nobody_takes_goes_to_the_next_message() {
    let each = each(None, Some(1));
    drop(begins(&each, "a").unwrap());
    let first = begins(&each, "a").unwrap();
    let message = of_tenant("a");
    let mut given = Box::pin(each.enter(&message, pending()));
    assert!(given.as_mut().now_or_never().is_none());
    let next = waits(&each, "a");
    tokio::task::yield_now().await;
    // The turn is on its way to the first, which goes away.
    drop(first);
    drop(given);
    assert!(next.await.unwrap().is_some());
    assert_eq!(counts(&each, "a"), (0, 0, 0));
    assert_eq!(each.state().in_memory, 0);
}

#[tokio::test(start_paused = true)]
async fn messages_in_memory_are_half_of_those_in_flight_and_of_a_key_a_quarter() {
    let each = each(Some("1000/s"), None);
    for tenant in ["a", "b", "c"] {
        while begins(&each, tenant).is_some() {}
    }
    let waiting: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .flat_map(|tenant| (0..40).map(move |_| tenant))
        .map(|tenant| waits(&each, tenant))
        .collect();
    // The runtime does not run all of them at once.
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    let in_memory = ["a", "b", "c"].map(|tenant| counts(&each, tenant).1);
    assert_eq!(in_memory, [25, 25, 0]);
    assert_eq!(each.state().in_memory, 50);
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn as_many_messages_are_brought_back_as_have_their_turn_soon() {
    let each = each(Some("10/s"), Some(4));
    let turns: Vec<_> = (0..4).map(|_| begins(&each, "a").unwrap()).collect();
    for _ in 0..100 {
        assert!(held_back(&each, "a").is_some());
    }
    assert_eq!(each.wanted(&["a"]), [0]);
    let brought = |brought: usize| {
        let of = OfCode { held: 100, brought };
        each.brought([("a".to_owned(), of)].into_iter());
    };
    drop(turns);
    // Four are free, and eight will be: four ended in this second.
    assert_eq!(each.wanted(&["a"]), [12]);
    brought(12);
    assert_eq!(counts(&each, "a").2, 88);
    assert_eq!(each.wanted(&["a"]), [0]);
    let _turn = begins(&each, "a").unwrap();
    assert_eq!(each.wanted(&["a"]), [0]);
    // What has not come after five seconds does not come.
    tokio::time::sleep(Duration::from_secs(6)).await;
    // A key that nobody knows, as after a restart.
    assert_eq!(each.wanted(&["a", "b"]), [3, 4]);
    // Nothing is held back any more.
    each.brought(std::iter::empty());
    assert_eq!(counts(&each, "a").2, 0);
    // Without limits, everything comes.
    each.set(|limits| {
        *limits = Limits {
            rate: None,
            max_in_flight: None,
        };
    });
    assert!(each.wanted(&["a"])[0] > 1_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_key_has_its_turn_although_others_have_all_places_in_memory() {
    let each = each(Some("100/s"), None);
    let hot: Vec<_> = (0..4).map(|number| format!("hot {number}")).collect();
    for name in &hot {
        while begins(&each, name).is_some() {}
    }
    let waiting: Vec<_> = ["hot 0", "hot 1"]
        .into_iter()
        .flat_map(|tenant| (0..30).map(move |_| tenant))
        .map(|tenant| waits(&each, tenant))
        .collect();
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    assert_eq!(each.state().in_memory, 50);
    // What it has saved up need not wait.
    let names = ["hot 0", "hot 1", "hot 2", "z"];
    assert_eq!(each.wanted(&names), [0, 0, 0, 100]);
    // As places become free, those that have none come first.
    for it in waiting.iter().take(10) {
        it.abort();
    }
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    let wanted = each.wanted(&names);
    assert_eq!(wanted.iter().sum::<usize>(), 110);
    assert!(wanted[2] >= wanted[0] && wanted[2] >= 3, "{wanted:?}");
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn other_limits_hold_at_once() {
    let each = each(None, Some(1));
    drop(begins(&each, "a").unwrap());
    let _first = begins(&each, "a").unwrap();
    let second = waits(&each, "a");
    tokio::task::yield_now().await;
    assert!(!second.is_finished());
    each.set(|limits| limits.max_in_flight = Some(2));
    assert!(second.await.unwrap().is_some());
    each.set(|limits| limits.rate = Some("1/m".parse().unwrap()));
    // Nothing is saved up for it.
    assert!(held_back(&each, "a").is_some());
    let serving = each.serving().unwrap();
    assert_eq!(serving.by, "/tenant");
    assert_eq!(serving.rate.as_deref(), Some("1/m"));
    assert_eq!(serving.max_in_flight, Some(2));
    assert_eq!(serving.limited.first().unwrap().held_back, 1);
    each.set(|limits| {
        *limits = Limits {
            rate: None,
            max_in_flight: None,
        }
    });
    for _ in 0..10 {
        assert!(begins(&each, "a").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_idle_make_place_and_more_than_there_is_room_for_have_no_limit() {
    let each = each(None, Some(1));
    for number in 0..3 * MOST_KEYS {
        drop(begins(&each, &number.to_string()).unwrap());
    }
    assert!(each.state().keys.len() <= MOST_KEYS);
    let turns: Vec<_> = (0..MOST_KEYS)
        .map(|number| begins(&each, &format!("busy {number}")).unwrap())
        .collect();
    let entry = each.enter(&of_tenant("another"), pending()).now_or_never();
    assert!(matches!(entry, Some(Entry::Begins(None))));
    assert!(held_back(&each, "busy 7").is_some());
    drop(turns);
    tokio::time::sleep(SWEPT).await;
    assert!(begins(&each, "another").is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Messages come, begin, end and go away in any order.
    #[test]
    fn a_limit_is_never_exceeded_and_nothing_is_counted_that_has_ended(
        steps in proptest::collection::vec((0_u8..6, 0_usize..8), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let each = each(Some("20/s"), Some(3));
            let started = Instant::now();
            let (mut waiting, mut turns, mut begun) = (Vec::new(), Vec::new(), 0_usize);
            for (step, which) in steps {
                match step {
                    0..=2 => waiting.push(waits(&each, "a")),
                    3 if !turns.is_empty() => drop(turns.swap_remove(which % turns.len())),
                    4 if !waiting.is_empty() => waiting.swap_remove(which % waiting.len()).abort(),
                    _ => tokio::time::sleep(Duration::from_millis(70)).await,
                }
                tokio::task::yield_now().await;
                let mut still = Vec::new();
                for it in waiting {
                    if it.is_finished() {
                        if let Ok(Some(turn)) = it.await {
                            turns.push(turn);
                            begun += 1;
                        }
                    } else {
                        still.push(it);
                    }
                }
                waiting = still;
                prop_assert!(turns.len() <= 3);
                let allowed = 20 + 20 * usize::try_from(started.elapsed().as_millis()).unwrap() / 1_000;
                prop_assert!(begun <= allowed);
            }
            for it in &waiting {
                it.abort();
            }
            drop(turns);
            for it in waiting {
                drop(it.await);
            }
            let (attempts, in_memory, _) = counts(&each, "a");
            prop_assert_eq!((attempts, in_memory, each.state().in_memory), (0, 0, 0));
            Ok(())
        })?;
    }
}
