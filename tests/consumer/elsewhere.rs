//! Messages whose work is in progress elsewhere: they wait for its owner, and no limit on attempts counts that. On a local queue with the clock paused.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use backstop_core::decision::{Action, Verdict};
use backstop_core::failure::{Error, Milliseconds};
use backstop_queue::{Message, Outgoing};
use backstop_settle::hold::HoldMode;

use crate::hold_world::World;

/// What is left of the owner's lease.
const LEFT: Milliseconds = Milliseconds(20_000);

fn elsewhere() -> Error {
    Error::new("InProgress", "the same work is in progress elsewhere")
        .status(503)
        .retry_after(LEFT)
}

/// Answers each receive by its number, from 1.
fn by_number(
    answer: impl Fn(u32) -> Result<(), Error> + Send + Sync + 'static,
) -> impl Fn(&Message) -> Result<(), Error> + Clone + Send + Sync + 'static {
    let (received, answer) = (Arc::new(AtomicU32::new(0)), Arc::new(answer));
    move |_| answer(received.fetch_add(1, SeqCst) + 1)
}

#[tokio::test(start_paused = true)]
async fn work_in_progress_elsewhere_costs_no_attempt() {
    for hold in [HoldMode::Visibility, HoldMode::Resend] {
        let mut world = World::new(&[("base", "1s"), ("max-attempts", "3")], hold);
        world.bounds.max_attempts = NonZeroU32::new(3);
        world.send([Outgoing::new("an order")]).await;
        // Three attempts, with ten receives between them.
        let host = world.host_of(by_number(|receive| match receive % 11 {
            1 => Err(Error::new("HTTP 503", "")),
            _ => Err(elsewhere()),
        }));
        let host = host.await;
        world.queue.emptied().await;
        let summary = host.stopped().await;
        assert_eq!(
            (summary.retried, summary.dead_lettered),
            (22, 1),
            "{hold:?}"
        );

        let decisions = world.decisions.0.lock().unwrap();
        let mut number = 0;
        for (receive, record) in (0_u32..).zip(decisions.iter()) {
            let (failure, action) = (&record.failure, &record.decision.action);
            let expected = match receive % 11 {
                0 => {
                    number += 1;
                    Milliseconds(number * 1_000)
                }
                _ => LEFT,
            };
            assert_eq!(failure.attempt.get(), number, "{hold:?} {receive}");
            if receive < 22 {
                assert_eq!(
                    *action,
                    Action::Retry { delay: expected },
                    "{hold:?} {receive}"
                );
            }
            // That of the last attempt, however long the owner took.
            let previous = match (receive, receive % 11) {
                (0, _) => None,
                (_, 0) => Some(Milliseconds((number - 1) * 1_000)),
                _ => Some(Milliseconds(number * 1_000)),
            };
            assert_eq!(failure.previous_delay, previous, "{hold:?} {receive}");
        }
        assert_eq!(number, 3, "{hold:?}");
        let last = &decisions.last().unwrap().decision;
        assert_eq!(last.action.verdict(), Verdict::DeadLetter);
    }
}

#[tokio::test(start_paused = true)]
async fn work_in_progress_elsewhere_is_never_given_up_for_its_receives_by_several_hosts() {
    for hold in [HoldMode::Visibility, HoldMode::Resend] {
        let mut world = World::new(&[("base", "1s"), ("max-attempts", "2")], hold);
        world.bounds.max_attempts = Some(NonZeroU32::MIN);
        let orders: Vec<_> = (0..10)
            .map(|number| Outgoing::new(number.to_string()))
            .collect();
        world.options.max_in_flight = 3;
        world.send(orders).await;
        let answer = by_number(|receive| match receive {
            ..=200 => Err(elsewhere()),
            _ => Ok(()),
        });
        let hosts = [
            world.host_of(answer.clone()).await,
            world.host_of(answer).await,
        ];
        world.queue.emptied().await;
        let mut succeeded = 0;
        for host in hosts {
            let summary = host.stopped().await;
            assert!(summary.retried > 20, "{hold:?}: {summary:?}");
            assert_eq!(summary.dead_lettered, 0, "{hold:?}");
            succeeded += summary.succeeded;
        }
        assert_eq!(succeeded, 10, "{hold:?}");
    }
}
