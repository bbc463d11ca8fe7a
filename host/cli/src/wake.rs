//! `backstop wake`: brings waiting messages back sooner.

use anstyle::{AnsiColor, Style};
use backstop::internal::admin::{Host, HostAnswer, HostStatus};
use backstop_core::clock;
use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::rate::Rate;
use backstop_core::text::one_line;
use backstop_files::values::parse_span;
use backstop_settle::waiting::{Refusal, Woken};
use backstop_workbench::simulate::Rounded;
use clap::{ArgGroup, Parser};
use indicatif::HumanCount;
use serde_json::{Value, json};

use crate::dlq::shown::print_json;
use crate::error::{CommandError, Result};
use crate::hosts::{HostArgs, each};
use crate::output::println;
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

No message comes later than it would have. Attempts are not reset. A message that is held by being sent again comes when its hop ends, after 15 minutes at most. Hosts on other machines need --admin, once for each. host/docs/waiting.md explains more.";

/// Bring waiting messages back sooner, spread over a time
///
/// For when the cause of their failures is mended. It reaches all hosts of this machine, or those of --admin. Each makes the messages visible that it has hidden.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("chosen").multiple(true).required(true).args(["code", "class", "attempt", "id", "due_after", "all"])))]
pub(crate) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    #[command(flatten)]
    filters: FilterArgs,

    /// All messages that wait
    #[arg(long, conflicts_with_all = ["code", "class", "attempt", "id", "due_after"])]
    all: bool,

    #[command(flatten)]
    pace: PaceArgs,

    /// Only say how many messages would come
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    hosts: HostArgs,

    /// Print the answer of each host as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// How fast messages come back.
#[derive(Debug, Parser)]
pub(crate) struct PaceArgs {
    /// The time over which the messages come, evenly; 0s for all at once
    #[arg(long, value_name = "DURATION", value_parser = parse_spread, default_value = "1m")]
    pub(crate) spread: Milliseconds,

    /// How many messages come each second (50/s), minute (/m) or hour (/h), instead of --spread
    #[arg(long, value_name = "RATE", conflicts_with = "spread")]
    pub(crate) rate: Option<Rate>,
}

pub(crate) fn parse_spread(text: &str) -> Result<Milliseconds, String> {
    match text.trim() {
        "0" | "0s" => Ok(Milliseconds(0)),
        text => {
            let spread = parse_span(text).map_err(|error| error.to_string())?;
            Ok(Milliseconds::from_duration(spread))
        }
    }
}

/// A host and what it did.
type Answers<'a, T> = Vec<(&'a Host, HostAnswer<T>)>;

pub(crate) fn run(args: &Args) -> Result<()> {
    let hosts = serving(&args.hosts, &args.queue)?;
    let chosen = if args.all {
        json!({"all": true})
    } else {
        json!({"filter": args.filters.filter()})
    };
    let wake = |spread: Milliseconds, dry_run: bool| -> Result<Answers<'_, Woken>> {
        let body = body(&args.queue, &chosen, spread, dry_run);
        each(&hosts, async |host| host.post(&["v1", "wake"], &body).await)
    };
    let spread = match args.pace.rate {
        Some(rate) => {
            let counted = wake(Milliseconds(0), true)?;
            let counted = counted.iter().map(|(_, answer)| &answer.result);
            rate.time_of(counted.map(|it| it.woken + it.resent).sum())
        }
        None => args.pace.spread,
    };
    let answers = wake(spread, args.dry_run)?;
    if args.json {
        for (_, answer) in &answers {
            print_json(&serde_json::to_value(answer)?);
        }
        return Ok(());
    }
    print(args, &answers, spread, clock::now());
    Ok(())
}

fn body(queue: &str, chosen: &Value, spread: Milliseconds, dry_run: bool) -> Value {
    let mut body = json!({"queue": queue, "spread": spread, "dry-run": dry_run});
    if let (Some(fields), Some(chosen)) = (body.as_object_mut(), chosen.as_object()) {
        fields.extend(chosen.clone());
    }
    body
}

