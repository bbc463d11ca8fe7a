//! What time it is at SQS.
//!
//! Ages and due times are compared with timestamps that SQS wrote, so they are measured on SQS's clock and not on this machine's, which may be wrong or set while the host runs. Each response and each message that is received for the first time says what time it was at SQS at a moment between the request and its answer. In between, time goes on with the machine's monotonic clock, which nobody sets.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;

/// How exact the times of SQS are: the `Date` of a response is in whole seconds.
const EXACT_TO: i64 = 1_000;

/// By how much a monotonic clock may be too fast or too slow: one part in this many.
const DRIFT: i64 = 2_000;

/// The time at SQS, as far as the host knows it.
#[derive(Debug)]
pub(super) struct ServiceClock {
    origin: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    known: Option<Offset>,
    /// What the last response said, if it contradicts what is known. One may be wrong; two that agree are not.
    doubtful: Option<Offset>,
}

/// SQS's time less the time since the origin, in milliseconds: between these two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offset {
    least: i64,
    most: i64,
    /// When it was learnt, in milliseconds since the origin.
    at: i64,
}

impl Offset {
    /// As it is known now: the two clocks may have drifted apart since.
    fn widened(self, now: i64) -> Self {
        let drift = (now - self.at).max(0) / DRIFT;
        Self {
            least: self.least - drift,
            most: self.most + drift,
            at: now.max(self.at),
        }
    }

    /// What both say; `None` if they contradict each other.
    fn and(self, new: Self) -> Option<Self> {
        let old = self.widened(new.at);
        let both = Self {
            least: old.least.max(new.least),
            most: old.most.min(new.most),
            at: new.at,
        };
        (both.least <= both.most).then_some(both)
    }
}

impl ServiceClock {
    /// Nothing is known yet.
    pub(super) fn new(origin: Instant) -> Self {
        Self {
            origin,
            state: Mutex::default(),
        }
    }

    /// Forgets what is known: until the next response, the time of day counts, which goes on while a process is frozen.
    pub(super) fn forget(&self) {
        *self.state() = State::default();
    }

    /// It was `time` at SQS, to the second, at a moment between these two.
    pub(super) fn observe(&self, time: Timestamp, sent: Instant, received: Instant) {
        let Ok(time) = i64::try_from(time.0) else {
            return;
        };
        let at = self.since_origin(received);
        let new = Offset {
            least: time.saturating_sub(at),
            most: time
                .saturating_add(EXACT_TO)
                .saturating_sub(self.since_origin(sent)),
            at,
        };
        let mut state = self.state();
        match state.known {
            None => state.known = Some(new),
            Some(known) => match known.and(new) {
                Some(both) => {
                    *state = State {
                        known: Some(both),
                        doubtful: None,
                    }
                }
                None => match state.doubtful.and_then(|it| it.and(new)) {
                    // This machine was suspended, or SQS's clock was set.
                    Some(both) => {
                        *state = State {
                            known: Some(both),
                            doubtful: None,
                        }
                    }
                    None => state.doubtful = Some(new),
                },
            },
        }
    }

    /// The time at SQS. Before the first response, that is `wall`, the time of day of this machine.
    pub(super) fn now(&self, now: Instant, wall: impl FnOnce() -> Timestamp) -> Timestamp {
        let Some(known) = self.state().known else {
            return wall();
        };
        let middle = known.least + (known.most - known.least) / 2;
        Timestamp(u64::try_from(middle.saturating_add(self.since_origin(now))).unwrap_or_default())
    }

