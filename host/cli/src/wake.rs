//! `backstop wake`: brings waiting messages back sooner.

use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::rate::Rate;
use backstop_core::text::one_line;
use backstop_host::admin::{Host, HostAnswer};
use backstop_settle::waiting::{Reach, Refusal, Woken};
use clap::{ArgGroup, Parser};
use serde_json::json;

use crate::error::Result;
use crate::hosts::{HostArgs, print_each};
use crate::terminal::style::{BOLD, YELLOW};
use crate::terminal::{count, joined, println};
use crate::time::{at, parse_wait};
use crate::waiting::OUT_OF_REACH;
use crate::waiting::filters::FilterArgs;

const EXAMPLES: &str = "\
Examples:
  The cause of the HTTP 503s is mended: how many messages wait because of it?
    backstop wake orders --code \"HTTP 503\" --dry-run

  Bring them back over the next five minutes:
    backstop wake orders --code \"HTTP 503\" --spread 5m

  The same, 50 each second:
    backstop wake orders --code \"HTTP 503\" --rate 50/s

  Try one message at once:
    backstop wake orders --id 5fea7756-0ea4-451a-a703-a558b933e274 --spread 0s

  Everything that would wait for more than another hour, on a host elsewhere:
    BACKSTOP_ADMIN_TOKEN=… backstop wake orders --due-after 1h --admin http://10.0.0.7:9465

No message comes later than it would have. Attempts are not reset. A message that is held by being sent again comes when its hop ends, after 15 minutes at most. Hosts on other machines need --admin, once for each. host/docs/operate/waiting.md explains more.";

/// Bring waiting messages back sooner, spread over a time
///
/// For when the cause of their failures is mended. It reaches all hosts of this machine, or those of --admin. Each makes the messages visible that it has hidden.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("chosen").multiple(true).required(true).args(["code", "class", "attempt", "id", "group", "due_after", "all"])))]
pub(crate) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    #[command(flatten)]
    filters: FilterArgs,

    /// All messages that wait
    #[arg(long, conflicts_with_all = ["code", "class", "attempt", "id", "group", "due_after"])]
    all: bool,

    /// The time over which the messages come, evenly; 0s for all at once
    #[arg(long, value_name = "DURATION", value_parser = parse_wait, default_value = "1m")]
    spread: Duration,

    /// How many messages come each second (50/s), minute (/m) or hour (/h), instead of --spread
    #[arg(long, value_name = "RATE", conflicts_with = "spread")]
    rate: Option<Rate>,

    /// Only say how many messages would come
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    hosts: HostArgs,
}

/// A host and what it did.
type Answers<'a, T> = Vec<(&'a Host, HostAnswer<T>)>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let hosts = args.hosts.serving(&args.queue)?;
    let chosen = if args.all {
        json!({"all": true})
    } else {
        json!({"filter": args.filters.filter()})
    };
    let wake = |spread: Milliseconds, dry_run: bool| -> Result<Answers<'_, Woken>> {
        let body = json!({"queue": args.queue, "spread": spread, "dry-run": dry_run});
        let body = joined(body, chosen.clone());
        hosts.each(async |host| host.post(&["v1", "wake"], &body).await)
    };
    let spread = match args.rate {
        Some(rate) => {
            let counted = wake(Milliseconds(0), true)?;
            let counted = counted.iter().map(|(_, answer)| &answer.result);
            rate.time_of(counted.map(|it| it.woken + it.resent).sum())
        }
        None => Milliseconds::from_duration(args.spread),
    };
    let answers = wake(spread, args.dry_run)?;
    if args.hosts.json {
        print_each(&answers)?;
    } else {
        print(args, &answers, spread, clock::now());
    }
    hosts.carried_out_by(answers.len())
}

fn print(args: &Args, answers: &Answers<'_, Woken>, spread: Milliseconds, now: Timestamp) {
    let results = || answers.iter().map(|(_, answer)| &answer.result);
    let sum = |of: fn(&Woken) -> u64| results().map(of).sum::<u64>();
    let (matched, woken, resent) = (
        sum(|it| it.matched),
        sum(|it| it.woken),
        sum(|it| it.resent),
    );
    let queue = one_line(&args.queue);
    if matched == 0 {
        println!(
            "{BOLD}{queue}{BOLD:#}  no waiting message matches: `backstop waiting {queue}` shows what waits"
        );
    } else {
        let come = if args.dry_run { "would come" } else { "come" };
        println!(
            "{BOLD}{queue}{BOLD:#}  {} of {} matching messages {come} sooner{}",
            count(woken),
            count(matched),
            over(results().filter_map(|it| it.last).max(), spread, now)
        );
    }
    let as_soon = sum(|it| it.as_soon);
    if as_soon > 0 {
        println!("  {} come as soon anyway", count(as_soon));
    }
    if resent > 0 {
        let until = results().filter_map(|it| it.resent_until).max();
        let until = until.map(|until| format!(", the last at {}", at(until, now)));
        println!(
            "  {} are held by being sent again, and {} when their hop ends{}",
            count(resent),
            if args.dry_run { "would come" } else { "come" },
            until.unwrap_or_default()
        );
        if answers.iter().all(|(host, _)| host.is_on_this_machine()) {
            println!(
                "  a host on another machine may receive those: ask each with --admin, or they wait as decided there"
            );
        }
    }
    let refusals = results().flat_map(|it| &it.refusals);
    print_left(sum(|it| it.refused), refusals, sum(|it| it.not_reached));
    print_not_remembered(sum(|it| it.not_remembered));
    print_missing(Reach::missing(results().map(|it| it.reach)));
}

/// What is out of reach of the hosts that were asked.
pub(crate) fn print_missing(number: Option<u64>) {
    if let Some(number) = number.filter(|number| *number > 0) {
        println!(
            "  {YELLOW}about {} more are invisible and out of reach, {OUT_OF_REACH}: they come when they are due{YELLOW:#}",
            count(number)
        );
    }
}

/// What could not be changed.
pub(crate) fn print_left<'a>(
    refused: u64,
    refusals: impl Iterator<Item = &'a Refusal>,
    not_reached: u64,
) {
    if refused > 0 {
        println!(
            "  {YELLOW}SQS did not change the visibility of {}: they were deleted or received by others, or come when they are due{YELLOW:#}",
            count(refused)
        );
        for refusal in refusals.take(20) {
            println!(
                "    {}  {}",
                one_line(&refusal.id),
                one_line(&refusal.error)
            );
        }
    }
    if not_reached > 0 {
        println!(
            "  {YELLOW}there was no time for {}: run the command again{YELLOW:#}",
            count(not_reached)
        );
    }
}

/// What no host knows.
pub(crate) fn print_not_remembered(number: u64) {
    if number > 0 {
        println!(
            "  {YELLOW}{} more wait in this queue and are not remembered, because there are too many: they come when they are due{YELLOW:#}",
            count(number)
        );
    }
}

/// `, over 5m, the last at 2026-11-22T03:05:00Z, in 5m`
fn over(last: Option<Timestamp>, spread: Milliseconds, now: Timestamp) -> String {
    match last {
        Some(last) if spread > Milliseconds(0) => {
            format!(", over {spread}, the last at {}", at(last, now))
        }
        Some(_) => ", at once".to_owned(),
        None => String::new(),
    }
}
