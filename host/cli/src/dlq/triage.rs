//! `backstop dlq triage`: which dead letters another policy would retry.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use backstop_core::decision::Bounds;
use backstop_core::failure::{Error, Milliseconds};
use backstop_core::settings::parse_pair;
use backstop_core::text::one_line;
use backstop_dead_letters::{Attempts, Filters, Reader, Seen};
use backstop_host::config::Config;
use backstop_host::letters::{Classified, Classifier, Verdict, Would};
use backstop_queue::Queue;
use clap::Parser;
use serde_json::{Value, json};

use super::active::Active;
use super::filters::FilterArgs;
use super::list::Saved;
use super::queue::QueueArgs;
use super::reading::{self, ReadingArgs, STOPPING};
use crate::error::{Exit, Result};
use crate::hosts::HostPlace;
use crate::policy::policy_help;
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, println};

/// The most groups of answers. Further ones are counted without a group.
const MOST_GROUPS: usize = 1_000;

/// How many ids of a group are shown.
const SAMPLES: usize = 3;

const EXAMPLES: &str = "\
Examples:
  What a new version of the policy would do with what died:
    backstop dlq triage orders --policy ./new.wasm

  The same with the ids of what it would retry, to redrive these alone:
    backstop dlq triage orders --policy ./new.wasm --save ids.jsonl
    backstop dlq redrive orders --ids ids.jsonl

  With the policy that backstop.toml has for the queue, and its limits on attempts and age:
    backstop dlq triage orders --reset-attempts

  What SQS's own redrive policy has moved has no error: say which to assume
    backstop dlq triage orders --policy full-jitter --origin sqs --assume-code 'HTTP 503'

A letter whose class is another than the one that it died of is shown with both: the policy, or what the letter says, is another one. A letter does not say everything that the policy was told when the message failed: what is assumed instead is part of the output. Nothing is moved.";

/// Pass dead letters to a policy: how many it would retry, and why
///
/// The failure of each letter is rebuilt from its attributes, or from the record of a Lambda destination, and passed to the policy with the letter's body. Without --policy, it is the version that is active on the running hosts of the queue, or what its source has now if none runs. By default the policy is evaluated for the attempt that failed last; one that gives up after a number of attempts then gives up again. --reset-attempts evaluates it for a first attempt.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,

    #[arg(long, value_name = "NAME|PATH|URL", help = policy_help("The policy", " (built first if it changed)", " [default: the version that the queue's running hosts have active, or what its source in the configuration has]"))]
    policy: Option<String>,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "policy")]
    settings: Vec<(String, String)>,

    /// Evaluate the policy as for a first attempt, instead of the last one
    #[arg(long)]
    reset_attempts: bool,

    /// The code of the error to assume where nobody has recorded one
    #[arg(long, value_name = "CODE")]
    assume_code: Option<String>,

    /// Write the ids of the letters that the policy would retry to this file, for --ids of other commands; the file is replaced
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    filters: FilterArgs,

    #[command(flatten)]
    reading: ReadingArgs,

    #[command(flatten)]
    place: HostPlace,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let filters = args.filters.filters()?;
    let opened = args.queue.open().await?;
    let (active, classifier) = load(&args, opened.config).await?;
    let classifier = Arc::new(classifier);
    let mut saved = args.save.as_deref().map(Saved::create).transpose()?;
    let stop = stop_on_signal(STOPPING)?;
    let (mut queues, mut all_seen) = (Vec::new(), Vec::new());
    for queue in &opened.queues {
        let mut reader = Reader::open(Arc::clone(queue), args.reading.options()).await?;
        let answers = classify_all(&mut reader, &classifier, &filters, &stop, saved.as_mut());
        let answers = answers.await;
        let seen = reader.release().await;
        let answers = answers?;
        if args.json {
            queues.push(answers.as_json(queue, &seen))
        } else {
            answers.print(queue, &active, &seen)
        }
        all_seen.push(seen);
    }
    if let Some(saved) = saved {
        saved.finish()?;
    }
    if args.json {
        let policy = active.policy.title();
        let result = json!({"version": 1, "policy": policy, "hosts": active.hosts, "hosts-missed": active.missed, "queues": queues});
        println!("{result}");
    }
    reading::whole(&all_seen, "there may be more letters than those evaluated")
}

async fn load(args: &Args, config: Option<Config>) -> Result<(Active, Classifier)> {
    let (named, settings) = (args.policy.clone(), args.settings.clone());
    let (queue, place) = (args.queue.queue.clone(), args.place.clone());
    let path = args.queue.access.config.clone();
    let (active, bounds) = tokio::task::spawn_blocking(move || {
        if let Some(name) = named {
            let policy = crate::policy::load(&name, &settings.into())?;
            return Ok((Active::named(policy), Bounds::default()));
        }
        let config = config.as_ref();
        let decider = config.and_then(|it| it.deciders().find(|(name, _)| *name == queue));
        let (Some(config), Some((_, decider))) = (config, decider) else {
            return Err(Exit::Usage.because(
                "which policy? Use --policy, or the name of a queue in the configuration",
            ));
        };
        let config = (path.as_deref(), config);
        let active = Active::of_queue(&place, config, &queue, &decider.policy)?;
        Ok((active, decider.bounds))
    })
    .await??;
    let classifier = Classifier {
        policy: active.policy.clone(),
        bounds,
        attempts: Attempts::keep_if(!args.reset_attempts),
        assumed: args.assume_code.as_ref().map(|code| Error::new(code, "")),
    };
    Ok((active, classifier))
}

