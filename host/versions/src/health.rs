//! The health of the active version: the messages on which it broke recently.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::catalog::RollBack;

/// This many messages suffice if the version breaks whatever the message contains, which is then a property of the version.
const CERTAIN: usize = 2;

/// Breaks that depend on the content roll back only if there were this many times [`RollBack::broken`] messages since the first of them.
const SAMPLE: usize = 4;

/// The most messages that are remembered.
const RECENT: usize = 1_000;

/// How a version broke on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// It breaks on the same failure without anything of the message. `certain` if time played no part.
    Always { certain: bool },
    /// It answers then. This is a hash of the content that it broke on.
    OnContent(u64),
}

/// Counts the messages with a broken decision within a sliding time window.
///
/// - A message that the version breaks on whatever it contains counts once, however often it breaks, so that one message that breaks every version does not roll them all back.
/// - Breaks that depend on the content count once for each content, and roll back only if they are at least half of many messages: otherwise any sender could roll a version back with a few messages made for that.
#[derive(Debug)]
pub(crate) struct Health {
    limit: RollBack,
    /// The messages that it breaks on whatever they contain, in the order of their last broken decisions.
    broken: VecDeque<Broken>,
    /// The last messages since the first that it broke on because of the content.
    recent: VecDeque<Recent>,
}

#[derive(Debug)]
struct Broken {
    at: Instant,
    message_id: String,
    is_certain: bool,
}

#[derive(Debug)]
struct Recent {
    at: Instant,
    /// The hash of the message's id if it was answered, that of the content if not.
    key: u64,
    is_broken: bool,
}

impl Health {
    pub(crate) fn new(limit: RollBack) -> Self {
        Self {
            limit,
            broken: VecDeque::new(),
            recent: VecDeque::new(),
        }
    }

    /// Counts a broken decision on this message. Returns why the version is to be rolled back, if it is.
    pub(crate) fn record_break(
        &mut self,
        message_id: &str,
        how: Break,
        now: Instant,
    ) -> Option<String> {
        if self.limit.broken == 0 {
            return None;
        }
        let counted = match how {
            Break::Always { certain } => self.always(message_id, certain, now)?,
            Break::OnContent(content) => self.on_content(content, now)?,
        };
        let within = self.limit.within;
        Some(format!("broken decisions on {counted} within {within:?}"))
    }

    /// Counts an answer, if the version broke on contents before. Returns whether further answers are counted too.
    pub(crate) fn record_answer(&mut self, message: u64, now: Instant) -> bool {
        self.add(message, false, now);
        if !self.recent.iter().any(|recent| recent.is_broken) {
            self.recent.clear();
        }
        self.counts_answers()
    }

