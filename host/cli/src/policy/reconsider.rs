//! `backstop policy reconsider`: decides about waiting messages again, with the version that is active now.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::one_line;
use backstop_host::admin::{Host, HostAnswer};
use backstop_settle::waiting::{Reconsidered, Taken};
use clap::Parser;
use serde_json::json;

use super::pass_on::pass_on;
use crate::error::Result;
use crate::hosts::HostArgs;
use crate::terminal::style::BOLD;
use crate::terminal::{count, counted, joined, println};
use crate::time::{at, parse_wait};
use crate::wake::{print_left, print_not_remembered};

const EXAMPLES: &str = "\
Examples:
  What would the new version change for the messages that wait?
    backstop policy reconsider orders --dry-run

  Bring those back sooner for which it says so; overdue ones over ten minutes:
    backstop policy reconsider orders --spread 10m

  The same on two hosts elsewhere, which receive the messages that the other one sends again:
    backstop policy reconsider orders --admin http://10.0.0.7:9465 --admin http://10.0.0.8:9465

Decisions are pure: a version decides about a remembered failure as it would have at the time. Only retries that come sooner are applied. What the version would delay, dead-letter or discard is counted and waits as it did. A message that is held by being sent again comes when its hop ends, after 15 minutes at most, or later if it is not due then. host/docs/waiting.md explains more.";

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

    /// Only say what would change
    #[arg(long)]
    dry_run: bool,

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
    hosts.carried_out_by(answers.len())
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
