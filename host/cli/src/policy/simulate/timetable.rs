//! The timetable of one policy: a row for each attempt, and how the messages end.

use backstop_core::decision::Bounds;
use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_engine::Policy;
use backstop_workbench::chart::TimetableChart;
use backstop_workbench::simulate::timetable::{HORIZON, Plan, Row, Timetable, simulate};
use backstop_workbench::simulate::{Evaluation, Percentiles, Rounded};
use serde_json::json;

use super::args::Args;
use super::configured_policy::ConfiguredPolicy;
use super::time_bar::TimeBar;
use crate::error::{Exit, Result};
use crate::policy::sandbox;
use crate::terminal::output::Output;
use crate::terminal::style::YELLOW;
use crate::terminal::{GAP, Progress, Table, columns, println, wrapped};

/// The most rows that the table shows. If there are more, it leaves out those before the last ones.
const MAX_ROWS: usize = 40;
const LAST_ROWS: usize = 10;

/// The columns of the table, in groups.
const HEADERS: [(&str, &str); 8] = [
    ("", "attempt"),
    ("", "messages"),
    ("delay", "earliest"),
    ("", "median"),
    ("", "latest"),
    ("cumulative", "earliest"),
    ("", "median"),
    ("", "latest"),
];

/// Stands for rows that are left out, in the first column.
const MORE: &str = "      …";

/// At most this many reasons are listed.
const MAX_REASONS: usize = 8;

pub(super) fn run(args: &Args, name: &str) -> Result<()> {
    args.charts.check()?;
    let configured = ConfiguredPolicy::parse(name, &args.settings.clone().into())?;
    if configured.baseline().is_some() {
        return Err(Exit::Usage.because(format!(
            "`{name}` is a baseline of --contention; a timetable needs a policy"
        )));
    }
    let policy = configured.load(&sandbox::cached()?)?;
    let plan = plan(args);
    let progress = Progress::steps(plan.messages, "messages");
    let payload = args.given.payload()?;
    let timetable = simulate(&policy, &payload, &plan, args.threads(), || progress.add(1));
    drop(progress);
    if args.json {
        println!("{}", as_json(&policy, &plan, &timetable));
    } else if args.csv {
        as_csv(&timetable)?;
    } else {
        explain(&policy, &plan, &timetable);
    }
    let chart = TimetableChart {
        label: &configured.phrase(),
        code: &plan.error.code,
        timetable: &timetable,
    };
    args.charts.write(&chart, !args.json && !args.csv)
}

fn plan(args: &Args) -> Plan {
    Plan {
        messages: args.messages,
        seed: args.seed,
        error: args.given.error(),
        source: args.given.source.clone(),
        attributes: args.given.attributes.clone(),
        bounds: bounds(args),
        attempt_takes: Milliseconds::from_duration(args.attempt_takes.unwrap_or_default()),
        horizon: HORIZON,
    }
}

/// The queue limits.
pub(super) fn bounds(args: &Args) -> Bounds {
    Bounds {
        max_attempts: args.max_attempts,
        max_age: args.max_age.map(Milliseconds::from_duration),
        retention: Some(Milliseconds::from_duration(args.retention)),
        ..Bounds::default()
    }
}

fn as_json(policy: &Policy, plan: &Plan, timetable: &Timetable) -> serde_json::Value {
    json!({
        "policy": policy.parts().collect::<Vec<_>>(),
        "error": plan.error,
        "seed": plan.seed,
        "attempt-takes": plan.attempt_takes,
        "timetable": timetable,
    })
}

fn as_csv(timetable: &Timetable) -> Result<()> {
    let mut lines = csv::Writer::from_writer(Output);
    let columns = ["earliest", "p5", "median", "p95", "latest"];
    let named = |what: &str| columns.map(|column| format!("{what}-{column}-ms"));
    let headers = ["attempt", "messages"].map(str::to_owned);
    let (delays, times) = (named("delay"), named("since-first-failure"));
    lines.write_record(headers.iter().chain(&delays).chain(&times))?;
    for row in &timetable.attempts {
        let times = [row.delay, row.since_first_failure].map(|of: Percentiles| {
            [of.earliest, of.p5, of.median, of.p95, of.latest].map(|time| time.to_string())
        });
        let counts = [row.attempt.to_string(), row.messages.to_string()];
        lines.write_record(counts.iter().chain(times.iter().flatten()))?;
    }
    Ok(lines.flush()?)
}

/// Prints a name and a text that fits the terminal.
macro_rules! line {
    ($name:expr, $($text:tt)*) => {
        println!("{:<10} {}", $name, wrapped(&format!($($text)*), 11, columns()))
    };
}
pub(super) use line;

