//! A queue whose messages need something that fails, simulated with and without a breaker: what the breaker spares, and what it costs.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;

use backstop_backoff::jitter;

use super::*;
use crate::clock;

const MS: u64 = 1;
const SECOND: u64 = 1_000 * MS;
const MINUTE: u64 = 60 * SECOND;

/// A queue, its worker, and what is behind it. Times in milliseconds from the start.
struct World {
    /// So many messages come in each second, until then.
    rate: u64,
    arrive_until: u64,
    /// The messages in flight.
    most: u32,
    /// Whether an attempt that begins then succeeds, for a random number.
    succeeds: fn(u64, f64) -> bool,
    success_takes: u64,
    failure_takes: u64,
}

#[derive(Debug, Default)]
struct Report {
    /// When each attempt began.
    attempts: Vec<u64>,
    /// When each message was done.
    done: Vec<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A message that has failed so often may be attempted.
    Ready(u32),
    /// An attempt of the message in this place ended.
    End(usize),
    Wake,
}

/// An attempt under way.
struct Attempt {
    permit: Option<Permit>,
    failures: u32,
    succeeds: bool,
}

/// Random numbers, the same in each run (SplitMix64).
struct Random(u64);

impl Random {
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

impl World {
    /// Runs until every message is done. Delays are full jitter from 1 s to 10 minutes.
    fn run(&self, mut breaker: Option<Breaker>) -> Report {
        let start = clock::instant();
        let instant = |time| start + Duration::from_millis(time);
        let mut random = Random(7);
        let mut events = BinaryHeap::new();
        for number in 0..self.rate * self.arrive_until / SECOND {
            events.push(Reverse((number * SECOND / self.rate, Event::Ready(0))));
        }
        let mut report = Report::default();
        let mut ready = VecDeque::new();
        let mut attempts: Vec<Attempt> = Vec::new();
        let mut in_flight = 0;
        while let Some(Reverse((time, event))) = events.pop() {
            let at = instant(time);
            match event {
                Event::Wake => {}
                Event::Ready(failures) => ready.push_back(failures),
                Event::End(place) => {
                    in_flight -= 1;
                    let attempt = &mut attempts[place];
                    if attempt.succeeds {
                        report.done.push(time);
                    } else {
                        let failures = attempt.failures + 1;
                        let ceiling = jitter::exponential(1_000, 600_000, failures);
                        let delay = jitter::full(0, ceiling, random.next());
                        events.push(Reverse((time + u64::from(delay), Event::Ready(failures))));
                    }
                    if let (Some(breaker), Some(permit)) = (&mut breaker, attempt.permit.take()) {
                        let outcome = if attempt.succeeds {
                            Outcome::Succeeded { at }
                        } else {
                            let retry_after = None;
                            let random = random.next();
                            Outcome::Failed {
                                at,
                                retry_after,
                                down_for: None,
                                random,
                            }
                        };
                        breaker.leave(permit, outcome);
                    }
                }
            }
            while in_flight < self.most && !ready.is_empty() {
                let permit = match breaker.as_mut().map(|it| it.enter(at)).transpose() {
                    Ok(permit) => permit,
                    Err(Refused::Open { until }) => {
                        let wake = u64::try_from(until.duration_since(start).as_millis()).unwrap();
                        events.push(Reverse((wake + 1, Event::Wake)));
                        break;
                    }
                    Err(Refused::Probing | Refused::Full { .. }) => break,
                };
                let failures = ready.pop_front().unwrap();
                let succeeds = (self.succeeds)(time, random.next());
                let takes = if succeeds {
                    self.success_takes
                } else {
                    self.failure_takes
                };
                in_flight += 1;
                report.attempts.push(time);
                events.push(Reverse((time + takes, Event::End(attempts.len()))));
                attempts.push(Attempt {
                    permit,
                    failures,
                    succeeds,
                });
            }
        }
        report
    }

    fn both(&self) -> [Report; 2] {
        let settings = BreakerSettings::default().most(self.most);
        [None, Some(Breaker::new(settings))].map(|breaker| self.run(breaker))
    }
}

impl Report {
    /// When this part of the messages was done.
    fn done(&self, percent: usize) -> u64 {
        let mut done = self.done.clone();
        done.sort_unstable();
        done[(done.len() - 1) * percent / 100]
    }

