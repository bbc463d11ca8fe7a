//! The health of the active version: the messages on which it broke recently.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::catalog::RollBack;

/// This many messages suffice if the version breaks whatever the message contains, which is then a property of the version.
const CERTAIN: usize = 2;

/// Breaks that depend on the content roll back only if there were this many times [`RollBack::broken`] messages since the first of them.
const SAMPLE: usize = 4;

/// If it broke on this share of the messages, in percent, they need no different content: what it breaks on is in nearly every message.
const NEARLY_ALL: usize = 90;

/// The most messages that are remembered.
const RECENT: usize = 1_000;

/// How a version broke on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// It breaks on the same failure without anything of the message, and reads nothing of it. `certain` if time played no part.
    Always { certain: bool },
    /// What the message contains may be the cause. These are hashes of its id and of the content that it broke on.
    OnContent { message: u64, content: u64 },
}

/// Counts the messages with a broken decision within a sliding time window.
///
/// - A message that the version breaks on whatever it contains counts once, however often it breaks, so that one message that breaks every version does not roll them all back.
/// - Breaks that depend on the content count once for each message and content, and roll back only if they are at least half of many messages: otherwise any sender could roll a version back with a few messages made for that. Those on the same content roll back only if they are nearly all.
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
    /// The hash of its id.
    message: u64,
    /// The hash of the content that it broke on, if it did.
    broken_on: Option<u64>,
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
            Break::OnContent { message, content } => self.on_content(message, content, now)?,
        };
        let within = self.limit.within;
        Some(format!("broken decisions on {counted} within {within:?}"))
    }

    /// Counts an answer, if the version broke on contents before. Returns whether further answers are counted too.
    pub(crate) fn record_answer(&mut self, message: u64, now: Instant) -> bool {
        self.add(message, None, now);
        if self.recent.iter().all(|recent| recent.broken_on.is_none()) {
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

    fn on_content(&mut self, message: u64, content: u64, now: Instant) -> Option<String> {
        self.add(message, Some(content), now);
        let limit = self.count();
        let sample = limit.saturating_mul(SAMPLE);
        let broken = || self.recent.iter().filter_map(|it| it.broken_on);
        let (all, messages) = (self.recent.len(), broken().count());
        let contents = broken().collect::<BTreeSet<_>>().len();
        let answered = all - messages;
        if contents >= limit && contents + answered >= sample && contents >= answered {
            let of = contents + answered;
            return Some(format!(
                "{contents} of {of} messages with different content"
            ));
        }
        let is_nearly_all = messages >= sample && 100 * messages >= NEARLY_ALL * all;
        is_nearly_all.then(|| format!("{messages} of {all} messages"))
    }

    fn add(&mut self, message: u64, broken_on: Option<u64>, now: Instant) {
        let within = self.limit.within;
        let recent = &mut self.recent;
        let is_same =
            |it: &Recent| (it.message, it.broken_on.is_some()) == (message, broken_on.is_some());
        recent.retain(|it| !is_same(it) && is_within(it.at, now, within));
        recent.push_back(Recent {
            at: now,
            message,
            broken_on,
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

    const fn on(message: u64, content: u64) -> Break {
        Break::OnContent { message, content }
    }

    #[test]
    fn breaks_on_content_roll_back_if_they_are_half_of_many_messages() {
        let now = clock::instant();
        // Without other messages, few are not enough, and the same message counts once.
        let mut alone = health(5);
        assert!((0..19).all(|it| alone.record_break("m", on(it, it), now).is_none()));
        assert!((0..99).all(|it| alone.record_break("m", on(1, it), now).is_none()));
        let reason = alone.record_break("m", on(19, 19), now).unwrap();
        assert!(
            reason.contains("20 of 20 messages with different content"),
            "{reason}"
        );
        // With others, they must be half.
        let mut among = health(5);
        assert!(!among.counts_answers());
        assert_eq!(among.record_break("m", on(1_000, 0), now), None);
        assert!((0..100).all(|message| among.record_answer(message, now)));
        assert!((1..99).all(|it| among.record_break("m", on(1_000 + it, it), now).is_none()));
        // The same content counts once.
        assert!((0..99).all(|it| among.record_break("m", on(2_000 + it, 1), now).is_none()));
        assert!(among.record_break("m", on(1_099, 99), now).is_some());
    }

    #[test]
    fn breaks_on_the_same_content_roll_back_if_they_are_nearly_all_messages() {
        let now = clock::instant();
        let mut alone = health(5);
        assert!((0..19).all(|it| alone.record_break("m", on(it, 7), now).is_none()));
        let reason = alone.record_break("m", on(19, 7), now).unwrap();
        assert!(reason.contains("on 20 of 20 messages within"), "{reason}");
        // One of ten may be answered.
        let mut among = health(5);
        assert_eq!(among.record_break("m", on(0, 7), now), None);
        assert!((100..103).all(|message| among.record_answer(message, now)));
        assert!((1..26).all(|it| among.record_break("m", on(it, 7), now).is_none()));
        assert!(among.record_break("m", on(26, 7), now).is_some());
    }

    #[test]
    fn answers_are_counted_until_the_last_break_on_content_is_over() {
        let mut health = health(5);
        let at = at(clock::instant());
        assert_eq!(health.record_break("m", on(0, 0), at(0)), None);
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
            assert_eq!(health.record_break(&id, on(message, message), now), None);
        }
    }
}