fn explain(policy: &Policy, plan: &Plan, timetable: &Timetable) {
    let Timetable {
        messages, attempts, ..
    } = timetable;
    line!("policy", "{}", policy.title());
    line!(
        "messages",
        "{messages}, each fails every time: {}",
        one_line(&plan.error.to_string())
    );
    println!();
    println!("{}", rows(attempts, columns()));
    println!();
    for end in timetable.ended.iter().take(MAX_REASONS) {
        let since = end.since_first_failure;
        line!(
            end.verdict,
            "{} after {} attempts, {} after the first failure: {}",
            end.messages,
            range_of(end.attempts, |attempts| attempts.to_string()),
            range_of(since, |time| Rounded(time).to_string()),
            one_line(&end.reason)
        );
    }
    if timetable.ended.len() > MAX_REASONS {
        let more = timetable.ended.iter().skip(MAX_REASONS);
        let (reasons, messages) = more.fold((0, 0), |(reasons, messages), end| {
            (reasons + 1, messages + end.messages)
        });
        line!(
            "ended",
            "{messages} for {reasons} other reasons: --json lists them"
        );
    }
    if timetable.unended > 0 {
        let unended = timetable.unended;
        line!(
            "unended",
            "{unended} still retried after {HORIZON} attempts, where the simulation stops"
        );
    }
    if let Some(busiest) = timetable.busiest_second {
        let (retries, after) = (busiest.retries, Rounded(busiest.after_seconds * 1_000));
        line!(
            "busiest",
            "{retries} retries in one second, {after} after the first failure"
        );
    }
    for (cause, decisions) in &timetable.broken {
        let cause = one_line(cause);
        line!(
            "broken",
            "{YELLOW}the policy {cause}{YELLOW:#}: the fallback made {decisions} decisions instead"
        );
    }
    if timetable.evaluation == Evaluation::Fresh {
        line!("evaluated", "{}", FRESH);
    }
}

/// The note about a policy that live instances would change.
pub(super) const FRESH: &str =
    "in a new instance for each decision, as a host does: a reused instance gives other answers";

/// The value, if all are the same. Otherwise the median and the range.
fn range_of(of: Percentiles, text: impl Fn(u64) -> String) -> String {
    if of.earliest == of.latest {
        return text(of.median);
    }
    let [earliest, median, latest] = [of.earliest, of.median, of.latest].map(text);
    format!("{median} ({earliest} to {latest})")
}

/// The table of the attempts. Its time axis takes what is left of so many columns, and is left out if that is little.
fn rows(attempts: &[Row], columns: Option<usize>) -> String {
    if attempts.is_empty() {
        return "no message is retried".to_owned();
    }
    let left_out = if attempts.len() > MAX_ROWS {
        MAX_ROWS - LAST_ROWS..attempts.len() - LAST_ROWS
    } else {
        0..0
    };
    let shown = attempts.iter().enumerate();
    let shown = shown.filter(|(number, _)| !left_out.contains(number));
    let shown: Vec<_> = shown.map(|(_, row)| row).collect();
    let (groups, names) = HEADERS
        .map(|(group, name)| (group.to_owned(), name.to_owned()))
        .into_iter()
        .unzip();
    let numbers = shown.iter().map(|row| numbers(row).to_vec());
    let mut table = Table {
        headers: groups,
        rows: std::iter::once(names).chain(numbers).collect(),
        right: HEADERS.len(),
        flexible: 0..0,
    };
    let start = table.width() + GAP;
    let bar = TimeBar::of(attempts, columns.map(|all| all.saturating_sub(start)));
    if let Some(bar) = &bar {
        let bars = shown.iter().map(|row| bar.draw(row.since_first_failure));
        let bars = std::iter::once(bar.header()).chain(bars);
        for (row, bar) in table.rows.iter_mut().zip(bars) {
            row.push(bar);
        }
        table.headers.push(String::new());
    }
    let mut lines = table.fit(None).lines;
    if !left_out.is_empty() {
        let count = left_out.len();
        let note = format!("{count} more attempts: --csv lists them");
        let (indent, note) = match &bar {
            Some(bar) => (start, bar.note(&note, &format!("{count} more"))),
            None => (MORE.chars().count() + GAP, note),
        };
        lines.insert(left_out.start + 2, format!("{MORE:<indent$}{note}"));
    }
    lines.join("\n")
}

/// The numbers of a row.
fn numbers(row: &Row) -> [String; 8] {
    let (delay, since) = (row.delay, row.since_first_failure);
    let time = |time: u64| Rounded(time).to_string();
    [
        row.attempt.to_string(),
        row.messages.to_string(),
        time(delay.earliest),
        time(delay.median),
        time(delay.latest),
        time(since.earliest),
        time(since.median),
        time(since.latest),
    ]
}
