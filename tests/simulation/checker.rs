//! What must hold in every history, seen from outside alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_core::decision::Action;

use super::history::{Event, History};
use super::plan::{Kind, PERMANENT, Plan};

/// More than latency between two events that follow from each other.
const SLACK: Duration = Duration::from_millis(100);

/// How long a request that went wrong may hold up others: until it is known to have failed, and is repeated.
const DOUBT: Duration = Duration::from_secs(65);

/// What is known of a message at some time of the history.
#[derive(Debug, Default)]
struct Known {
    succeeded: bool,
    letters: u32,
    letter_unsure: bool,
    /// Until when requests about it may be late.
    doubt: Duration,
    copies: u32,
    /// Sent again, and not deleted yet: whoever is killed now leaves both.
    is_both: bool,
    receives: u32,
    attempts: u32,
    /// Attempts under way, by host.
    under_way: Vec<u64>,
    /// The code of the last attempt that ended.
    code: Option<&'static str>,
    /// A decided retry: who, and from when on.
    due: Option<(u64, Duration)>,
    /// Who has received it last: an older receipt handle changes nothing.
    holder: u64,
    /// The receive count of the last receive.
    count: u32,
    /// From when on anybody may receive it.
    visible: Duration,
    /// Why the message died, as was decided.
    reasons: BTreeSet<String>,
    /// Something happened that may bring it early, or twice.
    excused: bool,
    /// It was delivered twice: from then on there may be two of everything.
    duplicated: bool,
    gone: bool,
}

/// Checks a history. Each text is something that must not be.
pub(crate) fn check(plan: &Plan, history: &History) -> Vec<String> {
    let mut checker = Checker {
        plan,
        wrong: history.unended.clone(),
        messages: BTreeMap::new(),
        sent: Vec::new(),
    };
    for (at, event) in &history.events {
        checker.see(*at, event);
    }
    checker.end(history);
    checker.wrong
}

struct Checker<'a> {
    plan: &'a Plan,
    wrong: Vec<String>,
    messages: BTreeMap<u32, Known>,
    /// In the order of the queue.
    sent: Vec<u32>,
}

