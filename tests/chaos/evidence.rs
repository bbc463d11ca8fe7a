//! What is known from outside when everything is over: what was sent, what workers saw, what hosts recorded, what is in the queues, and what operators were told.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use backstop_core::clock;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::campaign::keep;
use crate::emulators::InQueue;
use crate::files::{each_line, lines};
use crate::host::Life;
use crate::messages::{Body, Planned};
use crate::operators::folders;
use crate::plan::QUEUES;
use crate::producers::Sent;
use crate::site::{Claim, Window, World};
use crate::worker::Line;

/// An attempt, as its worker saw it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Attempt {
    pub(crate) began: u64,
    pub(crate) id: String,
    pub(crate) host: String,
    pub(crate) count: u32,
    /// When it was about to be answered, and with which status.
    pub(crate) answered: Option<(u64, u16)>,
}

/// A decision record, or an event.
#[derive(Debug, Clone)]
pub(crate) struct Recorded {
    pub(crate) host: &'static str,
    pub(crate) record: Value,
}

/// What the journal of a redrive says.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) run: String,
    pub(crate) queue: &'static str,
    pub(crate) is_damaged: bool,
    /// The ids of the letters that were sent, with their new ones.
    pub(crate) sent: Vec<(String, Option<String>)>,
    /// When the last of them was.
    pub(crate) sent_until: u64,
    pub(crate) deleted: BTreeSet<String>,
    pub(crate) sending: BTreeSet<String>,
}

#[derive(Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) planned: BTreeMap<u32, Planned>,
    pub(crate) sent: BTreeMap<u32, Sent>,
    /// By message, in the order of their begins.
    pub(crate) attempts: BTreeMap<u32, Vec<Attempt>>,
    /// By message, in the order of their times.
    pub(crate) records: BTreeMap<u32, Vec<Recorded>>,
    /// Records about ids that belong to no message that is known.
    pub(crate) strange: usize,
    /// The letters in the dead-letter queues, by message, with their queue.
    pub(crate) letters: BTreeMap<u32, Vec<InQueue>>,
    pub(crate) left: BTreeMap<u32, Vec<InQueue>>,
    pub(crate) journals: Vec<Journal>,
    pub(crate) windows: Vec<Window>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) lives: BTreeMap<&'static str, Vec<Life>>,
    pub(crate) memory: BTreeMap<&'static str, f64>,
    /// What was seen to be wrong meanwhile.
    pub(crate) wrong: Vec<String>,
    /// Lines that can't be read, by host.
    pub(crate) unreadable: BTreeMap<&'static str, usize>,
    pub(crate) panics: Vec<String>,
    pub(crate) ids: HashMap<String, u32>,
}

/// Collects it, and keeps it in files.
pub(crate) async fn collect(
    world: &World,
    planned: Vec<Planned>,
    sent: Vec<Sent>,
    began: u64,
) -> Evidence {
    let mut evidence = Evidence {
        began,
        ended: clock::now().0,
        ..Evidence::default()
    };
    keep(world, "sent.jsonl", &sent);
    for sent in sent {
        evidence.ids.insert(sent.id.clone(), sent.n);
        evidence.sent.insert(sent.n, sent);
    }
    evidence.planned = planned.into_iter().map(|it| (it.body.n, it)).collect();
    for (planned, sent) in &world.log.lock().unwrap().delivered {
        // What was given up is nobody's promise.
        if let Some(sent) = sent {
            evidence.planned.insert(sent.n, planned.clone());
            evidence.sent.insert(sent.n, sent.clone());
        }
    }
    for worker in &world.workers {
        evidence.see_attempts(lines(&worker.lines).0);
    }
    for queue in &QUEUES {
        let suffix = if queue.fifo { ".fifo" } else { "" };
        for (name, are_letters) in [
            (queue.name.to_owned(), false),
            (format!("{}-dead", queue.name), true),
        ] {
            let messages = world.emulators[queue.site].messages(&(name + suffix)).await;
            for message in messages {
                let Ok(body) = serde_json::from_str::<Body>(&message.body) else {
                    evidence
                        .wrong
                        .push(format!("a message that nobody sent: {message:?}"));
                    continue;
                };
                let list = if are_letters {
                    &mut evidence.letters
                } else {
                    &mut evidence.left
                };
                evidence.ids.insert(message.id.clone(), body.n);
                list.entry(body.n).or_default().push(message);
            }
        }
    }
    evidence.see_journals(world);
    for host in &world.hosts {
        for queue in host.queues() {
            evidence.see_attempts(lines(&host.lines(queue)).0);
        }
    }
    for host in &world.hosts {
        let mut records = Vec::new();
        let unreadable = each_line(&host.records(), |it| records.push(short(&it)));
        evidence.unreadable.insert(host.plan.name, unreadable);
        evidence.see_records(host.plan.name, records);
        let process = host.process.lock().await;
        evidence.lives.insert(host.plan.name, process.lives.clone());
        for entry in std::fs::read_dir(&host.folder).unwrap().flatten() {
            let log = std::fs::read(entry.path()).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let panics = log.lines().filter(|it| it.contains("panicked at"));
            let name = entry.file_name();
            evidence
                .panics
                .extend(panics.map(|it| format!("{}/{}: {it}", host.plan.name, name.display())));
        }
    }
    let log = world.log.lock().unwrap();
    evidence.windows = log.windows.clone();
    evidence.claims = log.claims.clone();
    evidence.memory = log.memory.clone();
    evidence.wrong.extend(log.wrong.clone());
    keep(world, "windows.jsonl", &evidence.windows);
    keep(world, "claims.jsonl", &evidence.claims);
    std::fs::write(world.folder.join("notes.txt"), log.notes.join("\n")).unwrap();
    evidence
}

