//! Retries by a new decision: which waiting messages come sooner for it, and when.

use std::time::Duration;

use super::memory::{At, Slot};
use super::spread::spread;
use super::wake::{LEAST, is_sooner};
use crate::decision::Hold;
use crate::failure::{Milliseconds, Timestamp};

/// A new decision on a waiting message: retry at this time.
#[derive(Debug)]
pub(super) struct SoonerRetry {
    pub(super) at: At,
    pub(super) hold: Hold,
    /// Whether its envelope says when it is due, so that its new time has to be known when it comes.
    pub(super) by_envelope: bool,
    /// Whether the message is known to wait: its last hop has not ended.
    pub(super) waits: bool,
    /// When it comes as decided before.
    pub(super) due: i64,
    /// When it can come: one that is sent again, when its hop ends.
    pub(super) earliest: i64,
    pub(super) time: i64,
    pub(super) failed_at: Timestamp,
    pub(super) delay: Milliseconds,
}

impl SoonerRetry {
    pub(super) fn of(at: At, slot: &Slot, failed_at: Timestamp, delay: Milliseconds) -> Self {
        let is_resent = slot.hold == Hold::Resend;
        // No delay is shorter than decided: timeouts are cut to whole seconds.
        let rounding = if is_resent { 0 } else { 999 };
        Self {
            at,
            hold: slot.hold,
            by_envelope: slot.by_envelope,
            waits: !slot.hop_ended,
            due: slot.due,
            earliest: if is_resent && !slot.hop_ended {
                slot.ends
            } else {
                i64::MIN
            },
            time: slot.failed + i64::from(delay.0) + rounding,
            failed_at,
            delay,
        }
    }

    fn is_sooner(&self, time: i64, now: i64) -> bool {
        match self.hold {
            Hold::Visibility => is_sooner(self.due, time, now),
            Hold::Resend => self.due - time.max(self.earliest) >= LEAST,
        }
    }
}

/// The messages that come sooner, and when: at the time of the new decision, or spread from now on if that is over. No message comes later than it would have.
pub(super) fn sooner(
    retries: &[SoonerRetry],
    now: i64,
    over: Duration,
) -> Vec<(&SoonerRetry, i64)> {
    let (mut overdue, future): (Vec<_>, Vec<_>) = retries.iter().partition(|it| it.time <= now);
    overdue.sort_by_key(|it| it.due);
    let dues: Vec<_> = overdue.iter().map(|it| it.due).collect();
    let overdue = overdue.into_iter().zip(spread(dues.into_iter(), now, over));
    let future = future.into_iter().map(|it| (it, it.time.min(it.due)));
    overdue
        .chain(future)
        .filter(|(it, time)| it.is_sooner(*time, now))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: i64 = 1_000_000;

    /// A message that is sent again: its hop ends, it is due, and the new decision says so, all from now.
    fn resent(ends: i64, due: i64, time: i64) -> SoonerRetry {
        SoonerRetry {
            at: At::default(),
            hold: Hold::Resend,
            by_envelope: true,
            waits: true,
            due: NOW + due,
            earliest: NOW + ends,
            time: NOW + time,
            failed_at: Timestamp(0),
            delay: Milliseconds(0),
        }
    }

    fn times(retries: &[SoonerRetry], over: u64) -> Vec<i64> {
        let sooner = sooner(retries, NOW, Duration::from_secs(over));
        sooner.iter().map(|(_, time)| time - NOW).collect()
    }

    #[test]
    fn a_message_that_is_sent_again_comes_sooner_if_it_is_due_after_its_hop() {
        for (ends, due, time, comes) in [
            (900_000, 9_000_000, 1_200_000, vec![1_200_000]),
            // At the end of its hop, as early as that is possible.
            (900_000, 9_000_000, 5_000, vec![5_000]),
            (900_000, 900_000, 5_000, vec![]),
            (900_000, 900_999, 5_000, vec![]),
            (900_000, 9_000_000, 8_999_001, vec![]),
            (900_000, 9_000_000, 9_500_000, vec![]),
            // Where it is, nobody knows: it may come at any time.
            (-NOW, 900_000, 5_000, vec![5_000]),
        ] {
            let retry = resent(ends, due, time);
            assert_eq!(times(&[retry], 0), comes, "{ends} {due} {time}");
        }
    }

    #[test]
    fn overdue_messages_are_spread_however_they_are_held() {
        let by_visibility = SoonerRetry {
            hold: Hold::Visibility,
            earliest: i64::MIN,
            ..resent(0, 5_000_000, -1)
        };
        let retries = [
            resent(100, 9_000_000, -1),
            by_visibility,
            resent(100, 7_000_000, 0),
            resent(100, 8_000_000, 300),
        ];
        // In the order in which they were due; the last one is not overdue.
        assert_eq!(times(&retries, 3), [0, 1_000, 2_000, 300]);
    }

    proptest! {
        #[test]
        fn no_message_comes_later_or_before_the_new_decision_says(
            messages in proptest::collection::vec((0_i64..900_000, 0_i64..9_000_000, -9_000_000_i64..9_000_000), 0..30),
            over in 0_u64..10_000,
        ) {
            let retries: Vec<_> = messages
                .iter()
                .map(|(ends, more, time)| resent(*ends, ends + more, *time))
                .collect();
            for (retry, time) in sooner(&retries, NOW, Duration::from_secs(over)) {
                prop_assert!(time.max(retry.earliest) < retry.due);
                prop_assert!(time >= retry.time);
            }
        }
    }
}
