//! What holds for every sequence of events.

use proptest::prelude::*;

use super::*;
use crate::clock;

/// An event: time passes, somebody asks, an attempt ends.
#[derive(Debug, Clone, Copy)]
enum Event {
    Pass(u64),
    Enter,
    Leave { place: usize, outcome: u8 },
    Hold(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0_u64..5_000).prop_map(Event::Pass),
        1 => (0_u64..100_000).prop_map(Event::Pass),
        8 => Just(Event::Enter),
        6 => (any::<usize>(), 0_u8..5).prop_map(|(place, outcome)| Event::Leave { place, outcome }),
        1 => (0_u64..600_000).prop_map(Event::Hold),
    ]
}

/// Mostly failures.
fn outcome(number: u8, at: Instant) -> Outcome {
    match number {
        0 => Outcome::Succeeded { at },
        1 => Outcome::Neither,
        _ => Outcome::Failed {
            at,
            retry_after: Some(Duration::from_secs(number.into())),
            down_for: (number == 4).then_some(Duration::from_secs(40)),
            random: 0.5,
        },
    }
}

fn milliseconds(number: u64) -> Duration {
    Duration::from_millis(number)
}

proptest! {
    #[test]
    fn there_is_one_probe_at_a_time_and_never_more_in_flight_than_the_limit(
        events in prop::collection::vec(event(), 0..400),
        most in 1_u32..20,
    ) {
        let mut now = clock::instant();
        let mut breaker = Breaker::new(BreakerSettings::default().most(most).minimum(3).shortest_outage(milliseconds(1_000)));
        let mut permits: Vec<Permit> = Vec::new();
        for event in events {
            match event {
                Event::Pass(passed) => now += milliseconds(passed),
                Event::Hold(time) => drop(breaker.hold_until(now + milliseconds(time), now)),
                Event::Leave { place, outcome: number } => if !permits.is_empty() {
                    let permit = permits.swap_remove(place % permits.len());
                    breaker.leave(permit, outcome(number, now));
                },
                Event::Enter => {
                    let room = breaker.room(now);
                    let entered = breaker.enter(now);
                    prop_assert_eq!(entered.is_ok(), room != Some(0));
                    if let Ok(permit) = entered {
                        let fresh = permits.iter().filter(|it| it.era == permit.era).count() + 1;
                        match breaker.state() {
                            State::Closed => {}
                            State::Open { .. } => prop_assert!(false, "it let an attempt pass"),
                            State::Probing => prop_assert_eq!(fresh, 1),
                            State::Growing { limit } => {
                                prop_assert!(fresh <= limit as usize && limit <= most);
                            }
                        }
                        permits.push(permit);
                    }
                }
            }
            prop_assert_eq!(breaker.status().in_flight as usize, permits.len());
        }
        // Whatever happened: once everything succeeds, it is closed.
        for permit in permits {
            breaker.leave(permit, Outcome::Neither);
        }
        let healthy = now;
        while breaker.state() != State::Closed {
            if let Ok(permit) = breaker.enter(now) {
                breaker.leave(permit, Outcome::Succeeded { at: now });
            }
            now += milliseconds(100);
            prop_assert!(now - healthy < Duration::from_secs(300 + 31), "{breaker:?}");
        }
    }

    #[test]
    fn as_long_as_something_succeeds_now_and_then_it_never_opens(
        // Failures, and the time before each; then a success.
        groups in prop::collection::vec((0_u32..200, 0_u64..60_000), 0..100),
    ) {
        let mut now = clock::instant();
        let mut breaker = Breaker::new(BreakerSettings::default());
        for (failures, time) in groups {
            let time = match failures {
                20.. => time.min(4_999),
                0..20 => time,
            };
            for _ in 0..failures {
                let permit = breaker.enter(now).unwrap();
                now += milliseconds(time / u64::from(failures));
                breaker.leave(permit, outcome(2, now));
                prop_assert_eq!(breaker.state(), State::Closed);
            }
            let permit = breaker.enter(now).unwrap();
            breaker.leave(permit, Outcome::Succeeded { at: now });
        }
    }

    #[test]
    fn there_are_never_more_keys_than_allowed_and_every_permit_finds_its_breaker(
        events in prop::collection::vec((0_u8..30, event()), 0..400),
        most in 1_usize..12,
    ) {
        let mut now = clock::instant();
        let mut breakers: Breakers<u8> = Breakers::new(BreakerSettings::default().minimum(2).shortest_outage(milliseconds(500)), most);
        let mut permits = Vec::new();
        for (key, event) in events {
            match event {
                Event::Pass(passed) => now += milliseconds(passed),
                Event::Hold(time) => drop(breakers.hold_until(&key, now + milliseconds(time), now)),
                Event::Enter => if let Ok(Some(permit)) = breakers.enter(&key, now) {
                    permits.push((key, permit));
                },
                Event::Leave { place, outcome: number } => if !permits.is_empty() {
                    let (key, permit) = permits.swap_remove(place % permits.len());
                    prop_assert!(breakers.get(&key).is_some());
                    breakers.leave(&key, permit, outcome(number, now));
                },
            }
            prop_assert!(breakers.iter().count() <= most);
            let in_flight: u32 = breakers.iter().map(|(_, it)| it.status().in_flight).sum();
            prop_assert_eq!(in_flight as usize, permits.len());
        }
    }
}
