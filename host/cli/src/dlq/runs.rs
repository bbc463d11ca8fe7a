//! `backstop dlq runs`: what was moved, by whom, why, and what has failed again.

use std::sync::Arc;

use backstop_core::clock;
use backstop_core::text::{chain, one_line};
use backstop_dead_letters::redrive::{self, Ledger, Plan, RunFolder, Runs, Setup};
use backstop_host::letters;
use backstop_queue::Connections;
use clap::Parser;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::reading::STOPPING;
use super::redrive::report;
use super::redrive::state::{self, StateArgs};
use crate::error::{Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{joined, println, short};
use crate::time::ago;

/// The most ids of a kind that are shown.
const MOST_IDS: usize = 20;

const EXAMPLES: &str = "\
Examples:
  All runs of this user, the latest first:
    backstop dlq runs

  All runs of all who share the bucket:
    backstop dlq runs --state s3://operations/redrives

  One run: its plan, its counts, what was refused and why, and which letters failed again:
    backstop dlq runs 20261122-031500-7f3a

  Look for letters that came back since:
    backstop dlq runs 20261122-031500-7f3a --check";

/// Show what was moved, by whom, why, and what has failed again
///
/// Each `dlq redrive` is a run with an id. Its folder has the plan, the set and the journal of what was done.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// One run, in detail
    #[arg(value_name = "RUN")]
    run: Option<String>,

    /// Look in the dead-letter queue for letters of the run that came back since, and note them
    #[arg(long, requires = "run")]
    check: bool,

    #[command(flatten)]
    state: StateArgs,

    /// Print JSON: one object for each run
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let runs = args.state.runs(args.run.as_deref()).await?;
    match &args.run {
        None => list(&runs, args.json).await,
        Some(run) => {
            let folder = state::find(&runs, run)?;
            if args.check {
                check(&folder).await?;
            }
            detail(&folder, args.json).await
        }
    }
}

/// Shows a run, if there is one with this id where runs are kept by default. Blocks.
pub(crate) fn show(run: &str, is_json: bool) -> Result<bool> {
    let shown = async {
        let runs = StateArgs::default().runs(Some(run)).await;
        match runs.ok().and_then(|runs| runs.find(run).ok()) {
            Some(folder) => detail(&folder, is_json).await.map(|()| true),
            None => Ok(false),
        }
    };
    Handle::current().block_on(shown)
}

/// The runs in a place; without one, those of this user. `None` if these are in a bucket, which is read only if somebody names it.
pub(crate) async fn of(place: Option<&str>) -> Result<Option<Runs>> {
    state::runs_at(place).await
}

/// Looks for letters that came back.
async fn check(folder: &RunFolder) -> Result<()> {
    let plan = folder.plan()?;
    let connections = Arc::new(Connections::new(plan.endpoint_url.clone()));
    let stop = stop_on_signal(STOPPING)?;
    let setup = Setup {
        queue: connections.by_url(&plan.queue).await,
        connections,
        folder: folder.clone(),
        checked: None,
        filters: super::redrive::filters(&plan)?,
        interval: None,
        editor: None,
        keys: None,
        despite: None,
        who: state::user(),
        activity: Arc::default(),
        stop: stop.clone(),
    };
    redrive::check(setup).await?;
    if stop.is_cancelled() {
        Err(Exit::Interrupted
            .because("interrupted: not all letters were read: some may have failed again unseen"))
    } else {
        Ok(())
    }
}

/// What has become of a run.
async fn outcome(folder: &RunFolder, plan: &Plan, ledger: &Ledger) -> String {
    // Whoever may write into the bucket chooses the endpoint of a plan: no request is signed for it here.
    let connections = Connections::new(None);
    letters::outcome(folder, plan, ledger, &connections)
        .await
        .to_owned()
}

