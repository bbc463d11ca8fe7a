//! The timetable of one policy, printed: a row for each attempt, and what becomes of the messages.

use crate::output::{Output, println};
use serde_json::json;

use super::Args;
use super::lane::Lane;
use super::named::Named;
use crate::exit::UsageError;
use crate::policy::progress::Progress;
use crate::policy::{sandbox, table};
use backstop::policy::Policy;
use backstop_core::decision::Bounds;
use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_workbench::chart::TimetableChart;
use backstop_workbench::simulate::timetable::{Plan, Row, Timetable, simulate};
use backstop_workbench::simulate::{Evaluation, Percentiles, Rounded};

/// The highest `maxReceiveCount` of SQS: no message is followed further.
const HORIZON: std::num::NonZeroU32 = std::num::NonZeroU32::MIN.saturating_add(999);

/// Rows of the table, before those in between are left out; and how many of them are the last.
const ROWS: usize = 40;
const LAST: usize = 10;

/// Reasons that are told one by one.
const REASONS: usize = 8;

pub(super) fn run(args: &Args, name: &str) -> anyhow::Result<()> {
    args.charts.check()?;
    let named = Named::parse(name, &args.settings.clone().into())?;
    if named.baseline().is_some() {
        return Err(UsageError(format!(
            "`{name}` is a baseline of --contention; a timetable is that of a policy"
        ))
        .into());
    }
    let policy = named.load(&sandbox()?)?;
    let plan = args.plan();
    let steps = usize::try_from(plan.messages).unwrap_or(usize::MAX);
    let progress = Progress::start(steps, "messages");
    let payload = args.told.payload()?;
    let timetable = simulate(&policy, &payload, &plan, args.threads(), || progress.step());
    drop(progress);
    if args.json {
        println!("{}", as_json(&policy, &plan, &timetable));
    } else if args.csv {
        as_csv(&timetable)?;
    } else {
        explain(&policy, &plan, &timetable);
    }
    let chart = TimetableChart {
        label: &named.phrase(),
        code: &plan.error.code,
        timetable: &timetable,
    };
    args.charts.write(&chart, !args.json && !args.csv)
}

