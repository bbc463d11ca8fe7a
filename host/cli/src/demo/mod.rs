//! `backstop demo`: the main job on a queue in memory, with the policy edited, swapped and attacked on the way.

mod orders;
mod timeline;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::signals::stop_on_signal;
use crate::output::println;
use backstop::consumer::{self, Consumer, Options, Summary};
use backstop::decider::Decider;
use backstop::policy::{LivePolicy, PolicySpec, Reload, Sandbox, Source, Watcher};
use backstop::queue::{BATCH_ENTRIES, Connections, Queue};
use backstop_core::decision::Bounds;
use orders::{Orders, TOTAL};
use timeline::Timeline;

/// The policy that the demo starts with: written by hand, so that an edit is a line that everybody can read.
const POLICY: &str = include_str!("../../first-policy.wat");

/// What the edit replaces, and by what.
const SLOW: &str = "(i32.const 2000)";
const FAST: &str = "(i32.const 500)";

/// How long a new version may take to be noticed before the demo gives up.
const NOTICE: Duration = Duration::from_secs(10);

/// Show it at work: a hundred messages on a queue in memory, a policy swapped on the way
///
/// A hundred orders fail for different reasons on a queue in this process's memory, with SQS's semantics. A policy decides what becomes of each. On the way its file is edited, then replaced by a hostile one: watch the first take over and the second be refused. Needs no account and no network.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print nothing but the counts at the end, as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> anyhow::Result<()> {
    let stop = stop_on_signal()?;
    let folder = tempfile::tempdir().context("can't make a folder for the demo's policy")?;
    let file = folder.path().join("orders.wat");
    std::fs::write(&file, POLICY)?;
    let connections = Connections::default();
    let queue = connections.local.named("orders");
    let dead_letters = connections.local.named("orders-dead-letters");

    let timeline = Arc::new(Timeline::start(!args.json));
    let orders = Arc::new(Orders::new(Arc::clone(&timeline)));
    let sandbox = Sandbox::new(backstop::policy::Limits::default())?;
    let policy = LivePolicy::load(&sandbox, PolicySpec::from(Source::path(file.clone())))?;
    let (told, mut reloads) = mpsc::unbounded_channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = told.send(reload);
    })?;
    let bounds = Bounds {
        max_attempts: std::num::NonZeroU32::new(4),
        ..Bounds::default()
    };
    let decider = Decider::new("orders", Arc::clone(&policy), bounds)
        .observed_by(Arc::clone(&orders) as Arc<_>);
    let (ready, _) = consumer::check(
        &connections,
        queue.url(),
        None,
        orders.handler().as_ref(),
        &decider,
        &bounds,
        &Options::default(),
    )
    .await?;
    let consumer = Consumer::new(
        "orders",
        ready,
        orders.handler(),
        decider,
        Options::default(),
    );

    timeline.title(&file);
    for batch in orders.messages().chunks(BATCH_ENTRIES) {
        queue.send(batch).await?;
    }
    timeline.policy("decides", &policy.current().title());
    let done = CancellationToken::new();
    let ticking = tokio::spawn(Arc::clone(&timeline).tick(orders.stats(&consumer), done.clone()));
    let running = tokio::spawn(consumer.run(done.clone()));

    let script = async {
        edit(&file, &timeline, &mut reloads).await?;
        attack(&file, &timeline, &mut reloads).await?;
        queue.emptied().await;
        anyhow::Ok(())
    };
    let told = tokio::select! {
        told = script => told,
        () = stop.cancelled() => Ok(()),
    };
    done.cancel();
    ticking.await?;
    let summary = running.await?;
    told?;

    let (left, dead) = (queue.len(), dead_letters.len());
    if args.json {
        println!("{}", report(&summary, left, dead));
    } else {
        timeline.summary(&summary, &orders.versions(), left, dead);
    }
    ensure!(
        u64::try_from(left + dead).unwrap_or(u64::MAX) + summary.succeeded == u64::from(TOTAL),
        "messages were lost: {TOTAL} sent, {} done, {dead} dead-lettered, {left} still there",
        summary.succeeded,
    );
    Ok(())
}

/// A person changes a number in the policy's file and saves it.
async fn edit(
    file: &Path,
    timeline: &Timeline,
    reloads: &mut mpsc::UnboundedReceiver<Reload>,
) -> anyhow::Result<()> {
    timeline.until(Duration::from_millis(2_500)).await;
    timeline.note("the policy's file is edited while messages flow:");
    timeline.diff(SLOW, FAST);
    save(file, &POLICY.replace(SLOW, FAST))?;
    match next(reloads).await? {
        Reload::Swapped { to, .. } => timeline.policy("decides from now on", &to),
        reload @ (Reload::Refused { .. }
        | Reload::Unchanged
        | Reload::SourceUnreachable { .. }
        | Reload::SourceRecovered { .. }) => {
            anyhow::bail!("the edited policy was not taken: {reload:?}")
        }
    }
    Ok(())
}

/// Somebody replaces the policy by one that never ends.
async fn attack(
    file: &Path,
    timeline: &Timeline,
    reloads: &mut mpsc::UnboundedReceiver<Reload>,
) -> anyhow::Result<()> {
    timeline.until(Duration::from_millis(4_500)).await;
    timeline.note("the file is replaced by a hostile policy, an endless loop:");
    timeline.diff(
        &format!("(i32.mul (local.get $attempt) {SLOW})"),
        "(loop $for_ever (br $for_ever)) (unreachable)",
    );
    save(file, &hostile())?;
    match next(reloads).await? {
        Reload::Refused { kept, cause } => {
            timeline.refused(&format!("{:#}", anyhow::Error::from(cause)));
            timeline.policy("stays", &kept);
        }
        reload @ (Reload::Swapped { .. }
        | Reload::Unchanged
        | Reload::SourceUnreachable { .. }
        | Reload::SourceRecovered { .. }) => {
            anyhow::bail!("the hostile policy was not refused: {reload:?}")
        }
    }
    Ok(())
}

fn hostile() -> String {
    let rule = POLICY.rfind("(i32.mul").unwrap_or(POLICY.len());
    format!(
        "{}(loop $for_ever (br $for_ever)) (unreachable)))\n",
        POLICY.get(..rule).unwrap_or_default()
    )
}

/// As editors save: another file in place of the first, so that no half of it is ever seen.
fn save(file: &Path, text: &str) -> std::io::Result<()> {
    let whole = file.with_extension("new");
    std::fs::write(&whole, text)?;
    std::fs::rename(whole, file)
}

async fn next(reloads: &mut mpsc::UnboundedReceiver<Reload>) -> anyhow::Result<Reload> {
    timeout(NOTICE, reloads.recv())
        .await
        .ok()
        .flatten()
        .context("the new version of the policy was not noticed")
}

fn report(summary: &Summary, left: usize, dead: usize) -> serde_json::Value {
    json!({
        "sent": TOTAL,
        "done": summary.succeeded,
        "dead-letters": dead,
        "still-there": left,
        "counts": summary,
    })
}