async fn list(runs: &Runs, is_json: bool) -> Result<()> {
    let ids = runs.ids()?;
    if ids.is_empty() && !is_json {
        println!("no runs in {}", one_line(&runs.place()));
    }
    for id in ids {
        let found = runs
            .find(&id)
            .and_then(|folder| Ok((folder.plan()?, folder.ledger()?, folder)));
        let (plan, ledger, folder) = match found {
            Ok(found) => found,
            // The others are shown all the same.
            Err(error) => {
                unreadable(&id, &chain(&error), is_json);
                continue;
            }
        };
        let outcome = outcome(&folder, &plan, &ledger).await;
        if is_json {
            println!("{}", as_json(&outcome, &plan, &ledger));
            continue;
        }
        let counts = ledger.counts();
        let letters = counts.letters.map(|it| format!(" of {it}"));
        let letters = letters.unwrap_or_default();
        let mut text = format!(
            "{id}  {:>8}  {}: {}{letters} moved",
            ago(plan.started, clock::now()),
            outcome,
            counts.moved
        );
        for (count, what) in [
            (counts.failed_again, "failed again"),
            (counts.refused, "refused"),
            (counts.uncertain, "uncertain"),
            (counts.in_doubt, "in doubt"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        println!("{text}");
        println!("    {} by {}", one_line(&plan.queue), short(&plan.who, 80));
        if let Some(why) = &plan.why {
            println!("    {}", short(why, 200));
        }
    }
    Ok(())
}

/// A run whose files can't be read.
fn unreadable(id: &str, why: &str, is_json: bool) {
    if is_json {
        let run = json!({"version": 1, "run": id, "outcome": "unreadable", "reason": why});
        println!("{run}");
    } else {
        println!("{}  unreadable: {}", one_line(id), one_line(why))
    }
}

async fn detail(folder: &RunFolder, is_json: bool) -> Result<()> {
    let (plan, ledger) = (folder.plan()?, folder.ledger()?);
    let outcome = outcome(folder, &plan, &ledger).await;
    if is_json {
        let refused = ledger.refused().into_iter();
        let refused = refused.map(|(id, why)| json!({"id": id, "reason": why}));
        let back = ledger.came_back();
        let back = back.map(|(new, old)| json!({"id": new, "moved": old}));
        let details = json!({
            "plan": plan,
            "refusals": refused.collect::<Value>(),
            "came-back": back.collect::<Value>(),
            "uncertain-ids": ledger.uncertain(),
            "damaged-lines": ledger.damaged(),
        });
        println!("{}", joined(as_json(&outcome, &plan, &ledger), details));
        return Ok(());
    }
    println!("run {}: {outcome}", plan.run);
    if let Some(text) = ledger.ended().and_then(|ended| ended.text.as_ref()) {
        println!("  {}", one_line(text));
    }
    let facts = [
        ("queue", plan.queue.clone()),
        (
            "started",
            format!("{} by {}", plan.started.rfc3339(), plan.who),
        ),
        ("why", plan.why.clone().unwrap_or_default()),
        ("letters", plan.filters.join(" ")),
        ("to", plan.to.iter().map(ToString::to_string).collect()),
        ("steps", plan.ramp.to_string()),
        ("rate", plan.rate.clone().unwrap_or_default()),
        ("files", folder.place()),
    ];
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        println!("  {name}: {}", short(value, 500));
    }
    println!();
    report::counts(&ledger.counts());
    if let Some(ended) = ledger.ended() {
        report::some(ended.missing.unwrap_or(0), "could not be received");
        report::some(ended.later, "arrived after the start");
    }
    let back: Vec<_> = ledger
        .came_back()
        .map(|(new, old)| format!("{} is {} again", one_line(new), one_line(old)))
        .collect();
    ids("failed again", &back);
    let refused: Vec<_> = ledger
        .refused()
        .into_iter()
        .map(|(id, why)| format!("{}: {}", one_line(&id), short(&why, 300)))
        .collect();
    ids("refused", &refused);
    ids("may have arrived twice", &ledger.uncertain());
    report::damaged(ledger.damaged());
    if ledger
        .ended()
        .is_none_or(|it| it.outcome != redrive::Outcome::Done)
        && !plan.native
    {
        println!("\nTo go on: backstop dlq redrive --resume {}", plan.run);
    }
    Ok(())
}

fn ids(what: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    println!("\n{what}:");
    for line in lines.iter().take(MOST_IDS) {
        println!("  {}", one_line(line));
    }
    if let Some(more) = lines.len().checked_sub(MOST_IDS).filter(|it| *it > 0) {
        println!("  and {more} more: --json has all of them");
    }
}

fn as_json(outcome: &str, plan: &Plan, ledger: &Ledger) -> Value {
    let ended = ledger.ended();
    let run = json!({
        "version": 1,
        "run": plan.run,
        "queue": plan.queue,
        "started": plan.started,
        "who": plan.who,
        "why": plan.why,
        "outcome": outcome,
        "reason": ended.and_then(|it| it.text.clone()),
        "ended": ended.map(|it| it.at),
        "missing": ended.and_then(|it| it.missing),
        "later": ended.map(|it| it.later),
        "starts": ledger.starts(),
    });
    joined(run, json!(ledger.counts()))
}