    fn since_origin(&self, at: Instant) -> i64 {
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        ms(at.saturating_duration_since(self.origin))
            - ms(self.origin.saturating_duration_since(at))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: u64 = 1_767_225_600_000;
    const HOUR: u64 = 3_600_000;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A host whose monotonic clock started at `origin`, with the time of day that its machine believes.
    struct Host {
        clock: ServiceClock,
        origin: Instant,
        wall: u64,
    }

    impl Host {
        fn new(origin: Instant, wall: u64) -> Self {
            Self {
                clock: ServiceClock::new(origin),
                origin,
                wall,
            }
        }

        /// A request at this time of SQS, which is `TODAY` at the origin.
        fn request(&self, at: u64, took: u64) {
            let time = Timestamp((TODAY + at + took / 2) / 1_000 * 1_000);
            let sent = self.origin + ms(at);
            self.clock.observe(time, sent, sent + ms(took));
        }

        fn now(&self, at: u64) -> u64 {
            let wall = || Timestamp(self.wall);
            self.clock.now(self.origin + ms(at), wall).0
        }
    }

    #[test]
    fn hosts_whose_clocks_differ_agree_on_the_time_at_sqs() {
        let origin = backstop_core::clock::instant();
        for wall in [
            TODAY,
            TODAY + 120_000,
            TODAY - 120_000,
            TODAY + 72 * HOUR,
            0,
        ] {
            let host = Host::new(origin, wall);
            assert_eq!(host.now(0), wall);
            host.request(300, 20);
            let first = host.now(1_000).abs_diff(TODAY + 1_000);
            assert!(first <= 510, "{first}");
            // Each answer makes it more exact: their seconds end at different times.
            for at in [1_530, 2_950, 3_020, 4_700] {
                host.request(at, 20);
            }
            let later = host.now(10_000).abs_diff(TODAY + 10_000);
            assert!(later <= 100, "{later}");
        }
    }

    #[test]
    fn a_step_of_the_machine_s_clock_changes_nothing() {
        let mut host = Host::new(backstop_core::clock::instant(), TODAY);
        host.request(0, 20);
        let before = host.now(1_000);
        for step in [2 * HOUR, 72 * HOUR] {
            host.wall = TODAY + step;
            assert_eq!(host.now(1_000), before);
        }
    }

    #[test]
    fn a_long_poll_says_less_than_a_short_request_and_harms_nothing() {
        let host = Host::new(backstop_core::clock::instant(), TODAY);
        host.request(0, 20_000);
        assert!(host.now(20_000).abs_diff(TODAY + 20_000) <= 10_500);
        host.request(30_000, 10);
        let exact = host.now(31_000).abs_diff(TODAY + 31_000);
        assert!(exact <= 510, "{exact}");
        host.request(40_000, 20_000);
        assert!(host.now(61_000).abs_diff(TODAY + 61_000) <= 550);
    }

    #[test]
    fn one_answer_that_contradicts_the_others_is_ignored_and_two_that_agree_are_believed() {
        let host = Host::new(backstop_core::clock::instant(), TODAY);
        host.request(0, 20);
        let at = host.origin + ms(1_000);
        let wrong = |time: u64| host.clock.observe(Timestamp(time), at, at + ms(10));
        wrong(TODAY + 72 * HOUR);
        assert!(host.now(1_000).abs_diff(TODAY + 1_000) <= 510);
        // Another one that agrees with neither, and one that agrees with what is known.
        wrong(TODAY + 50 * HOUR);
        host.request(2_000, 20);
        wrong(TODAY + 72 * HOUR);
        assert!(host.now(2_500).abs_diff(TODAY + 2_500) <= 510);
        // The machine was suspended for an hour: every answer says so.
        for at in [3_000, 3_100] {
            let sent = host.origin + ms(at);
            let time = Timestamp((TODAY + HOUR + at) / 1_000 * 1_000);
            host.clock.observe(time, sent, sent + ms(20));
        }
        assert!(host.now(4_000).abs_diff(TODAY + HOUR + 4_000) <= 510);
    }

    #[test]
    fn clocks_that_drift_apart_do_not_contradict_each_other() {
        let host = Host::new(backstop_core::clock::instant(), TODAY);
        // This machine's clock is slow by one part in 5,000: a day of its is 17 s too short.
        for hour in 0..24 {
            let (at, time) = (hour * HOUR, TODAY + hour * HOUR + hour * HOUR / 5_000);
            let sent = host.origin + ms(at);
            let time = Timestamp(time / 1_000 * 1_000);
            host.clock.observe(time, sent, sent + ms(20));
            assert!(host.now(at).abs_diff(time.0) <= 2_500, "{hour}");
        }
    }
}
