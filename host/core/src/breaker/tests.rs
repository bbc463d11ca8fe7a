//! The states of a breaker, one by one.

use super::*;
use crate::clock;
use crate::decision::ErrorClass;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// A breaker with a time.
struct World {
    breaker: Breaker,
    start: Instant,
    now: Instant,
}

impl World {
    fn new(settings: BreakerSettings) -> Self {
        let start = clock::instant();
        Self {
            breaker: Breaker::new(settings),
            start,
            now: start,
        }
    }

    fn enter(&mut self) -> Permit {
        self.breaker.enter(self.now).unwrap()
    }

    fn refused(&mut self) -> Refused {
        self.breaker.enter(self.now).unwrap_err()
    }

    fn succeed(&mut self, permit: Permit) -> Option<State> {
        let at = self.now;
        self.breaker.leave(permit, Outcome::Succeeded { at })
    }

    fn fail(&mut self, permit: Permit) -> Option<State> {
        self.fail_with(permit, None, 0.0)
    }

    fn fail_with(
        &mut self,
        permit: Permit,
        retry_after: Option<Duration>,
        random: f64,
    ) -> Option<State> {
        let outcome = Outcome::Failed {
            at: self.now,
            retry_after,
            down_for: None,
            random,
        };
        self.breaker.leave(permit, outcome)
    }

    /// So many attempts that fail, one after the other, and the last of them 5 s after the first.
    fn failures(&mut self, count: u32) {
        for number in 1..=count {
            if number == count {
                self.now += 5 * SECOND;
            }
            let permit = self.enter();
            self.fail(permit);
        }
    }

    fn successes(&mut self, count: u32) {
        for _ in 0..count {
            let permit = self.enter();
            self.succeed(permit);
        }
    }

    /// Opens it and lets its first pause pass.
    fn outage(&mut self) {
        self.failures(20);
        self.now += 2 * SECOND;
    }

    /// Opens it, and then a probe succeeds.
    fn growing(settings: BreakerSettings) -> Self {
        let mut world = Self::new(settings);
        world.outage();
        world.successes(1);
        world
    }

    /// Milliseconds from now until the next probe.
    fn pause(&self) -> u128 {
        let State::Open { until } = self.breaker.state() else {
            panic!("{:?}", self.breaker.state())
        };
        until.saturating_duration_since(self.now).as_millis()
    }

    fn state(&self) -> State {
        self.breaker.state()
    }
}

fn world() -> World {
    World::new(BreakerSettings::default())
}

#[test]
fn it_opens_after_enough_failures_without_a_success_over_a_time_that_is_long_enough() {
    // Seconds, and whether an attempt succeeds then.
    let failures = |seconds: f64, count: u32| {
        (0..count).map(move |it| (seconds * f64::from(it) / f64::from(count - 1), false))
    };
    let success = [(0.0, true)].into_iter();
    for (outcomes, opens) in [
        (failures(5.0, 20).collect::<Vec<_>>(), true),
        (failures(5.0, 19).collect(), false),
        (failures(4.99, 2_000).collect(), false),
        (failures(600.0, 20).collect(), true),
        (success.clone().chain(failures(5.0, 20)).collect(), true),
        (
            failures(5.0, 19)
                .chain(success)
                .chain(failures(5.0, 19))
                .collect(),
            false,
        ),
    ] {
        let mut world = world();
        for (seconds, succeeds) in &outcomes {
            world.now = world.now.max(world.start + SECOND.mul_f64(*seconds));
            let Ok(permit) = world.breaker.enter(world.now) else {
                break;
            };
            if *succeeds {
                world.succeed(permit);
            } else {
                world.fail(permit);
            }
        }
        let is_open = matches!(world.state(), State::Open { .. });
        assert_eq!(is_open, opens, "{outcomes:?}");
    }
}