impl Args {
    fn plan(&self) -> Plan {
        let retention = Milliseconds::from_duration(self.retention);
        Plan {
            messages: self.messages,
            seed: self.seed,
            error: self.told.error(),
            source: self.told.source.clone(),
            attributes: self.told.attributes.clone(),
            bounds: Bounds {
                max_attempts: self.max_attempts,
                max_age: self.max_age.map(Milliseconds::from_duration),
                retention: Some(retention),
                ..Bounds::default()
            },
            attempt_takes: Milliseconds::from_duration(self.attempt_takes),
            horizon: HORIZON,
        }
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

fn as_csv(timetable: &Timetable) -> anyhow::Result<()> {
    let mut lines = csv::Writer::from_writer(Output);
    let columns = ["earliest", "p5", "median", "p95", "latest"];
    let named = |what: &str| columns.map(|column| format!("{what}-{column}-ms"));
    let heads = ["attempt", "messages"].map(str::to_owned);
    let (delays, times) = (named("delay"), named("since-first-failure"));
    lines.write_record(heads.iter().chain(&delays).chain(&times))?;
    for row in &timetable.attempts {
        let spans = [row.delay, row.since_first_failure].map(|of: Percentiles| {
            [of.earliest, of.p5, of.median, of.p95, of.latest].map(|span| span.to_string())
        });
        let counts = [row.attempt.to_string(), row.messages.to_string()];
        lines.write_record(counts.iter().chain(spans.iter().flatten()))?;
    }
    Ok(lines.flush()?)
}

fn line(name: &str, value: impl std::fmt::Display) {
    println!("{name:<10} {value}");
}

fn explain(policy: &Policy, plan: &Plan, timetable: &Timetable) {
    let Timetable {
        messages, attempts, ..
    } = timetable;
    line("policy", policy.title());
    line(
        "messages",
        format!(
            "{messages}, each fails every time: {}",
            one_line(&plan.error.to_string())
        ),
    );
    println!();
    println!("{}", rows(attempts));
    println!();
    for end in timetable.ended.iter().take(REASONS) {
        let since = end.since_first_failure;
        line(
            end.verdict,
            format!(
                "{} after {} attempts, {} after the first failure: {}",
                end.messages,
                span_of(end.attempts, |attempts| attempts.to_string()),
                span_of(since, |span| Rounded(span).to_string()),
                one_line(&end.reason)
            ),
        );
    }
    if timetable.ended.len() > REASONS {
        let more = timetable.ended.iter().skip(REASONS);
        let (reasons, messages) = more.fold((0, 0), |(reasons, messages), end| {
            (reasons + 1, messages + end.messages)
        });
        line(
            "ended",
            format!("{messages} for {reasons} other reasons: --json has them"),
        );
    }
    if timetable.unended > 0 {
        let unended = timetable.unended;
        line(
            "unended",
            format!(
                "{unended} still tried again after {HORIZON} attempts, where the simulation stops looking"
            ),
        );
    }
    if let Some(busiest) = timetable.busiest_second {
        let (retries, after) = (busiest.retries, Rounded(busiest.after_seconds * 1_000));
        line(
            "busiest",
            format!("{retries} retries in one second, {after} after the first failure"),
        );
    }
    for (cause, decisions) in &timetable.broken {
        let cause = one_line(cause);
        let yellow = anstyle::AnsiColor::Yellow.on_default().bold();
        line(
            "broken",
            format!(
                "{yellow}the policy {cause}{yellow:#}: the fallback made {decisions} decisions for it"
            ),
        );
    }
    if timetable.asked == Evaluation::Fresh {
        line("asked", FRESH);
    }
}

/// What to know where live instances won't do.
pub(super) const FRESH: &str = "in a fresh instance for each decision, as a host does: an instance that is asked again answers otherwise";

/// One value where all are the same; otherwise the median, between the ends.
fn span_of(of: Percentiles, text: impl Fn(u64) -> String) -> String {
    if of.earliest == of.latest {
        return text(of.median);
    }
    let [earliest, median, latest] = [of.earliest, of.median, of.latest].map(text);
    format!("{median} ({earliest} to {latest})")
}

fn rows(attempts: &[Row]) -> String {
    if attempts.is_empty() {
        return "no message is tried again".to_owned();
    }
    let lane = Lane::of(attempts);
    let heads = [
        "\nattempt",
        "\nmessages",
        "delay\nearliest",
        "\nmedian",
        "\nlatest",
        "cumulative\nearliest",
        "\nmedian",
        "\nlatest",
    ];
    let heads: Vec<_> = heads
        .into_iter()
        .map(str::to_owned)
        .chain([lane.head()])
        .collect();
    let mut table = table::with_heads(&heads, 1);
    let left_out = if attempts.len() > ROWS {
        ROWS - LAST..attempts.len() - LAST
    } else {
        0..0
    };
    for (number, row) in attempts.iter().enumerate() {
        if left_out.contains(&number) {
            if number == left_out.start {
                let count = left_out.len();
                let told = format!("{count} more attempts: --csv has them");
                let blank = heads.iter().skip(2).map(|_| String::new());
                table.add_row(["…".to_owned()].into_iter().chain(blank).chain([told]));
            }
            continue;
        }
        let (delay, since) = (row.delay, row.since_first_failure);
        let spans = [
            delay.earliest,
            delay.median,
            delay.latest,
            since.earliest,
            since.median,
            since.latest,
        ];
        let counts = [row.attempt.to_string(), row.messages.to_string()];
        let spans = spans.map(|span| Rounded(span).to_string());
        table.add_row(counts.into_iter().chain(spans).chain([lane.drawn(since)]));
    }
    table.trim_fmt()
}