/// The hosts that serve a queue: at least one.
pub(crate) fn serving(hosts: &HostArgs, queue: &str) -> Result<Vec<Host>> {
    let hosts = hosts.hosts()?;
    let served = each(&hosts, async |host| {
        host.get::<HostStatus>(&["v1", "status"], &[]).await
    })?;
    let serves = |status: &HostStatus| status.queues.iter().any(|it| it.queue == queue);
    let serving = served.into_iter().filter(|(_, status)| serves(status));
    let serving: Vec<_> = serving.map(|(host, _)| host.clone()).collect();
    if serving.is_empty() {
        Err(CommandError::NoHost(format!(
            "no running host serves the queue `{queue}`"
        )))
    } else {
        Ok(serving)
    }
}

fn print(args: &Args, answers: &Answers<'_, Woken>, spread: Milliseconds, now: Timestamp) {
    let results = || answers.iter().map(|(_, answer)| &answer.result);
    let sum = |count: fn(&Woken) -> u64| results().map(count).sum::<u64>();
    let (matched, woken, resent) = (
        sum(|it| it.matched),
        sum(|it| it.woken),
        sum(|it| it.resent),
    );
    let queue = one_line(&args.queue);
    let bold = Style::new().bold();
    if matched == 0 {
        println!(
            "{bold}{queue}{bold:#}  no waiting message matches: `backstop waiting {queue}` shows what waits"
        );
    } else {
        let come = if args.dry_run { "would come" } else { "come" };
        println!(
            "{bold}{queue}{bold:#}  {} of {} matching messages {come} sooner{}",
            HumanCount(woken),
            HumanCount(matched),
            over(results().filter_map(|it| it.last).max(), spread, now)
        );
    }
    let as_soon = sum(|it| it.as_soon);
    if as_soon > 0 {
        println!("  {} come as soon anyway", HumanCount(as_soon));
    }
    if resent > 0 {
        let until = results().filter_map(|it| it.resent_until).max();
        let until = until.map(|until| format!(", the last at {}", at(until, now)));
        println!(
            "  {} are held by being sent again, and {} when their hop ends{}",
            HumanCount(resent),
            if args.dry_run { "would come" } else { "come" },
            until.unwrap_or_default()
        );
        if args.hosts.is_this_machine() {
            println!(
                "  a host on another machine may receive those: ask each with --admin, or they wait as decided there"
            );
        }
    }
    let refusals = results().flat_map(|it| &it.refusals);
    print_left(sum(|it| it.refused), refusals, sum(|it| it.not_reached));
    print_not_remembered(sum(|it| it.not_remembered));
}

/// What could not be changed.
pub(crate) fn print_left<'a>(
    refused: u64,
    refusals: impl Iterator<Item = &'a Refusal>,
    not_reached: u64,
) {
    let yellow: Style = AnsiColor::Yellow.on_default();
    if refused > 0 {
        println!(
            "  {yellow}SQS did not change the visibility of {}: they were deleted or received by others, or come when they are due{yellow:#}",
            HumanCount(refused)
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
            "  {yellow}there was no time for {}: run the command again{yellow:#}",
            HumanCount(not_reached)
        );
    }
}

/// What no host knows.
pub(crate) fn print_not_remembered(count: u64) {
    let yellow: Style = AnsiColor::Yellow.on_default();
    if count > 0 {
        println!(
            "  {yellow}{} more wait in this queue and are not remembered, because there are too many: they come when they are due{yellow:#}",
            HumanCount(count)
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

/// A time, and how far in the future it is.
pub(crate) fn at(time: Timestamp, now: Timestamp) -> String {
    let left = u64::try_from(time.since(now).as_millis()).unwrap_or(u64::MAX);
    format!("{}, in {}", time.rfc3339(), Rounded(left))
}