async fn classify_all(
    reader: &mut Reader,
    classifier: &Arc<Classifier>,
    filters: &Filters,
    stop: &tokio_util::sync::CancellationToken,
    mut saved: Option<&mut Saved>,
) -> Result<Answers> {
    let progress = Progress::counting("letters classified");
    let mut answers = Answers::default();
    loop {
        let letters = reader.next(stop).await?;
        if letters.is_empty() {
            return Ok(answers);
        }
        let fit: Vec<_> = letters
            .into_iter()
            .filter(|it| filters.matches(it))
            .collect();
        let classifier = Arc::clone(classifier);
        // A policy may take long.
        let classified = tokio::task::spawn_blocking(move || -> Vec<_> {
            fit.into_iter()
                .map(|letter| classifier.classify(letter))
                .collect()
        });
        for answer in classified.await? {
            progress.add(1);
            if answers.add(&answer)
                && let Some(saved) = &mut saved
            {
                saved.add(&answer.letter, reader.queue().url())?;
            }
        }
    }
}

/// What the policy would do with a group of letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    verdict: Verdict,
    class: String,
    code: String,
    /// Why, if it is not retried.
    reason: String,
    /// The class that it died of, if that is another.
    died_of: Option<String>,
}

/// The letters of a group.
#[derive(Debug, Default)]
struct Group {
    count: usize,
    delays: Option<(Milliseconds, Milliseconds)>,
    samples: Vec<String>,
}

/// All answers.
#[derive(Debug, Default)]
struct Answers {
    verdicts: BTreeMap<Verdict, usize>,
    groups: BTreeMap<Key, Group>,
    unknown: BTreeMap<&'static str, usize>,
}

impl Answers {
    /// Counts an answer. Returns whether the policy itself would retry the letter.
    fn add(&mut self, answer: &Classified) -> bool {
        for what in &answer.unknown {
            *self.unknown.entry(what).or_default() += 1;
        }
        let code = answer.letter.code().unwrap_or_default().to_owned();
        let Would {
            verdict,
            class,
            reason,
            delay,
        } = answer.would();
        *self.verdicts.entry(verdict).or_default() += 1;
        let is_answered = matches!(
            verdict,
            Verdict::Retry | Verdict::DeadLetter | Verdict::Discard
        );
        let died_of = answer.letter.class.clone();
        let died_of = died_of.filter(|died_of| is_answered && *died_of != class);
        let key = Key {
            verdict,
            class,
            code,
            reason,
            died_of,
        };
        if self.groups.len() < MOST_GROUPS || self.groups.contains_key(&key) {
            let group = self.groups.entry(key).or_default();
            group.count += 1;
            if let Some(delay) = delay {
                let (least, most) = group.delays.unwrap_or((delay, delay));
                group.delays = Some((least.min(delay), most.max(delay)));
            }
            if group.samples.len() < SAMPLES {
                group.samples.push(answer.letter.original_id.clone());
            }
        }
        verdict == Verdict::Retry
    }

    fn print(&self, queue: &Arc<dyn Queue>, active: &Active, seen: &Seen) {
        println!("{}", reading::summary(seen, Some(queue.url())));
        println!("policy {}", one_line(&active.policy.title()));
        if let Some(text) = active.text() {
            println!("       {text}");
        }
        for (verdict, title) in [
            (Verdict::Retry, "would be retried"),
            (Verdict::DeadLetter, "would be dead-lettered again"),
            (Verdict::Discard, "would be discarded"),
            (
                Verdict::Broken,
                "on which the policy breaks: the fallback would retry them",
            ),
            (
                Verdict::NotClassified,
                "not classified: --assume-code says which error to assume",
            ),
        ] {
            let Some(count) = self.verdicts.get(&verdict) else {
                continue;
            };
            println!("\n{count:>7}  {title}");
            let mut groups: Vec<_> = self.groups.iter().collect();
            groups.retain(|(key, _)| key.verdict == verdict);
            groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
            for (key, group) in groups {
                let mut text: Vec<_> = [&key.class, &key.code, &key.reason]
                    .into_iter()
                    .filter(|part| !part.is_empty())
                    .map(|part| one_line(part))
                    .collect();
                if let Some((least, most)) = group.delays {
                    text.push(if least == most {
                        format!("after {least}")
                    } else {
                        format!("after {least} to {most}")
                    });
                }
                if let Some(class) = &key.died_of {
                    text.push(format!("died of another class: {}", one_line(class)));
                }
                println!("         {:>7}  {}", group.count, text.join(", "));
                // Each on a line: several would not fit into a terminal with 80 columns.
                for (number, id) in group.samples.iter().enumerate() {
                    let start = if number == 0 { "such as" } else { "" };
                    println!("{:18}{start:7} {}", "", one_line(id));
                }
            }
        }
        if !self.unknown.is_empty() {
            println!("\nThe letters do not say");
            for (what, count) in &self.unknown {
                println!("         {count:>7}  {what}");
            }
        }
    }

    fn as_json(&self, queue: &Arc<dyn Queue>, seen: &Seen) -> Value {
        let groups = self.groups.iter().map(|(key, group)| {
            json!({
                "verdict": key.verdict.as_str(),
                "class": key.class,
                "code": key.code,
                "reason": key.reason,
                "died-of": key.died_of,
                "count": group.count,
                "shortest-delay": group.delays.map(|(least, _)| least),
                "longest-delay": group.delays.map(|(_, most)| most),
                "samples": group.samples,
            })
        });
        let groups: Vec<_> = groups.collect();
        let answers = json!({
            "queue": queue.url(),
            "verdicts": self.verdicts,
            "groups": groups,
            "unknown": self.unknown,
        });
        reading::as_json(seen, answers)
    }
}
