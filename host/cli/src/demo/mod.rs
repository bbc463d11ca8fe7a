//! `backstop demo`: consumes a queue in memory while its policy is edited and then replaced by a hostile one.

mod orders;
mod page;
mod timeline;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use backstop_core::decision::Bounds;
use backstop_core::text::chain;
use backstop_decider::Decider;
use backstop_engine::Sandbox;
use backstop_host::consumer::{self, Consumer, Options, Summary};
use backstop_queue::{BATCH_ENTRIES, Connections, Queue};
use backstop_versions::{LivePolicy, PolicySpec, Reload, Source, Watcher};

use crate::error::{CommandError, Context, Exit, Result};
use crate::signals::{STOPPING_CONSUMER, stop_on_signal};
use crate::terminal::println;
use orders::Orders;
use timeline::{TOTAL, Timeline};

/// The policy that the demo starts with. It is hand-written text, so that the edit is one readable line.
const POLICY: &str = include_str!("../../first-policy.wat");

/// The edit replaces the first by the second.
const SLOW: &str = "(i32.const 2000)";
const FAST: &str = "(i32.const 500)";

/// How long to wait until a new version is detected.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Run a demo: a hundred messages on a queue in memory, while the policy is replaced
///
/// A hundred orders fail for different reasons on a queue in memory with the semantics of SQS. A policy decides about each failure. Meanwhile, its file is edited, and then replaced by a hostile policy: the edited version takes over, the hostile one is rejected. Needs no AWS account and no network.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// Print only the final counts, as JSON
    #[arg(long)]
    json: bool,

    /// Play an incident until Ctrl-C, with the page of the host at this address: a provider is down, and then a policy is wrong
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = page::ADDRESS, conflicts_with = "json")]
    page: Option<SocketAddr>,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let stop = stop_on_signal(STOPPING_CONSUMER)?;
    if let Some(address) = args.page {
        return page::run(address, stop).await;
    }
    let folder = tempfile::tempdir().context("can't create a folder for the demo's policy")?;
    let file = folder.path().join("orders.wat");
    std::fs::write(&file, POLICY)?;
    let connections = Connections::default();
    let queue = connections.local.named("orders");
    let dead_letters = connections.local.named("orders-dead-letters");

    let timeline = Arc::new(Timeline::start(!args.json));
    let orders = Arc::new(Orders::new(Arc::clone(&timeline)));
    let sandbox = Sandbox::new(backstop_engine::Limits::default())?;
    let policy = LivePolicy::load(&sandbox, PolicySpec::from(Source::path(file.clone())))?;
    let (sender, mut reloads) = mpsc::unbounded_channel();
    let _watcher = Watcher::start(vec![Arc::clone(&policy)], move |_, reload| {
        let _ = sender.send(reload);
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
        None::<&str>,
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
    timeline.policy("is active", &policy.current().title());
    let done = CancellationToken::new();
    let ticking = tokio::spawn(Arc::clone(&timeline).tick(consumer.stats(), done.clone()));
    let running = tokio::spawn(consumer.run(done.clone()));

    let script = async {
        edit(&file, &timeline, &mut reloads).await?;
        attack(&file, &timeline, &mut reloads).await?;
        queue.emptied().await;
        Ok::<_, CommandError>(())
    };
    let scripted = tokio::select! {
        result = script => result,
        () = stop.cancelled() => Ok(()),
    };
    done.cancel();
    ticking.await?;
    let summary = running.await?;
    scripted?;

    let (left, dead) = (queue.len(), dead_letters.len());
    if args.json {
        println!("{}", report(&summary, left, dead));
    } else {
        timeline.summary(&summary, &orders.versions(), left, dead);
    }
    let done = summary.succeeded;
    if u64::try_from(left + dead).unwrap_or(u64::MAX) + done != u64::from(TOTAL) {
        return Err(Exit::Unexpected.because(format!(
            "messages were lost: {TOTAL} sent, {done} done, {dead} dead-lettered, {left} left"
        )));
    }
    Ok(())
}

/// Edits a number in the policy's file, as a person would.
async fn edit(
    file: &Path,
    timeline: &Timeline,
    reloads: &mut mpsc::UnboundedReceiver<Reload>,
) -> Result<()> {
    timeline.until(Duration::from_millis(2_500)).await;
    timeline.note("the policy's file is edited while messages flow:");
    timeline.diff(SLOW, FAST);
    save(file, &POLICY.replace(SLOW, FAST))?;
    let reload = next(reloads).await?;
    let Reload::Swapped { to, .. } = &reload else {
        return Err(unexpected(&reload));
    };
    timeline.policy("is active from now on", to);
    Ok(())
}

/// Replaces the policy by one that loops forever.
async fn attack(
    file: &Path,
    timeline: &Timeline,
    reloads: &mut mpsc::UnboundedReceiver<Reload>,
) -> Result<()> {
    timeline.until(Duration::from_millis(4_500)).await;
    timeline.note("the file is replaced by a hostile policy, an endless loop:");
    timeline.diff(
        &format!("(i32.mul (local.get $attempt) {SLOW})"),
        "(loop $for_ever (br $for_ever)) (unreachable)",
    );
    save(file, &hostile())?;
    let reload = next(reloads).await?;
    let Reload::Refused { kept, cause } = &reload else {
        return Err(unexpected(&reload));
    };
    // The policy's name is in the line already.
    let reason = std::error::Error::source(cause).map_or_else(|| chain(cause), chain);
    timeline.rejected(&reason);
    timeline.policy("stays active", kept);
    Ok(())
}

fn hostile() -> String {
    let rule = POLICY.rfind("(i32.mul").unwrap_or(POLICY.len());
    format!(
        "{}(loop $for_ever (br $for_ever)) (unreachable)))\n",
        POLICY.get(..rule).unwrap_or_default()
    )
}

/// Saves as editors do: with a rename, so that an incomplete file is never visible.
fn save(file: &Path, text: &str) -> std::io::Result<()> {
    let complete = file.with_extension("new");
    std::fs::write(&complete, text)?;
    std::fs::rename(complete, file)
}

fn unexpected(reload: &Reload) -> CommandError {
    Exit::Unexpected.because(format!("unexpected reload of the policy: {reload:?}"))
}

async fn next(reloads: &mut mpsc::UnboundedReceiver<Reload>) -> Result<Reload> {
    let reload = timeout(RELOAD_TIMEOUT, reloads.recv()).await.ok().flatten();
    reload.ok_or_else(|| Exit::Unexpected.because("the new version of the policy was not detected"))
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
