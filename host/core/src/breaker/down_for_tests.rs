//! A policy says that something is down.

use super::*;
use crate::clock;
use crate::decision::ErrorClass;

const SECOND: Duration = Duration::from_secs(1);

fn fails(at: Instant, down_for: Option<Duration>) -> Outcome {
    Outcome::of_failure(&ErrorClass::Transient, at, None, down_for, 0.0)
}

/// How long it is open from now on.
fn pause(breaker: &Breaker, now: Instant) -> Option<Duration> {
    match breaker.state() {
        State::Open { until } => Some(until - now),
        State::Closed | State::Probing | State::Growing { .. } => None,
    }
}

#[test]
fn one_failure_opens_it_for_as_long_as_the_policy_says_within_its_bound() {
    let now = clock::instant();
    for (said, expected) in [
        (None, None),
        (Some(Duration::ZERO), None),
        (Some(SECOND), Some(SECOND)),
        (Some(90 * SECOND), Some(90 * SECOND)),
        (Some(14 * 86_400 * SECOND), Some(300 * SECOND)),
        (Some(Duration::MAX), Some(300 * SECOND)),
    ] {
        let mut breaker = Breaker::new(BreakerSettings::default());
        let permit = breaker.enter(now).unwrap();
        let changed = breaker.leave(permit, fails(now, said));
        assert_eq!(pause(&breaker, now), expected, "{said:?}");
        assert_eq!(changed, expected.map(|_| breaker.state()), "{said:?}");
    }
}

#[test]
fn the_class_of_such_a_failure_does_not_matter() {
    let now = clock::instant();
    for class in [
        ErrorClass::Permanent,
        ErrorClass::Other("maintenance".to_owned()),
    ] {
        let said = Outcome::of_failure(&class, now, None, Some(SECOND), 0.0);
        let mut breaker = Breaker::new(BreakerSettings::default());
        let permit = breaker.enter(now).unwrap();
        breaker.leave(permit, said);
        assert_eq!(pause(&breaker, now), Some(SECOND));
        let silent = Outcome::of_failure(&class, now, None, None, 0.0);
        assert_eq!(silent, Outcome::Neither);
    }
}

#[test]
fn a_probe_that_fails_so_is_followed_by_the_longer_of_both_pauses() {
    for (said, expected) in [(1, 4), (60, 60)] {
        let mut now = clock::instant();
        let mut breaker = Breaker::new(BreakerSettings::default());
        breaker.hold_until(now + SECOND, now);
        now += SECOND;
        let probe = breaker.enter(now).unwrap();
        let changed = breaker.leave(probe, fails(now, Some(said * SECOND)));
        // The second pause is from 4 to 8 s.
        assert_eq!(pause(&breaker, now), Some(expected * SECOND));
        assert_eq!(changed, Some(breaker.state()));
    }
}

#[test]
fn while_it_grows_such_a_failure_opens_it_at_once() {
    let mut now = clock::instant();
    let mut breaker = Breaker::new(BreakerSettings::default());
    breaker.hold_until(now + SECOND, now);
    now += SECOND;
    let probe = breaker.enter(now).unwrap();
    breaker.leave(probe, Outcome::Succeeded { at: now });
    assert!(matches!(breaker.state(), State::Growing { .. }));
    let permit = breaker.enter(now).unwrap();
    breaker.leave(permit, fails(now, Some(10 * SECOND)));
    assert_eq!(pause(&breaker, now), Some(10 * SECOND));
}

#[test]
fn a_late_failure_lengthens_a_pause_and_opens_nothing_again() {
    let mut now = clock::instant();
    let mut breaker = Breaker::new(BreakerSettings::default());
    let mut permits: Vec<_> = (0..4).map(|_| breaker.enter(now).unwrap()).collect();
    let mut leave = |breaker: &mut Breaker, now, said: u32| {
        let outcome = fails(now, Some(said * SECOND));
        breaker.leave(permits.pop().unwrap(), outcome)
    };
    assert!(leave(&mut breaker, now, 20).is_some());
    now += SECOND;
    assert_eq!(leave(&mut breaker, now, 5), None);
    assert_eq!(pause(&breaker, now), Some(19 * SECOND));
    assert_eq!(leave(&mut breaker, now, 25), None);
    assert_eq!(pause(&breaker, now), Some(25 * SECOND));
    now += 25 * SECOND;
    let probe = breaker.enter(now).unwrap();
    breaker.leave(probe, Outcome::Succeeded { at: now });
    // It began before the outage, which is over.
    assert_eq!(leave(&mut breaker, now, 60), None);
    assert_eq!(pause(&breaker, now), None);
}