impl Checker<'_> {
    fn known(&mut self, number: u32) -> &mut Known {
        self.messages.entry(number).or_default()
    }

    fn expect(&mut self, holds: bool, at: Duration, text: impl FnOnce() -> String) {
        if !holds {
            self.wrong
                .push(format!("{:.3}s: {}", at.as_secs_f64(), text()));
        }
    }

    fn see(&mut self, at: Duration, event: &Event) {
        match event {
            Event::Sent { number } => {
                self.sent.push(*number);
                self.known(*number);
            }
            Event::Started { .. } | Event::Ended { .. } => {}
            // What a host had in hand comes again when its visibility timeout ends, or at once.
            Event::Killed { host } | Event::Stopping { host } => self.excuse(*host),
            Event::Woken | Event::Frozen { .. } | Event::Thawed { .. } => {
                for known in self.messages.values_mut() {
                    known.excused = true;
                }
            }
            Event::Received {
                host,
                number,
                count,
            } => {
                let visibility = Duration::from_secs(self.plan.visibility.into());
                let known = self.known(*number);
                let is_held = !known.under_way.is_empty();
                let may = known.excused || known.duplicated || at < known.doubt;
                known.receives += 1;
                known.holder = *host;
                known.count = *count;
                known.visible = at + visibility;
                // Two have it from now on.
                known.duplicated |= is_held;
                self.expect(!is_held || may, at, || {
                    format!("message {number} can be received while it is attempted")
                });
            }
            // Also a heartbeat that comes between a decision and its outcome.
            Event::Hidden {
                number, seconds, ..
            } => self.known(*number).visible = at + Duration::from_secs((*seconds).into()),
            Event::Duplicated { number, .. } => {
                let known = self.known(*number);
                known.receives += 1;
                known.duplicated = true;
            }
            Event::Faulty {
                number, operation, ..
            } => self.faulty(at, *number, operation),
            Event::Deleted { number, .. } => {
                let known = self.known(*number);
                let may = known.succeeded || known.letters > 0 || known.copies > 0;
                known.gone = true;
                known.is_both = false;
                self.expect(may, at, || {
                    format!("message {number} is deleted, and neither done nor dead")
                });
            }
            Event::Copied { number, .. } => {
                let resend = self.plan.resend;
                self.known(*number).copies += 1;
                self.known(*number).is_both = true;
                self.expect(resend, at, || format!("message {number} is sent again"));
            }
            Event::Letter { number, reason, .. } => self.letter(at, *number, reason.as_deref()),
            Event::AttemptBegan {
                host,
                number,
                count,
            } => {
                // By an old receipt handle, nothing that is decided can be applied.
                let known = self.known(*number);
                known.duplicated |= *count < known.count;
                self.began(at, *host, *number);
            }
            Event::AttemptEnded {
                host,
                number,
                fails,
            } => {
                let known = self.known(*number);
                known.succeeded |= fails.is_none();
                known.code = *fails;
                known.under_way.retain(|it| it != host);
            }
            Event::Unavailable { number, .. } => self.known(*number).excused = true,
            Event::Decided {
                host,
                number,
                attempt,
                action,
                by,
            } => self.decided(at, (*host, *number), *attempt, action, by),
        }
    }

    fn excuse(&mut self, host: u64) {
        for known in self.messages.values_mut() {
            known.excused |= known.due.is_some_and(|(by, _)| by == host);
            known.excused |= known.under_way.contains(&host);
            known.duplicated |= known.is_both;
            known.under_way.retain(|it| *it != host);
        }
    }

    /// A request that failed may have concerned each message.
    fn faulty(&mut self, at: Duration, number: Option<u32>, operation: &str) {
        let all = self.messages.iter_mut();
        for (_, known) in all.filter(|(of, _)| number.is_none_or(|it| it == **of)) {
            known.excused = true;
            known.doubt = at + DOUBT;
            known.letter_unsure |= operation == "SendMessageBatch" || number.is_none();
        }
    }

    fn letter(&mut self, at: Duration, number: u32, reason: Option<&str>) {
        let known = self.known(number);
        known.letters += 1;
        let letters = known.letters;
        let unsure = known.letter_unsure || known.excused || known.duplicated || at < known.doubt;
        let is_decided = reason.is_some_and(|it| known.reasons.contains(it));
        self.expect(is_decided, at, || {
            format!("message {number} is dead for {reason:?}, and nobody has decided so")
        });
        self.expect(letters == 1 || unsure, at, || {
            format!("message {number} has {letters} letters, and no request was in doubt")
        });
    }

    fn began(&mut self, at: Duration, host: u64, number: u32) {
        let group = |of: u32| {
            let planned = self.plan.messages.iter().find(|it| it.number == of);
            planned.map(|it| it.group)
        };
        let earlier = self.sent.iter().take_while(|it| **it != number);
        let blocking: Vec<_> = earlier
            .filter(|it| group(**it) == group(number) && !self.messages[it].gone)
            .copied()
            .collect();
        let fifo = self.plan.fifo;
        let known = self.known(number);
        let excused = known.excused || known.duplicated || at < known.doubt;
        let due = known.due;
        let twice = !known.under_way.is_empty();
        known.attempts += 1;
        known.under_way.push(host);
        known.due = None;
        self.expect(!twice || excused, at, || {
            format!("message {number} is attempted twice at once")
        });
        self.expect(!fifo || blocking.is_empty(), at, || {
            format!("message {number} is attempted before {blocking:?} of its group have ended")
        });
        let is_early = due.is_some_and(|(_, due)| at + SLACK < due);
        self.expect(!is_early || excused, at, || {
            format!("message {number} is attempted before it is due")
        });
    }

    fn decided(
        &mut self,
        at: Duration,
        (host, number): (u64, u32),
        attempt: u32,
        action: &Action,
        by: &str,
    ) {
        let strict = self.is_quiet();
        let most = self.plan.max_attempts;
        let known = self.known(number);
        let (receives, attempts) = (known.receives, known.attempts);
        // Somebody else may have it by now.
        let code = known.code;
        let is_visible = at + SLACK >= known.visible;
        let may_be = known.excused || known.duplicated || at < known.doubt;
        known.duplicated |= is_visible;
        self.expect(!is_visible || may_be, at, || {
            format!("message {number} was not kept invisible while it was attempted")
        });
        let known = self.known(number);
        match action {
            Action::Retry { delay } => {
                let delay = Duration::from_millis(delay.0.into());
                let may = attempt < most && (code != Some(PERMANENT) || known.duplicated);
                known.excused &= !known.under_way.is_empty();
                if known.holder == host {
                    known.due = Some((host, at + delay));
                } else {
                    known.excused = true;
                }
                self.expect(may, at, || {
                    format!("message {number} is retried after attempt {attempt} of {most}, with {code:?}")
                });
            }
            Action::DeadLetter { reason } => {
                known.reasons.insert(reason.clone());
                let is_permanent = code == Some(PERMANENT) || known.duplicated;
                self.expect(is_permanent || attempt >= most, at, || {
                    format!("message {number} is given up at attempt {attempt} of {most}: {reason}")
                });
            }
            Action::Discard { .. } => self.expect(false, at, || {
                format!("message {number} is discarded, which no policy asked for")
            }),
        }
        self.expect(attempt <= receives, at, || {
            format!("message {number} is at attempt {attempt}, and was received {receives} times")
        });
        self.expect(!strict || attempt == attempts, at, || {
            format!("message {number} is at attempt {attempt}, and the worker has seen {attempts}")
        });
        self.expect(by != "fallback", at, || {
            format!("the fallback decided about message {number}")
        });
    }

    /// Whether nothing happens that makes a receive without an attempt that a host does not know of. Hosts know nothing of each other's, and count for themselves on a FIFO queue.
    fn is_quiet(&self) -> bool {
        let has = |kind| self.plan.has(|it| it == kind);
        let are_two = has(Kind::Second);
        let is_known = !are_two || !(self.plan.fifo || has(Kind::WorkerDown));
        is_known
            && !self.plan.has(|kind| {
                !matches!(
                    kind,
                    Kind::Wake
                        | Kind::Second
                        | Kind::EmptyReceives
                        | Kind::WorkerDown
                        | Kind::ClockForward
                        | Kind::ClockBack
                )
            })
    }

    fn end(&mut self, history: &History) {
        let end = history.events.last().map(|(at, _)| *at).unwrap_or_default();
        let left: Vec<_> = self
            .messages
            .iter()
            .map(|(number, known)| (*number, known.succeeded || known.letters > 0))
            .collect();
        for (number, has_ended) in left {
            self.expect(has_ended, end, || {
                format!("message {number} is lost: it is neither done nor dead")
            });
        }
        // A poll each second or two by each host, and some requests for each receive.
        let polls = end.as_secs() * 12;
        let receives: u64 = self
            .messages
            .values()
            .map(|it| u64::from(it.receives))
            .sum();
        let most = 1_000 + polls + receives * 40;
        self.expect(history.requests <= most, end, || {
            format!("{} requests, and {most} are plenty", history.requests)
        });
    }
}