#[test]
fn nothing_has_succeeded_since_the_first_failed_attempt_began() {
    // Each attempt takes 5 s, until its timeout.
    let mut world = world();
    let permits: Vec<_> = (0..20).map(|_| world.enter()).collect();
    world.now += 5 * SECOND;
    let states: Vec<_> = permits.into_iter().map(|it| world.fail(it)).collect();
    assert!(matches!(states.last(), Some(Some(State::Open { .. }))));

    // But not if another one has succeeded since.
    let mut world = self::world();
    let permits: Vec<_> = (0..20).map(|_| world.enter()).collect();
    world.now += 4 * SECOND;
    world.successes(1);
    world.now += SECOND;
    for permit in permits {
        world.fail(permit);
    }
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn only_transient_and_throttled_failures_count() {
    for (class, counts) in [
        (ErrorClass::Transient, true),
        (ErrorClass::Throttled, true),
        (ErrorClass::Permanent, false),
        (ErrorClass::Other("cart".to_owned()), false),
    ] {
        let mut world = world();
        for _ in 0..20 {
            world.now += SECOND;
            let permit = world.enter();
            let outcome = Outcome::of_failure(&class, world.now, None, None, 0.0);
            world.breaker.leave(permit, outcome);
        }
        let status = world.breaker.status();
        assert_eq!(status.state != State::Closed, counts, "{class}");
        assert_eq!(status.in_flight, 0);
    }
}

#[test]
fn nothing_passes_until_the_pause_is_over_and_then_one_probe() {
    let mut world = world();
    world.failures(20);
    assert_eq!(world.pause(), 2_000);
    assert_eq!(world.breaker.room(world.now), Some(0));
    world.now += 1_999 * MS;
    let until = world.start + 7 * SECOND;
    assert_eq!(world.refused(), Refused::Open { until });
    world.now += MS;
    assert_eq!(world.breaker.room(world.now), Some(1));
    let probe = world.enter();
    assert_eq!(world.state(), State::Probing);
    world.now += 600 * SECOND;
    assert_eq!(world.refused(), Refused::Probing);
    assert_eq!(world.breaker.room(world.now), Some(0));
    let state = world.succeed(probe);
    assert_eq!(state, Some(State::Growing { limit: 2 }));
}

#[test]
fn the_pauses_grow_with_each_failed_probe_and_begin_anew_after_one_that_succeeds() {
    let mut world = world();
    world.failures(20);
    let mut pauses = vec![world.pause()];
    for _ in 0..6 {
        world.now += 60 * SECOND;
        world.failures(1);
        pauses.push(world.pause());
    }
    let expected = [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000];
    assert_eq!(pauses, expected);
    assert_eq!(world.breaker.status().pauses, 7);
    world.now += 60 * SECOND;
    world.successes(1);
    assert_eq!(world.breaker.status().pauses, 0);
    world.failures(20);
    assert_eq!(world.pause(), 2_000);
}

#[test]
fn a_retry_after_is_the_next_probe_if_it_is_longer_than_the_pause_up_to_a_bound() {
    for (asked, random, pauses) in [
        (None, 0.0, [2_000, 4_000]),
        (None, 0.999_999, [4_000, 8_000]),
        (Some(Duration::ZERO), 0.0, [2_000, 4_000]),
        (Some(3 * SECOND), 0.0, [3_000, 4_000]),
        (Some(10 * SECOND), 0.0, [10_000, 10_000]),
        (Some(Duration::MAX), 0.0, [300_000, 300_000]),
    ] {
        let mut world = world();
        world.failures(19);
        let permit = world.enter();
        world.fail_with(permit, asked, random);
        let first = world.pause();
        world.now += 300 * SECOND;
        let probe = world.enter();
        world.fail_with(probe, asked, random);
        assert_eq!([first, world.pause()], pauses, "{asked:?}");
    }
}

#[test]
fn a_probe_that_proves_nothing_is_followed_by_another_one_at_once() {
    let mut world = world();
    world.outage();
    for _ in 0..100 {
        let probe = world.enter();
        assert_eq!(world.refused(), Refused::Probing);
        let state = world.breaker.leave(probe, Outcome::Neither);
        assert!(matches!(state, Some(State::Open { .. })));
    }
    world.successes(1);
    assert_eq!(world.state(), State::Growing { limit: 2 });
}

#[test]
fn an_attempt_that_began_before_it_opened_counts_no_more() {
    let mut world = world();
    let late: Vec<_> = (0..60).map(|_| world.enter()).collect();
    let mut late = late.into_iter();
    world.failures(20);
    // While it is open, failures do not prolong the pause, and successes do not close it.
    for permit in late.by_ref().take(20) {
        assert_eq!(world.fail_with(permit, Some(60 * SECOND), 0.0), None);
    }
    for permit in late.by_ref().take(10) {
        assert_eq!(world.succeed(permit), None);
    }
    assert_eq!(world.pause(), 2_000);
    // While it probes and while it grows, they neither end the probe nor change the limit.
    world.now += 2 * SECOND;
    let probe = world.enter();
    for permit in late.by_ref().take(10) {
        assert_eq!(world.succeed(permit), None);
    }
    assert_eq!(world.state(), State::Probing);
    world.succeed(probe);
    for permit in late.by_ref().take(10) {
        assert_eq!(world.fail(permit), None);
    }
    assert_eq!(world.state(), State::Growing { limit: 2 });
    // And those that hang take no room.
    let status = world.breaker.status();
    assert_eq!((status.in_flight, status.failed), (10, 0));
    assert_eq!(world.breaker.room(world.now), Some(2));
    assert_eq!(status.since, Some(world.now));
}

#[test]
fn the_limit_grows_by_one_for_each_round_of_successes_until_it_is_closed() {
    let mut world = World::growing(BreakerSettings::default().most(4));
    let mut limits = Vec::new();
    let mut successes = 0;
    while let State::Growing { limit } = world.state() {
        limits.push(limit);
        let permits: Vec<_> = (0..limit).map(|_| world.enter()).collect();
        assert_eq!(world.refused(), Refused::Full { limit });
        world.now += 10 * MS;
        for permit in permits {
            world.succeed(permit);
        }
        successes += limit;
    }
    assert_eq!((limits, successes), (vec![2, 2, 3], 7));
    assert_eq!(world.state(), State::Closed);
    assert_eq!(world.breaker.room(world.now), None);
}

#[test]
fn it_is_closed_when_the_limit_has_held_nobody_back_for_half_a_minute() {
    let mut world = World::growing(BreakerSettings::default());
    for _ in 0..29 {
        world.now += SECOND;
        world.successes(1);
        assert!(matches!(world.state(), State::Growing { .. }));
    }
    world.now += SECOND;
    world.successes(1);
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn a_share_of_failures_cuts_a_limit_that_grows_once_in_some_rounds_and_never_below_one() {
    // A success takes 100 ms, and so two rounds 200 ms. In each of them so many of ten attempts fail.
    for (failing, expected) in [
        (10, [16, 16, 16, 16, 8, 8, 4, 4, 2, 2, 1, 1]),
        (8, [16, 16, 16, 16, 8, 8, 4, 5, 3, 3, 2, 3]),
        (7, [16, 16, 16, 16, 16, 16, 17, 17, 17, 17, 17, 17]),
        (0, [16, 16, 17, 17, 18, 18, 19, 19, 20, 20, 21, 21]),
    ] {
        let mut world = world();
        world.outage();
        let probe = world.enter();
        world.now += 100 * MS;
        world.succeed(probe);
        while world.state() != (State::Growing { limit: 16 }) {
            world.successes(1);
        }
        // The outcomes so far are judged with those of the next two rounds.
        let limits = expected.map(|_| {
            let State::Growing { limit } = world.state() else {
                panic!("{:?}", world.state())
            };
            world.now += 100 * MS;
            for number in 0..10 {
                let permit = world.enter();
                if number < failing {
                    world.fail(permit);
                } else {
                    world.succeed(permit);
                }
            }
            limit
        });
        assert_eq!(limits, expected, "{failing}");
    }
}

#[test]
fn while_it_grows_it_opens_as_a_closed_one_does() {
    let mut world = World::growing(BreakerSettings::default());
    world.failures(19);
    assert!(matches!(world.state(), State::Growing { .. }));
    world.successes(1);
    world.failures(19);
    world.failures(1);
    assert_eq!(world.pause(), 2_000);
}

#[test]
fn a_hold_opens_it_at_once_for_as_long_as_is_believed_and_never_shortens_a_pause() {
    for (seconds, pause) in [(10, Some(10_000)), (86_400, Some(300_000)), (0, None)] {
        let mut world = world();
        let late = world.enter();
        let time = world.now + seconds * SECOND;
        let state = world.breaker.hold_until(time, world.now);
        assert_eq!(state.is_some(), pause.is_some());
        assert_eq!(world.succeed(late), None);
        if let Some(pause) = pause {
            assert_eq!(world.pause(), pause);
            let sooner = world.now + SECOND;
            assert_eq!(world.breaker.hold_until(sooner, world.now), None);
            assert_eq!(world.pause(), pause);
        }
    }
    // It ends a probe, whose success then says nothing.
    let mut world = world();
    world.outage();
    let probe = world.enter();
    let time = world.now + 10 * SECOND;
    assert!(world.breaker.hold_until(time, world.now).is_some());
    assert_eq!(world.succeed(probe), None);
    assert_eq!(world.pause(), 10_000);
}

#[test]
fn a_time_that_another_thread_read_earlier_is_no_step_back() {
    let mut world = world();
    world.now += 100 * SECOND;
    let late = world.enter();
    world.failures(19);
    world.now -= 50 * SECOND;
    world.fail(late);
    assert_eq!(world.state(), State::Closed);
    world.now += 50 * SECOND;
    world.failures(1);
    assert_eq!(world.pause(), 2_000);
    world.now -= 50 * SECOND;
    assert!(matches!(world.refused(), Refused::Open { .. }));
}

#[test]
fn invalid_settings_count_as_the_nearest_valid_ones() {
    let settings = BreakerSettings::default()
        .minimum(0)
        .shortest_outage(Duration::MAX)
        .longest_retry_after(Duration::MAX)
        .most(0)
        .growth(0)
        .share(f64::NAN)
        .cut(f64::INFINITY);
    let mut world = World::new(settings);
    let settings = *world.breaker.settings();
    assert_eq!((settings.share, settings.cut), (0.8, 0.9));
    world.now += 3_600 * SECOND;
    world.failures(1);
    assert_eq!(world.state(), State::Closed);
    world.now += 3_600 * SECOND;
    world.failures(1);
    world.now += 2 * SECOND;
    // With a limit of one, the probe closes it.
    world.successes(1);
    assert_eq!(world.state(), State::Closed);
}

#[test]
fn the_least_recently_used_idle_keys_are_forgotten_and_those_in_use_are_not() {
    let now = clock::instant();
    let mut breakers: Breakers<u32> = Breakers::new(BreakerSettings::default(), 20);
    let succeeded = Outcome::Succeeded { at: now };
    let enter = |breakers: &mut Breakers<u32>, key| breakers.enter(&key, now);
    // Key 0 is open, key 1 has an attempt in flight, the others are idle; 2 was used again.
    assert!(breakers.hold_until(&0, now + SECOND, now).is_some());
    let held = enter(&mut breakers, 1).unwrap().unwrap();
    for key in (2..20).chain([2]) {
        let permit = enter(&mut breakers, key).unwrap().unwrap();
        breakers.leave(&key, permit, succeeded);
    }
    let permit = enter(&mut breakers, 20).unwrap().unwrap();
    let mut left: Vec<_> = breakers.iter().map(|(key, _)| *key).collect();
    left.sort_unstable();
    assert_eq!(
        left,
        [0, 1, 2].into_iter().chain(6..=20).collect::<Vec<_>>()
    );
    assert!(enter(&mut breakers, 0).is_err());
    assert_eq!(breakers.get(&1).unwrap().status().in_flight, 1);
    breakers.leave(&1, held, succeeded);
    breakers.leave(&20, permit, succeeded);

    // All are in use: a new key has none, and passes.
    let mut breakers: Breakers<u32> = Breakers::new(BreakerSettings::default(), 3);
    let held: Vec<_> = (0..3).map(|key| enter(&mut breakers, key)).collect();
    assert!(enter(&mut breakers, 3).unwrap().is_none());
    assert_eq!(breakers.hold_until(&3, now + SECOND, now), None);
    assert_eq!(breakers.iter().count(), 3);
    for (key, permit) in (0..).zip(held) {
        let permit = permit.unwrap().unwrap();
        breakers.leave(&key, permit, succeeded);
    }
    assert!(enter(&mut breakers, 3).unwrap().is_some());
}

#[test]
fn a_held_key_is_open_and_the_others_pass() {
    let now = clock::instant();
    let mut breakers: Breakers<String> = Breakers::new(BreakerSettings::default(), 10);
    let state = breakers.hold_until("tenant-7", now + SECOND, now);
    let until = now + SECOND;
    assert_eq!(state, Some(State::Open { until }));
    assert_eq!(
        breakers.enter("tenant-7", now).unwrap_err(),
        Refused::Open { until }
    );
    assert!(breakers.enter("tenant-8", now).is_ok());
}
