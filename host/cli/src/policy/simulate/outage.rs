//! What an outage costs a queue, without and with a breaker.

use std::num::NonZeroU32;
use std::time::Duration;

use backstop_core::failure::Milliseconds;
use backstop_core::text::one_line;
use backstop_engine::Policy;
use backstop_workbench::simulate::outage::{
    Comparison, LONGEST, MOST_REQUESTS, Plan, Run, simulate,
};
use backstop_workbench::simulate::{Evaluation, Rounded};
use serde_json::json;

use super::args::Args;
use super::configured_policy::ConfiguredPolicy;
use super::timetable::{FRESH, bounds, line};
use crate::error::{Exit, Result};
use crate::policy::sandbox;
use crate::terminal::output::Output;
use crate::terminal::style::YELLOW;
use crate::terminal::{Progress, Table, columns, count, println, wrapped};

/// The columns of the table, in groups.
const HEADERS: [(&str, &str); 8] = [
    ("", "breaker"),
    ("requests", "in the outage"),
    ("", "in all"),
    ("at once", "hidden"),
    ("", "visible"),
    ("", "dead letters"),
    ("", "discarded"),
    ("", "drained after"),
];

/// The duration of an attempt, unless a flag says otherwise.
const ATTEMPT_TAKES: Duration = Duration::from_millis(200);

/// The most messages of a standard queue of SQS that may be invisible.
const MOST_HIDDEN: u64 = 120_000;

pub(super) fn run(args: &Args, name: &str, outage: Duration) -> Result<()> {
    if args.charts.are_wanted() {
        return Err(Exit::Usage.because("--outage draws no chart: leave out --svg and --png"));
    }
    let configured = ConfiguredPolicy::parse(name, &args.settings.clone().into())?;
    if configured.baseline().is_some() {
        return Err(Exit::Usage.because(format!(
            "`{name}` is a baseline of --contention; an outage needs a policy"
        )));
    }
    let plan = plan(args, outage)?;
    let policy = configured.load(&sandbox::cached()?)?;
    let payload = args.given.payload()?;
    let progress = Progress::steps(2, "runs");
    let compared = simulate(&policy, &payload, &plan, args.threads(), || progress.add(1));
    drop(progress);
    let compared = compared.map_err(|error| Exit::Usage.because(error.to_string()))?;
    if args.json {
        println!("{}", as_json(&policy, &plan, &compared));
    } else if args.csv {
        as_csv(&compared)?;
    } else {
        explain(&policy, &plan, &compared);
    }
    Ok(())
}

fn plan(args: &Args, outage: Duration) -> Result<Plan> {
    let takes = args.attempt_takes.unwrap_or(ATTEMPT_TAKES);
    if takes.is_zero() {
        return Err(Exit::Usage.because("--attempt-takes: expected at least 1ms with --outage"));
    }
    Ok(Plan {
        outage: Milliseconds::from_duration(outage),
        rate: args.rate,
        max_in_flight: NonZeroU32::MIN.saturating_add(args.max_in_flight - 1),
        attempt_takes: Milliseconds::from_duration(takes),
        seed: args.seed,
        error: args.given.error(),
        source: args.given.source.clone(),
        attributes: args.given.attributes.clone(),
        bounds: bounds(args),
    })
}

fn as_json(policy: &Policy, plan: &Plan, compared: &Comparison) -> serde_json::Value {
    json!({
        "policy": policy.parts().collect::<Vec<_>>(),
        "error": plan.error,
        "seed": plan.seed,
        "outage": plan.outage,
        "rate": plan.rate,
        "max-in-flight": plan.max_in_flight,
        "attempt-takes": plan.attempt_takes,
        "runs": compared,
    })
}

fn as_csv(compared: &Comparison) -> Result<()> {
    let mut lines = csv::Writer::from_writer(Output);
    lines.write_record([
        "breaker",
        "messages",
        "requests-in-outage",
        "requests",
        "peak-hidden",
        "peak-visible",
        "succeeded",
        "dead-letters",
        "discarded",
        "said-down",
        "drained-after-ms",
        "left",
    ])?;
    for (breaker, Run { counts, .. }) in named(compared) {
        let numbers = [
            counts.messages,
            counts.requests_in_outage,
            counts.requests,
            counts.peak_hidden,
            counts.peak_visible,
            counts.succeeded,
            counts.dead_letters,
            counts.discarded,
            counts.said_down,
        ];
        let numbers = numbers.map(|number| number.to_string());
        let drained = counts.drained_after.map(|time| time.to_string());
        let first = [breaker.to_owned()].into_iter().chain(numbers);
        let last = [drained.unwrap_or_default(), counts.left.to_string()];
        lines.write_record(first.chain(last))?;
    }
    Ok(lines.flush()?)
}

/// The two runs, by whether there is a breaker.
fn named(compared: &Comparison) -> [(&'static str, &Run); 2] {
    [("without", &compared.without), ("with", &compared.with)]
}

fn explain(policy: &Policy, plan: &Plan, compared: &Comparison) {
    line!("policy", "{}", policy.title());
    line!(
        "outage",
        "{} of {}",
        plan.outage,
        one_line(&plan.error.to_string())
    );
    line!(
        "messages",
        "{}, {} until the end of the outage; at most {} in flight, {} each",
        plan.rate,
        count(plan.messages()),
        plan.max_in_flight,
        plan.attempt_takes
    );
    println!();
    println!("{}", table(compared));
    println!();
    for (breaker, run) in named(compared) {
        notes(breaker, run);
    }
    if compared.evaluation == Evaluation::Fresh {
        line!("evaluated", "{}", FRESH);
    }
}

fn table(compared: &Comparison) -> String {
    let (groups, names) = HEADERS
        .map(|(group, name)| (group.to_owned(), name.to_owned()))
        .into_iter()
        .unzip();
    let rows = named(compared).map(|(breaker, run)| row(breaker, run));
    let table = Table {
        headers: groups,
        rows: std::iter::once(names).chain(rows).collect(),
        right: HEADERS.len(),
        flexible: 0..0,
    };
    table.fit(None).lines.join("\n")
}

fn row(breaker: &str, Run { counts, .. }: &Run) -> Vec<String> {
    let drained = counts
        .drained_after
        .map_or_else(|| "never".to_owned(), |time| Rounded(time).to_string());
    vec![
        breaker.to_owned(),
        count(counts.requests_in_outage),
        count(counts.requests),
        count(counts.peak_hidden),
        count(counts.peak_visible),
        count(counts.dead_letters),
        count(counts.discarded),
        drained,
    ]
}

/// What the table does not say of a run.
fn notes(breaker: &str, Run { counts, broken }: &Run) {
    if counts.said_down > 0 {
        let said = count(counts.said_down);
        line!(
            breaker,
            "the policy said {said} times that something is down"
        );
    }
    if counts.left > 0 {
        let (left, most, longest) = (count(counts.left), count(MOST_REQUESTS), LONGEST);
        line!(
            breaker,
            "{YELLOW}{left} messages are left{YELLOW:#} at the end of the simulation, after {most} requests or {longest}"
        );
    }
    if counts.peak_hidden > MOST_HIDDEN {
        let most = count(MOST_HIDDEN);
        line!(
            breaker,
            "{YELLOW}more messages are hidden than the {most} of a standard queue{YELLOW:#}: a host sends the rest again (holding.md)"
        );
    }
    for (cause, decisions) in broken {
        let cause = one_line(cause);
        line!(
            breaker,
            "{YELLOW}the policy {cause}{YELLOW:#}: the fallback made {decisions} decisions instead"
        );
    }
}
