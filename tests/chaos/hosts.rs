//! The rules about hosts, and about what operators were told.

use std::collections::HashSet;

use crate::checker::Checker;
use crate::operators::number;
use crate::plan::{HOSTS, Kind, QUEUES};
use crate::rules::Rule;

/// In mebibytes.
const MOST_MEMORY: f64 = 400.0;

/// How long a poll under way may bring messages after a pause, and their attempts take to begin, in milliseconds.
const STILL: u64 = 3_500;

impl Checker<'_> {
    pub(crate) fn hosts(&mut self) {
        let evidence = self.evidence;
        self.expect(
            Rule::Host,
            None,
            evidence.panics.is_empty(),
            || false,
            || format!("a host panics: {:?}", evidence.panics),
        );
        for (host, memory) in &evidence.memory {
            self.expect(
                Rule::Memory,
                None,
                *memory <= MOST_MEMORY,
                || false,
                || format!("{host} has taken {memory:.0} MiB"),
            );
        }
        for (host, unreadable) in &evidence.unreadable {
            // A process that is killed may leave half a line.
            let kills = evidence.windows.iter().filter(|it| it.hosts.contains(host));
            let may = kills.filter(|it| {
                matches!(
                    it.kind,
                    Kind::Kill { .. } | Kind::DamagedState { .. } | Kind::LittleMemory { .. }
                )
            });
            let may = may.count();
            self.expect(Rule::Records, None, *unreadable <= may, || false, || {
                format!("{unreadable} lines of the records of {host} can't be read, and it was killed {may} times")
            });
        }
    }

    /// Between a pause that was reported and the resume, the hosts that reported it attempt nothing.
    pub(crate) fn pauses(&mut self) {
        let evidence = self.evidence;
        for claim in evidence
            .claims
            .iter()
            .filter(|it| it.what == "pause" && it.exit == 0)
        {
            let same =
                |it: &&crate::site::Claim| it.queue == claim.queue && it.cache == claim.cache;
            let after = evidence
                .claims
                .iter()
                .filter(same)
                .filter(|it| it.from > claim.to);
            let until = after
                .filter(|it| it.what == "resume")
                .map(|it| it.from)
                .min();
            let until = until.unwrap_or(evidence.ended);
            let from = claim.to + STILL;
            let processes: Vec<u64> = claim
                .answers
                .iter()
                .map(|it| number(it, "process"))
                .collect();
            for host in HOSTS
                .iter()
                .filter(|it| claim.cache.contains(&format!("cache-{}/", it.cache)))
            {
                // What was damaged may have been the pause.
                let damaged = evidence.windows.iter().any(|it| {
                    matches!(it.kind, Kind::DamagedState { .. })
                        && it.hosts.contains(&host.name)
                        && it.from <= until
                        && it.to.saturating_add(1_000) >= claim.from
                });
                let lives = &evidence.lives[host.name];
                let told = lives
                    .iter()
                    .any(|it| processes.contains(&it.process.into()));
                let later = lives
                    .iter()
                    .any(|it| it.ready > claim.from && it.ready < until);
                if !told && !later {
                    continue;
                }
                let queue = QUEUES.iter().position(|it| it.name == claim.queue);
                let of_queue = evidence
                    .attempts
                    .iter()
                    .filter(|(n, _)| evidence.planned.get(n).map(|it| it.queue) == queue);
                let begun: Vec<u32> = of_queue
                    .filter(|(_, attempts)| {
                        attempts
                            .iter()
                            .any(|it| it.host == host.name && it.began > from && it.began < until)
                    })
                    .map(|(n, _)| *n)
                    .collect();
                let frozen = || evidence.disturbed(&[host.name], claim.from, until);
                let is_stable = told && !later;
                self.expect(
                    Rule::Pause,
                    begun.first().copied(),
                    begun.is_empty(),
                    || damaged || (!is_stable && !told) || frozen_only(frozen(), is_stable, evidence, host.name, claim.from, until),
                    || {
                        format!(
                            "{} has reported the pause of {} until {:.1} s, and attempts {} messages in it (later start: {later})",
                            host.name,
                            claim.queue,
                            (until - evidence.began) as f64 / 1_000.0,
                            begun.len(),
                        )
                    },
                );
            }
        }
    }

    /// What a redrive says that it has moved is what its journal says.
    fn counted(&mut self) {
        let evidence = self.evidence;
        let redrives = evidence
            .claims
            .iter()
            .filter(|it| it.what.ends_with("redrive"));
        for answer in redrives
            .filter(|it| it.exit == 0)
            .flat_map(|it| &it.answers)
        {
            let run = answer["run"].as_str().unwrap_or_default();
            let mut journals = evidence.journals.iter();
            let Some(journal) = journals.find(|it| !run.is_empty() && it.run.ends_with(run)) else {
                continue;
            };
            let sent: HashSet<_> = journal.sent.iter().map(|(id, _)| id).collect();
            let holds = number(answer, "moved") == sent.len() as u64;
            self.expect(
                Rule::Redrive,
                None,
                holds,
                || journal.is_damaged,
                || {
                    format!(
                        "a redrive reports {answer}, and its journal has sent {}",
                        sent.len()
                    )
                },
            );
        }
    }

    /// Letters that were moved are gone, and their messages have come back.
    pub(crate) fn redrives(&mut self) {
        self.counted();
        let evidence = self.evidence;
        for journal in evidence.journals.iter().filter(|it| !it.is_damaged) {
            let of_queue = evidence.letters.values().flatten();
            let there: HashSet<&str> = of_queue.map(|it| it.id.as_str()).collect();
            for id in &journal.deleted {
                let (run, queue) = (&journal.run, journal.queue);
                self.expect(
                    Rule::Redrive,
                    evidence.ids.get(id).copied(),
                    !there.contains(id.as_str()),
                    || false,
                    || format!("letter {id} of {queue} was moved by {run}, and is still there"),
                );
            }
            for (id, new) in &journal.sent {
                let Some(n) = evidence.ids.get(id).copied() else {
                    continue;
                };
                let attempts = evidence.attempts.get(&n).map_or(&[][..], Vec::as_slice);
                let records = evidence.records.get(&n).map_or(&[][..], Vec::as_slice);
                let came = new.as_ref().is_none_or(|new| {
                    attempts.iter().any(|it| it.id == *new)
                        || evidence.left.get(&n).into_iter().flatten().any(|it| it.id == *new)
                        || records.iter().any(|it| it.text("received-as") == new)
                        // One that is known by its first id.
                        || attempts.iter().any(|it| it.began + 1_000 > journal.sent_until)
                });
                self.expect(
                    Rule::Redrive,
                    Some(n),
                    came,
                    || false,
                    || {
                        format!(
                            "letter {id} was sent as {new:?} by {}, and has not come",
                            journal.run
                        )
                    },
                );
            }
        }
    }
}

/// A host that was told and then killed may be one that had not written its pause: only what survives says more.
fn frozen_only(
    disturbed: bool,
    is_stable: bool,
    evidence: &crate::evidence::Evidence,
    host: &'static str,
    from: u64,
    until: u64,
) -> bool {
    // A frozen host attempts what it had in hand when it goes on.
    let frozen = evidence.windows.iter().any(|it| {
        matches!(
            it.kind,
            Kind::Freeze { .. } | Kind::Stall { .. } | Kind::Slow { .. } | Kind::Cut { .. }
        ) && it.hosts.contains(&host)
            && it.from <= until
            && it.to.saturating_add(4_000) >= from
    });
    disturbed && is_stable && frozen
}