/// What is looked at of a record: there are hundreds of thousands.
fn short(record: &Value) -> Value {
    let of = |value: &Value, names: &[&str]| -> Map<String, Value> {
        let there = names.iter().filter(|name| !value[**name].is_null());
        there
            .map(|name| ((*name).to_owned(), value[*name].clone()))
            .collect()
    };
    let own = [
        "time",
        "queue",
        "event",
        "message-id",
        "received-as",
        "original-id",
        "verdict",
        "delay",
        "reason",
        "by",
        "cause",
        "letter-id",
        "sent-as",
    ];
    let mut short = of(record, &own);
    if let Some(failure) = record.get("failure") {
        let mut failed = of(failure, &["message-id", "attempt", "failed-at"]);
        failed.insert("error".to_owned(), of(&failure["error"], &["code"]).into());
        short.insert("failure".to_owned(), failed.into());
    }
    short.into()
}

impl Evidence {
    fn see_attempts(&mut self, lines: Vec<Line>) {
        let mut of_attempt = HashMap::new();
        for line in lines {
            let attempts = self.attempts.entry(line.n).or_default();
            match line.status {
                None => {
                    of_attempt.insert(line.attempt, attempts.len());
                    self.ids.insert(line.id.clone(), line.n);
                    attempts.push(Attempt {
                        began: line.at,
                        id: line.id,
                        host: line.host,
                        count: line.count,
                        answered: None,
                    });
                }
                Some(status) => {
                    if let Some(at) = of_attempt.get(&line.attempt) {
                        attempts[*at].answered = Some((line.at, status));
                    }
                }
            }
        }
        for attempts in self.attempts.values_mut() {
            attempts.sort_by_key(|it| it.began);
        }
    }

    fn see_records(&mut self, host: &'static str, records: Vec<Value>) {
        for record in records {
            let of = if record["event"].is_null() {
                &record["failure"]
            } else {
                &record
            };
            let names = ["message-id", "received-as", "original-id"];
            let ids = names
                .iter()
                .flat_map(|name| [of[*name].as_str(), record[*name].as_str()]);
            let n = ids.flatten().find_map(|id| self.ids.get(id)).copied();
            match n {
                Some(n) => {
                    if let Some(id) = of["message-id"].as_str() {
                        self.ids.insert(id.to_owned(), n);
                    }
                    self.records
                        .entry(n)
                        .or_default()
                        .push(Recorded { host, record });
                }
                None if of["message-id"].is_string() => self.strange += 1,
                None => {}
            }
        }
        for records in self.records.values_mut() {
            records.sort_by_key(Recorded::at);
        }
    }

    fn see_journals(&mut self, world: &World) {
        for queue in &QUEUES {
            for run in folders(&world.folder.join(format!("runs-{}", queue.name))) {
                let (entries, unreadable) = lines::<Value>(&run.join("journal.jsonl"));
                let mut journal = Journal {
                    run: run.display().to_string(),
                    queue: queue.name,
                    is_damaged: unreadable > 0 || run.join("damaged").exists(),
                    ..Journal::default()
                };
                let strings = |value: &Value| -> Vec<String> {
                    let list = value.as_array().cloned().unwrap_or_default();
                    list.iter()
                        .filter_map(|it| Some(it.as_str()?.to_owned()))
                        .collect()
                };
                for entry in entries {
                    match entry["event"].as_str() {
                        Some("sending") => journal.sending.extend(strings(&entry["ids"])),
                        Some("deleted") => journal.deleted.extend(strings(&entry["ids"])),
                        Some("sent") => {
                            journal.sent_until = entry["at"].as_u64().unwrap_or(0);
                            for letter in entry["letters"].as_array().into_iter().flatten() {
                                let text = |name: &str| letter[name].as_str().map(str::to_owned);
                                let id = text("id").unwrap_or_default();
                                // A host that was killed may have written nothing of its letter.
                                let known = [Some(id.clone()), text("original")];
                                let n = known.iter().flatten().find_map(|it| self.ids.get(it));
                                if let Some(n) = n.copied() {
                                    self.ids.insert(id.clone(), n);
                                    text("new").map(|new| self.ids.insert(new, n));
                                }
                                journal.sent.push((id, text("new")));
                            }
                        }
                        _ => {}
                    }
                }
                self.journals.push(journal);
            }
        }
    }

    /// Whether something disturbed one of these hosts in this time, or shortly before.
    pub(crate) fn disturbed(&self, hosts: &[&str], from: u64, to: u64) -> bool {
        /// A visibility timeout, and what a busy machine adds.
        const TAIL: u64 = 12_000;
        self.windows.iter().any(|window| {
            let concerns = window.hosts.iter().any(|it| hosts.contains(it));
            concerns && window.from <= to && from <= window.to.saturating_add(TAIL)
        })
    }
}

impl Recorded {
    pub(crate) fn at(&self) -> u64 {
        // The time of a decision is the machine's, which may be set; that of its failure is the queue's.
        let failed = self.record["failure"]["failed-at"].as_u64();
        failed.or_else(|| self.record["time"].as_u64()).unwrap_or(0)
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.record[name].as_str().unwrap_or_default()
    }

    pub(crate) fn is_event(&self, name: &str) -> bool {
        self.record["event"] == name
    }
}