    fn attempts_in(&self, times: Range<u64>) -> usize {
        self.attempts.iter().filter(|it| times.contains(it)).count()
    }

    fn done_in(&self, times: Range<u64>) -> usize {
        self.done.iter().filter(|it| times.contains(it)).count()
    }
}

/// At most 20 in flight for 20 ms each: 1,000 a second. Ten minutes of messages.
fn world(succeeds: fn(u64, f64) -> bool) -> World {
    World {
        rate: 50,
        arrive_until: 10 * MINUTE,
        most: 20,
        succeeds,
        success_takes: 20,
        failure_takes: 5,
    }
}

#[test]
fn an_outage_of_forty_minutes_costs_some_hundred_attempts_and_what_has_waited_comes_at_full_speed()
{
    const DOWN: Range<u64> = 5 * MINUTE..45 * MINUTE;
    let world = World {
        arrive_until: 50 * MINUTE,
        ..world(|time, _| !DOWN.contains(&time))
    };
    let [without, with] = world.both();
    // Some 250 before it opens, and then a probe each half to whole minute.
    assert!(without.attempts_in(DOWN) > 1_000_000);
    let attempts = with.attempts_in(DOWN);
    assert!((300..1_000).contains(&attempts), "{attempts}");
    assert!(with.attempts_in(DOWN.start + 10 * SECOND..DOWN.end) < 100);
    // At most a minute until a probe, and a few seconds to full speed, of which it makes use.
    let full = DOWN.end + MINUTE + 5 * SECOND;
    let second = full..full + SECOND;
    assert!(with.done_in(second.clone()) >= 990);
    assert!(without.done_in(second) < 700);
    // 120,000 messages have waited, while 50 a second come.
    assert!(with.attempts_in(full + 130 * SECOND..full + 140 * SECOND) <= 600);
    assert_eq!(with.done.len(), without.done.len());
}

#[test]
fn what_has_waited_comes_back_step_by_step() {
    const DOWN: Range<u64> = MINUTE..11 * MINUTE;
    let world = World {
        success_takes: 1_000,
        ..world(|time, _| !DOWN.contains(&time))
    };
    let [_, with] = world.both();
    let first = *with.done.iter().find(|it| **it > DOWN.end).unwrap();
    let begun = |second: u64| {
        let from = first + second * SECOND;
        with.attempts_in(from..from + SECOND)
    };
    // After the probe, one more in each second.
    let begun: Vec<_> = (0..20).map(begun).collect();
    assert!(begun.is_sorted() && begun[0] == 2, "{begun:?}");
    assert!((18..=20).contains(&begun[19]), "{begun:?}");
}

/// Partial trouble, which the breaker must not make worse: at full load, and with one message in a second.
#[test]
fn a_worker_that_flaps_or_fails_half_of_the_time_is_not_slower() {
    const FLAPS: fn(u64, f64) -> bool = |time, _| (time / (3 * SECOND)).is_multiple_of(2);
    const HALF: fn(u64, f64) -> bool = |_, random| random < 0.5;
    const QUARTER: fn(u64, f64) -> bool = |_, random| random < 0.25;
    const AFTER: fn(u64, f64) -> bool = |time, random| time > 5 * MINUTE && random < 0.5;
    const FULL: (u64, u64) = (20_000, SECOND);
    const SOME: (u64, u64) = (50, 5 * MINUTE);
    const FEW: (u64, u64) = (1, 30 * MINUTE);
    for (name, succeeds, success_takes) in [
        ("flaps", FLAPS, 20),
        ("flaps, slow", FLAPS, 1_000),
        ("half", HALF, 20),
        ("half, slow", HALF, 1_000),
        ("a quarter", QUARTER, 20),
        ("half, after an outage", AFTER, 20),
        ("half, slow, after an outage", AFTER, 1_000),
    ] {
        for (rate, arrive_until) in [FULL, SOME, FEW] {
            // With few attempts, twenty in a row may fail by chance.
            if name == "a quarter" && rate == 1 {
                continue;
            }
            let world = World {
                rate,
                arrive_until,
                success_takes,
                ..world(succeeds)
            };
            let [without, with] = world.both();
            for percent in [50, 90] {
                let [without, with] = [&without, &with].map(|it| it.done(percent));
                assert!(
                    with * 10 <= without * 11,
                    "{name} {rate} {percent}: {with} {without}"
                );
            }
        }
    }
}