    /// Whether answers are counted: there are breaks to compare them with.
    pub(crate) fn counts_answers(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Starts again at zero, for another version.
    pub(crate) fn clear(&mut self) {
        self.broken.clear();
        self.recent.clear();
    }

    fn always(&mut self, message_id: &str, is_certain: bool, now: Instant) -> Option<String> {
        let (limit, within) = (self.count(), self.limit.within);
        let broken = &mut self.broken;
        broken.retain(|it| it.message_id != message_id && is_within(it.at, now, within));
        broken.push_back(Broken {
            at: now,
            message_id: message_id.to_owned(),
            is_certain,
        });
        // More than the limit need not be kept.
        while broken.len() > limit {
            broken.pop_front();
        }
        let certain = broken.iter().filter(|it| it.is_certain).count();
        let is_enough = broken.len() >= limit || certain >= limit.min(CERTAIN);
        is_enough.then(|| match broken.len() {
            1 => "1 message".to_owned(),
            count => format!("{count} messages"),
        })
    }

    fn on_content(&mut self, content: u64, now: Instant) -> Option<String> {
        self.add(content, true, now);
        let (limit, all) = (self.count(), self.recent.len());
        let broken = self.recent.iter().filter(|it| it.is_broken).count();
        let is_enough = broken >= limit && all >= limit.saturating_mul(SAMPLE) && 2 * broken >= all;
        is_enough.then(|| format!("{broken} of {all} messages with different content"))
    }

    fn add(&mut self, key: u64, is_broken: bool, now: Instant) {
        let within = self.limit.within;
        let recent = &mut self.recent;
        recent.retain(|it| {
            (it.key, it.is_broken) != (key, is_broken) && is_within(it.at, now, within)
        });
        recent.push_back(Recent {
            at: now,
            key,
            is_broken,
        });
        while recent.len() > RECENT {
            recent.pop_front();
        }
    }

    /// A limit above what is remembered would never be reached.
    fn count(&self) -> usize {
        let broken = usize::try_from(self.limit.broken).unwrap_or(usize::MAX);
        broken.min(RECENT / SAMPLE)
    }
}

fn is_within(at: Instant, now: Instant, within: Duration) -> bool {
    now.duration_since(at) <= within
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::clock;

    const PERHAPS: Break = Break::Always { certain: false };
    const CERTAINLY: Break = Break::Always { certain: true };

    fn health(broken: u32) -> Health {
        Health::new(RollBack {
            broken,
            within: Duration::from_secs(60),
        })
    }

    /// A second `after` some start.
    fn at(start: Instant) -> impl Fn(u64) -> Instant {
        move |seconds| start + Duration::from_secs(seconds)
    }

    #[test]
    fn the_limit_counts_messages_within_the_time_window() {
        let mut health = health(3);
        let at = at(clock::instant());
        let counts: Vec<_> = [0, 30, 61, 80, 90, 91]
            .map(|second| {
                health
                    .record_break(&format!("m-{second}"), PERHAPS, at(second))
                    .is_some()
            })
            .to_vec();
        assert_eq!(counts, [false, false, false, true, true, true]);
        health.clear();
        assert_eq!(health.record_break("m", PERHAPS, at(92)), None);
    }

    #[test]
    fn a_message_counts_once_with_the_time_of_its_last_broken_decision() {
        let mut health = health(2);
        let at = at(clock::instant());
        for second in 0..=50 {
            assert_eq!(health.record_break("one", CERTAINLY, at(second)), None);
        }
        let reason = health.record_break("another", CERTAINLY, at(100));
        assert_eq!(
            reason.as_deref(),
            Some("broken decisions on 2 messages within 60s")
        );
        assert_eq!(health.record_break("a third", CERTAINLY, at(161)), None);
    }

    #[test]
    fn two_messages_suffice_if_the_version_breaks_whatever_they_contain() {
        let mut health = health(5);
        let now = clock::instant();
        assert_eq!(health.record_break("slow", PERHAPS, now), None);
        assert_eq!(health.record_break("one", CERTAINLY, now), None);
        assert!(health.record_break("two", CERTAINLY, now).is_some());
        let mut only = Health::new(RollBack {
            broken: 1,
            ..RollBack::default()
        });
        let reason = only.record_break("one", CERTAINLY, now).unwrap();
        assert!(reason.contains("on 1 message within"), "{reason}");
    }

    #[test]
    fn breaks_on_content_roll_back_if_they_are_half_of_many_messages() {
        let now = clock::instant();
        let on = |content| Break::OnContent(content);
        // Without other messages, few are not enough, and the same content counts once.
        let mut alone = health(5);
        assert!((0..19).all(|it| alone.record_break("m", on(it), now).is_none()));
        assert!((0..99).all(|_| alone.record_break("m", on(1), now).is_none()));
        let reason = alone.record_break("m", on(19), now).unwrap();
        assert!(
            reason.contains("20 of 20 messages with different content"),
            "{reason}"
        );
        // With others, they must be half.
        let mut among = health(5);
        assert!(!among.counts_answers());
        assert_eq!(among.record_break("m", on(0), now), None);
        assert!((0..100).all(|message| among.record_answer(message, now)));
        assert!((1..99).all(|it| among.record_break("m", on(it), now).is_none()));
        assert!(among.record_break("m", on(99), now).is_some());
    }

    #[test]
    fn answers_are_counted_until_the_last_break_on_content_is_over() {
        let mut health = health(5);
        let at = at(clock::instant());
        assert_eq!(health.record_break("m", Break::OnContent(0), at(0)), None);
        assert!(health.record_answer(1, at(60)));
        assert!(!health.record_answer(2, at(61)));
        assert!(!health.counts_answers());
    }

    #[test]
    fn zero_disables_automatic_roll_back() {
        let mut health = health(0);
        let now = clock::instant();
        for message in 0..100 {
            let id = message.to_string();
            assert_eq!(health.record_break(&id, CERTAINLY, now), None);
            assert_eq!(
                health.record_break(&id, Break::OnContent(message), now),
                None
            );
        }
    }
}
