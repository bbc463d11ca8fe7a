//! `backstop policy reconsider`: decides about waiting messages again, with the version that is active now.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::one_line;
use backstop_host::admin::{Host, HostAnswer};
use backstop_settle::waiting::{Reconsidered, Taken};
use clap::Parser;
use serde::Serialize;
use serde_json::json;

use super::pass_on::pass_on;
use crate::error::Result;
use crate::hosts::HostArgs;
use crate::terminal::style::BOLD;
use crate::terminal::{count, counted, joined, println};
use crate::time::{at, exact, parse_past, parse_wait};
use crate::wake::{print_left, print_not_remembered};

const EXAMPLES: &str = "\
Examples:
  What would the new version change for the messages that wait?
    backstop policy reconsider orders --dry-run

  Bring those back sooner for which it says so; overdue ones over ten minutes:
    backstop policy reconsider orders --spread 10m

  The same for the messages and with the version of a dry run, which prints these options:
    backstop policy reconsider orders --spread 10m --failed-until 2026-11-22T03:05:12.345Z --digest sha256:…

  The same on two hosts elsewhere, which receive the messages that the other one sends again:
    backstop policy reconsider orders --admin http://10.0.0.7:9465 --admin http://10.0.0.8:9465

Decisions are pure: a version decides about a remembered failure as it would have at the time. Only retries that come sooner are applied. What the version would delay, dead-letter or discard is counted and waits as it did. A message that is held by being sent again comes when its hop ends, after 15 minutes at most, or later if it is not due then. host/docs/operate/waiting.md explains more.";

/// Decide about waiting messages again with the active version, and bring those back sooner for which it says so
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The time over which messages come that are overdue by the new decision; 0s for all at once
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "1m")]
    spread: Duration,

    /// Only say what would change, and how to do it for these messages with this version
    #[arg(long)]
    dry_run: bool,

    /// Only messages that had failed by this time, such as that of a dry run: none that failed later
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    failed_until: Option<Timestamp>,

    /// Only if the active version has this digest, such as that of a dry run; repeated for a policy of several components
    #[arg(long, value_name = "DIGEST", value_parser = parse_digest)]
    digest: Vec<String>,

    #[command(flatten)]
    hosts: HostArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.serving(&args.queue)?;
    let body = json!({
        "queue": args.queue,
        "spread": Milliseconds::from_duration(args.spread),
        "dry-run": args.dry_run,
        "list": hosts.len() > 1,
    });
    let body = joined(
        body,
        json!(Only {
            failed_until: args.failed_until,
            digests: Some(&args.digest).filter(|it| !it.is_empty()),
        }),
    );
    let mut answers: Vec<(&Host, HostAnswer<Reconsidered>)> =
        hosts.each(async |host| host.post(&["v1", "reconsider"], &body).await)?;
    // A hop may end at another host than the one that has seen the message fail.
    let lists = answers.iter_mut();
    let lists = lists.map(|(host, answer)| (*host, std::mem::take(&mut answer.result.earlier)));
    let taken = pass_on(&args.queue, args.dry_run, &lists.collect::<Vec<_>>());
    for ((host, answer), taken) in answers.iter().zip(&taken) {
        if args.hosts.json {
            println!("{}", joined(json!(answer), json!({"others": taken})));
        } else {
            print(args, host, &answer.result, taken);
        }
    }
    let resent = answers.iter().any(|(_, answer)| answer.result.resent > 0);
    if !args.hosts.json && (resent || taken.iter().any(|it| it.resent > 0)) {
        println!(
            "  a host that was not asked may receive what is sent again: it lets it wait as decided"
        );
    }
    if args.dry_run && !args.hosts.json {
        print_repeat(args, answers.iter().map(|(_, answer)| &answer.result));
    }
    hosts.carried_out_by(answers.len())
}

/// Which messages and which version are meant.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Only<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    failed_until: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digests: Option<&'a Vec<String>>,
}

/// A digest as hosts write it.
fn parse_digest(text: &str) -> Result<String, String> {
    let digest = text.strip_prefix("sha256:").unwrap_or(text);
    let is_digest = digest.len() == 64 && digest.bytes().all(|it| it.is_ascii_hexdigit());
    if is_digest {
        Ok(format!("sha256:{}", digest.to_ascii_lowercase()))
    } else {
        Err("expected a whole digest, sha256: and 64 digits, as a dry run prints it".to_owned())
    }
}

/// How to do what was previewed, and no more. The hosts have one clock: that of SQS.
fn print_repeat<'a>(args: &Args, results: impl Iterator<Item = &'a Reconsidered>) {
    let results: Vec<_> = results.collect();
    let Some(first) = results.first() else { return };
    if results.iter().any(|it| it.digests != first.digests) {
        println!("  the hosts have different versions: each decides with its own");
        return;
    }
    // The earliest: a message that failed later was not counted everywhere.
    let as_of = results.iter().map(|it| it.as_of).min().unwrap_or_default();
    let digests = first.digests.iter().map(|it| format!(" --digest {it}"));
    println!(
        "  for these messages and this version only: backstop policy reconsider {} --failed-until {}{}",
        one_line(&args.queue),
        exact(as_of),
        digests.collect::<String>()
    );
}

fn print(args: &Args, host: &Host, result: &Reconsidered, taken: &Taken) {
    println!(
        "{BOLD}{}{BOLD:#}  {}: {} remembered and waiting",
        one_line(&args.queue),
        one_line(host.name()),
        counted(result.waiting, "message")
    );
    println!("  decided again by {}", one_line(&result.policy));
    let last = |time: Option<Timestamp>| {
        let last = time.map(|time| format!(", the last at {}", at(time, clock::now())));
        last.unwrap_or_default()
    };
    let come = if args.dry_run { "would come" } else { "come" };
    println!(
        "  {} {come} sooner{}",
        count(result.hurried),
        last(result.last)
    );
    let resent = result.resent + taken.resent;
    if resent > 0 {
        println!(
            "  {} are held by being sent again, and {come} sooner, when their hop ends or later{}",
            count(resent),
            last(result.resent_until.max(taken.resent_until))
        );
    }
    for (number, what) in [
        (
            result.same,
            "come when they are due: the decision is the same, or no sooner",
        ),
        (result.later, "would wait for longer, and keep their time"),
        (
            result.dead_letter,
            "would be dead-lettered, and keep their time",
        ),
        (result.discard, "would be discarded, and keep their time"),
        (result.broken, "break the version, and keep their time"),
        (
            result.not_comparable,
            "keep their time: the version reads parts of the payload that are not remembered",
        ),
        (
            result.too_large,
            "keep their time: their failure is too large to be remembered",
        ),
        (
            result.elsewhere.saturating_sub(taken.resent),
            "keep their time: another host has seen them fail, or this one before its start",
        ),
        (
            result.unlisted,
            "more times are not passed on to the other hosts, because there are too many: they apply if this host receives the message",
        ),
        (result.before, "were decided again by this version before"),
    ] {
        if number > 0 {
            println!("  {} {what}", count(number));
        }
    }
    print_left(result.refused, result.refusals.iter(), result.not_reached);
    print_not_remembered(result.not_remembered);
}
