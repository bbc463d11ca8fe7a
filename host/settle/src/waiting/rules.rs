//! Wakes of messages that are sent again. Such a message can't be made visible before its hop ends, so each wake stays as a rule until the last hop has ended. Any host that has the rule finds the message by its envelope.

use std::time::Duration;

use super::filter::{Matcher, Seen};
use crate::failure::{Milliseconds, Timestamp, random};
use crate::queue::MessageEnvelope;

/// The most rules of one queue. The oldest one makes place for another.
const RULES: usize = 64;

/// How long a rule stays after the last hop has ended: a busy queue delivers a message late.
pub(super) const LATE: Duration = Duration::from_secs(15 * 60);

/// One wake.
#[derive(Debug, Clone)]
pub(super) struct Rule {
    pub(super) matcher: Matcher,
    /// When it was requested. Messages that failed later do not match.
    pub(super) at: Timestamp,
    pub(super) spread: Milliseconds,
}

/// The wakes of one queue that may still meet a message.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<(Timestamp, Rule)>);

impl Rules {
    /// Adds a rule. Each hop takes this long at most.
    pub(super) fn add(&mut self, rule: Rule, longest_hop: Duration) {
        self.0.retain(|(ends, _)| *ends > rule.at);
        if self.0.len() >= RULES {
            self.0.remove(0);
        }
        let ends = rule.at.plus(longest_hop + LATE);
        self.0.push((ends, rule));
    }

    /// When a message that was sent again comes because of a wake, if that is earlier than it is due.
    pub(super) fn wake(
        &self,
        envelope: &MessageEnvelope,
        group: impl Fn() -> String,
        now: Timestamp,
    ) -> Option<Timestamp> {
        let rules = self.0.iter().filter(|(ends, _)| *ends > now);
        let times = rules.filter_map(|(_, rule)| rule.wake(envelope, &group));
        times.min().filter(|time| *time < envelope.due)
    }

    /// How many rules there are.
    pub(super) fn len(&self, now: Timestamp) -> usize {
        self.0.iter().filter(|(ends, _)| *ends > now).count()
    }
}

impl Rule {
    fn wake(&self, envelope: &MessageEnvelope, group: impl Fn() -> String) -> Option<Timestamp> {
        // A body is read for a rule that needs it.
        let group = self.matcher.has_groups().then(group).unwrap_or_default();
        let seen = Seen {
            code: &envelope.code,
            class: &envelope.class,
            attempt: envelope.attempts,
            due: envelope.due,
            failed: envelope.failed_at(),
            group: &group,
        };
        let matches = envelope.failed_at() < self.at
            && self.matcher.matches(seen)
            && self.matcher.names(|| envelope.id.clone());
        matches.then(|| self.time(&envelope.id))
    }

    /// When this rule wakes the message with this id: the same time on every machine.
    pub(super) fn time(&self, id: &str) -> Timestamp {
        let place = random(id, std::num::NonZeroU32::MIN);
        self.at.plus(self.spread.as_duration().mul_f64(place))
    }
}

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::*;

    const HOP: Duration = Duration::from_secs(900);

    fn envelope(id: &str) -> MessageEnvelope {
        MessageEnvelope {
            id: id.to_owned(),
            sent: Timestamp(0),
            first_received: Timestamp(0),
            sender: None,
            attempts: 2,
            delay: Milliseconds(3_600_000),
            due: Timestamp(4_000_000),
            hops: 1,
            policy: String::new(),
            code: "HTTP 503".to_owned(),
            class: "transient".to_owned(),
            failed: None,
            trace: None,
            is_verified: true,
            other_id: None,
        }
    }

    fn rule(at: u64, spread: u32) -> Rule {
        Rule {
            matcher: Matcher::of(&Filter {
                code: vec!["HTTP 503".to_owned()],
                ..Filter::default()
            }),
            at: Timestamp(at),
            spread: Milliseconds(spread),
        }
    }

    #[test]
    fn a_rule_wakes_what_failed_before_it_and_matches_until_the_hops_have_ended() {
        let mut rules = Rules::default();
        rules.add(rule(500_000, 0), HOP);
        let at = |time| Some(Timestamp(time));
        let now = Timestamp(600_000);
        assert_eq!(rules.wake(&envelope("m"), String::new, now), at(500_000));
        let other = MessageEnvelope {
            code: "HTTP 500".to_owned(),
            ..envelope("m")
        };
        let later = MessageEnvelope {
            due: Timestamp(4_200_000),
            ..envelope("m")
        };
        let hurried = MessageEnvelope {
            failed: Some(Timestamp(600_000)),
            ..envelope("m")
        };
        for unmatched in [other, later, hurried] {
            assert_eq!(
                rules.wake(&unmatched, String::new, now),
                None,
                "{unmatched:?}"
            );
        }
        assert_eq!(rules.len(now), 1);
        let much_later = Timestamp(500_000).plus(HOP + LATE);
        assert_eq!(rules.wake(&envelope("m"), String::new, much_later), None);
        assert_eq!(rules.len(much_later), 0);
    }

    #[test]
    fn the_times_of_a_rule_are_spread_and_never_later_than_the_message_is_due() {
        let mut rules = Rules::default();
        rules.add(rule(500_000, 100_000), HOP);
        let mut tenths = [0; 10];
        for number in 0..10_000 {
            let woken = rules.wake(
                &envelope(&number.to_string()),
                String::new,
                Timestamp(500_000),
            );
            let place = (woken.unwrap().0 - 500_000) / 10_000;
            tenths[usize::try_from(place).unwrap()] += 1;
        }
        assert!(
            tenths.iter().all(|it| (850..1_150).contains(it)),
            "{tenths:?}"
        );
        let soon = MessageEnvelope {
            due: Timestamp(500_000),
            delay: Milliseconds(1_000),
            ..envelope("m")
        };
        assert_eq!(rules.wake(&soon, String::new, Timestamp(500_000)), None);
    }

    #[test]
    fn a_rule_for_a_group_takes_the_group_of_the_message_that_has_arrived() {
        let mut rules = Rules::default();
        let of_group = Rule {
            matcher: Matcher::of(&Filter {
                group: vec!["acme".to_owned()],
                ..Filter::default()
            }),
            ..rule(500_000, 0)
        };
        rules.add(of_group, HOP);
        let now = Timestamp(600_000);
        for (group, wakes) in [("acme", true), ("globex", false), ("", false)] {
            let woken = rules.wake(&envelope("m"), || group.to_owned(), now);
            assert_eq!(woken.is_some(), wakes, "{group}");
        }
    }

    #[test]
    fn the_number_of_rules_is_limited() {
        let mut rules = Rules::default();
        for at in 0..1_000 {
            rules.add(rule(at, 0), HOP);
        }
        assert_eq!(rules.len(Timestamp(1_000)), RULES);
    }
}
