//! The rules about messages.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checker::Checker;
use crate::emulators::InQueue;
use crate::evidence::{Attempt, Evidence, Recorded};
use crate::plan::{HOSTS, Kind, MAX_ATTEMPTS, QUEUES};
use crate::rules::Rule;

/// More than what clocks and requests differ by, in milliseconds.
const SLACK: u64 = 300;

/// Excuses that the whole life of a message has.
struct Excuses {
    /// There may be several of it: a send without an answer, or letters that were moved.
    copies: u32,
    /// How many processes count the attempts of a message: on a FIFO queue, each of them by itself.
    counting: u32,
}

impl Checker<'_> {
    pub(crate) fn message(&mut self, n: u32) {
        let evidence = self.evidence;
        let planned = &evidence.planned[&n];
        let attempts = evidence.attempts.get(&n).map_or(&[][..], Vec::as_slice);
        let records = evidence.records.get(&n).map_or(&[][..], Vec::as_slice);
        let letters = evidence.letters.get(&n).map_or(&[][..], Vec::as_slice);
        let left = evidence.left.get(&n).map_or(&[][..], Vec::as_slice);
        let moved = self.moved(n);
        let doubtful = evidence.sent.get(&n).is_some_and(|it| it.doubtful);
        let excuses = Excuses {
            copies: 1 + u32::from(doubtful) + moved + self.torn(n),
            counting: self.counting(planned.queue),
        };
        let first_success = success(attempts);
        let queue = QUEUES[planned.queue].name;

        // It has ended.
        let waits = left.iter().any(|it| {
            let due = records
                .iter()
                .rev()
                .find(|it| it.text("verdict") == "retry");
            due.is_some_and(|it| {
                it.at() + it.record["delay"].as_u64().unwrap_or(0) > evidence.ended
            }) && it.visible_at > evidence.ended
        });
        let is_over = first_success.is_some() || !letters.is_empty();
        let has_ended = (is_over && left.is_empty()) || waits;
        self.expect(
            Rule::Ended,
            Some(n),
            has_ended,
            || false,
            || {
                let seen = (attempts.len(), letters.len(), left.len());
                format!("message {n} of {queue}: (attempts, letters, left) are {seen:?}")
            },
        );

        self.letters(n, letters, records, attempts);
        self.letters_kept(n, records, letters);
        self.once(n, attempts, records, &excuses);
        self.not_early(n, attempts, records, &excuses);
        self.bounded(n, attempts, records, &excuses);
        self.fallback(n, planned.queue, records);
    }

    /// How often a copy was perhaps sent and the old one not deleted: a host was disturbed between an attempt and what follows it, where messages wait by being sent again.
    fn torn(&self, n: u32) -> u32 {
        let evidence = self.evidence;
        let attempts = evidence.attempts.get(&n).map_or(&[][..], Vec::as_slice);
        if QUEUES[evidence.planned[&n].queue].hold != "resend" {
            return 0;
        }
        let torn = attempts.iter().filter(|it| {
            let (end, status) = it.answered.unwrap_or((it.began, 0));
            status != 200 && evidence.disturbed(&[&it.host], it.began, end + 3_000)
        });
        u32::try_from(torn.count()).unwrap()
    }

    /// How many processes count the attempts of a message of this queue.
    fn counting(&self, queue: usize) -> u32 {
        if !QUEUES[queue].fifo {
            return 1;
        }
        let of_site = HOSTS.iter().filter(|it| it.site == QUEUES[queue].site);
        let lives = of_site.map(|it| self.evidence.lives.get(it.name).map_or(0, Vec::len));
        u32::try_from(lives.sum::<usize>()).unwrap()
    }

    /// How often redrives have moved a letter of this message.
    fn moved(&self, n: u32) -> u32 {
        let sending = self.evidence.journals.iter().flat_map(|it| &it.sending);
        let of_it = sending.filter(|id| self.evidence.ids.get(*id) == Some(&n));
        u32::try_from(of_it.count()).unwrap()
    }

    fn letters(&mut self, n: u32, letters: &[InQueue], records: &[Recorded], attempts: &[Attempt]) {
        for letter in letters {
            let attribute = |name: &str| {
                let value: &Value = &letter.attributes[name]["StringValue"];
                value.as_str().unwrap_or_default().to_owned()
            };
            let (reason, counted) = (attribute("BackstopReason"), attribute("BackstopAttempt"));
            let decided = records
                .iter()
                .any(|it| it.text("verdict") == "dead-letter" && it.text("reason") == reason);
            self.expect(
                Rule::Letter,
                Some(n),
                decided,
                || false,
                || format!("message {n} is dead for `{reason}`, and nobody has decided so"),
            );
            let refused = attempts
                .iter()
                .any(|it| it.answered.is_some_and(|it| it.1 == 422));
            let is_permanent = attribute("BackstopClass") == "permanent";
            let counted: u32 = counted.parse().unwrap_or(0);
            let explained = if is_permanent {
                refused
            } else {
                counted >= MAX_ATTEMPTS
            };
            self.expect(Rule::Letter, Some(n), explained, || false, || {
                format!("message {n} is dead for `{reason}` at attempt {counted}, and its attempts were not so")
            });
            // Receives that no worker saw count at another host; without a disturbance there are none.
            let seen = u32::try_from(attempts.len()).unwrap();
            let seen_from = attempts.iter().map(|it| it.host.as_str());
            let hosts: Vec<&str> = seen_from.chain(records.iter().map(|it| it.host)).collect();
            let evidence = self.evidence;
            let from = evidence.sent.get(&n).map_or(0, |it| it.at);
            self.expect(
                Rule::Letter,
                Some(n),
                seen >= counted,
                || evidence.disturbed(&hosts, from, evidence.ended),
                || {
                    format!(
                        "message {n} is dead at attempt {counted}, and its worker has seen {seen}"
                    )
                },
            );
        }
    }

    fn letters_kept(&mut self, n: u32, records: &[Recorded], letters: &[InQueue]) {
        let evidence = self.evidence;
        let queue = QUEUES[evidence.planned[&n].queue].name;
        let journals_of = || evidence.journals.iter().filter(|it| it.queue == queue);
        for recorded in records.iter().filter(|it| it.is_event("dead-lettered")) {
            let id = recorded.text("letter-id");
            if id.is_empty() {
                continue;
            }
            let is_there = letters.iter().any(|it| it.id == id);
            let mut journals = journals_of();
            let was_moved = journals.any(|it| it.sending.contains(id));
            self.expect(
                Rule::LetterKept,
                Some(n),
                is_there || was_moved,
                || journals_of().any(|it| it.is_damaged),
                || format!("letter {id} of message {n} is not there, and nobody has moved it"),
            );
        }
    }

    fn once(&mut self, n: u32, attempts: &[Attempt], records: &[Recorded], excuses: &Excuses) {
        let evidence = self.evidence;
        let is_copied = excuses.copies > 1;
        for (at, attempt) in attempts.iter().enumerate() {
            let Some(before) = at.checked_sub(1).map(|at| &attempts[at]) else {
                continue;
            };
            let hosts = [before.host.as_str(), attempt.host.as_str()];
            let excused = || is_copied || evidence.disturbed(&hosts, before.began, attempt.began);
            let earlier = attempts[..at]
                .iter()
                .filter(|it| it.answered.is_some_and(|it| it.1 == 200));
            let succeeded = earlier.filter_map(|it| it.answered).map(|it| it.0).min();
            let again = succeeded.is_some_and(|success| success + SLACK < attempt.began);
            self.expect(
                Rule::Once,
                Some(n),
                !again,
                || is_copied || self_disturbed(evidence, attempts, at),
                || format!("message {n} has succeeded, and is attempted again"),
            );
            let Some((end, _)) = before.answered else {
                continue;
            };
            self.expect(
                Rule::NotTwiceAtOnce,
                Some(n),
                attempt.began + SLACK >= end,
                excused,
                || format!("message {n} is attempted by {hosts:?} at the same time"),
            );
        }
        let dead = records
            .iter()
            .filter(|it| it.is_event("dead-lettered"))
            .count();
        let ends = dead + usize::from(success(attempts).is_some());
        let hosts: Vec<&str> = records.iter().map(|it| it.host).collect();
        let from = attempts.first().map_or(0, |it| it.began);
        self.expect(
            Rule::OneLetter,
            Some(n),
            ends <= 1,
            || is_copied || evidence.disturbed(&hosts, from, evidence.ended),
            || format!("message {n} has {ends} ends: {dead} letters, and a success or none"),
        );
    }

    /// An attempt, its decision, and the next attempt.
    fn not_early(&mut self, n: u32, attempts: &[Attempt], records: &[Recorded], excuses: &Excuses) {
        let evidence = self.evidence;
        let queue = QUEUES[evidence.planned[&n].queue].name;
        for pair in attempts.windows(2) {
            let [attempt, next] = pair else { continue };
            let Some((end, _)) = attempt.answered else {
                continue;
            };
            // The decision that belongs to it is the nearest, by a clock that differs by a second.
            let of_host = records.iter().filter(|it| {
                it.host == attempt.host
                    && it.text("verdict") == "retry"
                    && it.at().abs_diff(end) < 1_500
            });
            let decided = of_host.min_by_key(|it| it.at().abs_diff(end));
            let Some(delay) = decided.and_then(|it| it.record["delay"].as_u64()) else {
                continue;
            };
            let is_early = next.began + SLACK < end + delay;
            let woken = || {
                let of_queue = evidence.claims.iter().filter(|it| it.queue == queue);
                let mut wakes = of_queue.filter(|it| ["wake", "reconsider"].contains(&it.what));
                wakes.any(|it| it.from <= next.began && end <= it.to + 60_000)
            };
            let hosts = [attempt.host.as_str(), next.host.as_str()];
            self.expect(
                Rule::NotEarly,
                Some(n),
                !is_early,
                || {
                    excuses.copies > 1
                        || woken()
                        || evidence.disturbed(&hosts, attempt.began, next.began)
                },
                || {
                    format!(
                        "message {n} is attempted {} ms after a failure that waits {delay} ms",
                        next.began.saturating_sub(end)
                    )
                },
            );
        }
    }

    fn bounded(&mut self, n: u32, attempts: &[Attempt], records: &[Recorded], excuses: &Excuses) {
        let evidence = self.evidence;
        let seen = u32::try_from(attempts.len()).unwrap();
        let most = MAX_ATTEMPTS * excuses.copies * excuses.counting;
        let hosts: Vec<&str> = attempts.iter().map(|it| it.host.as_str()).collect();
        let (from, to) = match attempts {
            [first, .., last] => (first.began, last.began),
            [only] => (only.began, only.began),
            [] => (evidence.began, evidence.began),
        };
        // What was handed back at a stop was seen and not counted.
        let excused = || evidence.disturbed(&hosts, from, to) && seen <= most * 2;
        self.expect(Rule::Bounded, Some(n), seen <= most, excused, || {
            format!("message {n} is attempted {seen} times, and {most} are allowed")
        });
        for recorded in records {
            let attempt = recorded.record["failure"]["attempt"].as_u64().unwrap_or(0);
            let retried = recorded.text("verdict") == "retry";
            let may = !retried || attempt < u64::from(MAX_ATTEMPTS);
            self.expect(
                Rule::Bounded,
                Some(n),
                may,
                || false,
                || format!("message {n} is retried after attempt {attempt}"),
            );
        }
    }

    fn fallback(&mut self, n: u32, queue: usize, records: &[Recorded]) {
        let evidence = self.evidence;
        for recorded in records.iter().filter(|it| it.text("by") == "fallback") {
            let hostile = evidence.windows.iter().any(|it| {
                matches!(it.kind, Kind::HostilePolicy { queue: of, .. } if of == queue)
                    && it.from <= recorded.at() + 2_000
                    && recorded.at() <= it.to.saturating_add(90_000)
            });
            let starved = || evidence.disturbed(&[recorded.host], recorded.at(), recorded.at());
            self.expect(Rule::Fallback, Some(n), hostile, starved, || {
                format!("the fallback decides about message {n}, and its policy is good")
            });
            let retries = recorded.text("verdict") == "retry";
            self.expect(
                Rule::Fallback,
                Some(n),
                retries,
                || false,
                || format!("the fallback gives up message {n}"),
            );
        }
    }

    /// The order of the groups of FIFO queues.
    pub(crate) fn groups(&mut self) {
        let evidence = self.evidence;
        for (queue, _) in QUEUES.iter().enumerate().filter(|(_, it)| it.fifo) {
            let mut groups: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
            for planned in evidence.planned.values().filter(|it| it.queue == queue) {
                let n = planned.body.n;
                if let Some(sent) = evidence.sent.get(&n) {
                    groups.entry(planned.group).or_default().push((sent.at, n));
                }
            }
            for sent in groups.values_mut() {
                sent.sort_unstable();
                for pair in sent.windows(2) {
                    let [(_, before), (_, n)] = pair else {
                        continue;
                    };
                    let Some(first) = evidence.attempts.get(n).and_then(|it| it.first()) else {
                        continue;
                    };
                    let ended = self.ended_at(*before);
                    let holds = ended.is_some_and(|ended| ended <= first.began + SLACK);
                    self.expect(
                        Rule::Order,
                        Some(*n),
                        holds,
                        || false,
                        || {
                            format!(
                                "message {n} is attempted before {before} of its group has ended"
                            )
                        },
                    );
                }
            }
        }
    }

    /// When a message had its first end.
    fn ended_at(&self, n: u32) -> Option<u64> {
        let attempts = self
            .evidence
            .attempts
            .get(&n)
            .map_or(&[][..], Vec::as_slice);
        let records = self.evidence.records.get(&n).map_or(&[][..], Vec::as_slice);
        let success = success(attempts);
        // The time of the decision comes before that of the letter, and is the queue's.
        let dead = records
            .iter()
            .find(|it| it.text("verdict") == "dead-letter")
            .map(Recorded::at);
        success
            .into_iter()
            .chain(dead.map(|it| it.saturating_sub(1_500)))
            .min()
    }
}

/// When it first succeeded.
fn success(attempts: &[Attempt]) -> Option<u64> {
    let answers = attempts.iter().filter_map(|it| it.answered);
    answers.filter(|it| it.1 == 200).map(|it| it.0).min()
}

/// Whether something disturbed the hosts of these attempts, up to one of them.
fn self_disturbed(evidence: &Evidence, attempts: &[Attempt], at: usize) -> bool {
    let successes = attempts[..at]
        .iter()
        .filter(|it| it.answered.is_some_and(|it| it.1 == 200));
    let mut successes = successes;
    successes.any(|success| {
        let until = success.answered.map_or(success.began, |it| it.0) + 10_000;
        let until = until.min(attempts[at].began);
        evidence.disturbed(&[&success.host, &attempts[at].host], success.began, until)
    })
}
