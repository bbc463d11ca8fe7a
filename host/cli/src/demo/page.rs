//! `backstop demo --page`: an incident to look at in a browser, and to end there.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_host::Backstop;
use backstop_host::service::Service;
use backstop_queue::{Connections, LocalQueue, Outgoing, Queue};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{POLICY, SLOW, save};
use crate::dlq::OwnRuns;
use crate::error::{Context, Result};
use crate::terminal::println;
use crate::terminal::style::{BOLD, CYAN, RED, YELLOW};
use crate::tools::OwnTools;

/// Where the page is, unless another address is given.
pub(super) const ADDRESS: &str = "127.0.0.1:9465";

/// The mistake of the version that follows: an hour in place of two seconds.
const WRONG: &str = "(i32.const 3600000)";

/// After so many attempts, an order is dead: within the outage.
const ATTEMPTS: u32 = 4;

/// How often orders come, and how many at a time.
const PACE: Duration = Duration::from_millis(250);
const AT_A_TIME: u32 = 5;

/// The payment provider, which may be down.
#[derive(Debug, Default)]
struct Provider {
    is_down: AtomicBool,
}

impl Provider {
    /// One order in forty fails by itself, and nine of ten while the provider is down.
    fn charge(&self, order: u32) -> Result<(), Error> {
        if order % 40 == 7 {
            return Err(Error::new("ECONNRESET", "socket hang up"));
        }
        if self.is_down.load(Relaxed) && order % 10 != 3 {
            return Err(Error::new("HTTP 503", "the payment provider is unavailable").status(503));
        }
        Ok(())
    }
}

pub(super) async fn run(address: SocketAddr, stop: CancellationToken) -> Result<()> {
    let folder = tempfile::tempdir().context("can't create a folder for the demo's policy")?;
    let file = folder.path().join("orders.wat");
    std::fs::write(&file, POLICY)?;
    let connections = Connections::default();
    let orders = connections.local.named("orders");
    let provider = Arc::new(Provider::default());
    let charging = Arc::clone(&provider);
    let host = Backstop::queue("local:orders")
        .policy(file.display().to_string())
        .cache(folder.path().join("cache"))
        .dead_letter_queue("local:orders-dead-letters")
        .max_attempts(ATTEMPTS)
        .decisions(folder.path().join("decisions.jsonl"))
        .idle_poll(Duration::from_secs(1))
        .admin(address.to_string())
        .handler(move |message| {
            let charging = Arc::clone(&charging);
            async move {
                sleep(Duration::from_millis(20)).await;
                charging.charge(message.body.trim().parse().unwrap_or_default())
            }
        });
    let config = host.into_config()?;
    let runs = OwnRuns::in_folder(&folder.path().join("redrives"));
    let tools = OwnTools::of(config.decisions.as_ref(), runs.clone());
    let service = Service::prepare(config, &connections).await?;
    service.lend(Arc::new(tools));
    service.keep_runs(Arc::new(runs));
    println!("{BOLD}An incident to look at: http://{address}/{BOLD:#}  (Ctrl-C ends it)\n");
    let told = tokio::spawn(story(file, provider, stop.clone()));
    let sending = tokio::spawn(send(orders, stop.clone()));
    service.run(stop).await;
    sending.await??;
    told.await?
}

/// Orders come until the end.
async fn send(queue: Arc<LocalQueue>, stop: CancellationToken) -> Result<()> {
    let mut ticks = interval(PACE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut order = 0;
    while !stop.is_cancelled() {
        ticks.tick().await;
        let batch: Vec<_> = (order..order + AT_A_TIME)
            .map(|order| Outgoing::new(order.to_string()))
            .collect();
        order = order.wrapping_add(AT_A_TIME);
        queue.send(&batch).await?;
    }
    Ok(())
}

/// What happens, and what to do about it.
async fn story(file: PathBuf, provider: Arc<Provider>, stop: CancellationToken) -> Result<()> {
    // Whether the demo goes on after this time.
    let after = async |seconds: u64| {
        let ended = timeout(Duration::from_secs(seconds), stop.cancelled());
        ended.await.is_err()
    };
    println!(
        "Twenty orders come in a second, and one in forty fails: {CYAN}Overview{CYAN:#} shows them."
    );
    if !after(20).await {
        return Ok(());
    }
    println!(
        "{RED}The payment provider is down.{RED:#} Nine of ten orders fail with HTTP 503, wait, and die after 4 attempts: look at {CYAN}Waiting{CYAN:#}."
    );
    provider.is_down.store(true, Relaxed);
    if !after(30).await {
        return Ok(());
    }
    println!(
        "{YELLOW}Somebody wants to help, and saves a policy{YELLOW:#} that waits an hour in place of two seconds: {CYAN}Policies{CYAN:#} shows the swap."
    );
    save(&file, &POLICY.replace(SLOW, WRONG))?;
    if !after(20).await {
        return Ok(());
    }
    println!(
        "The provider is back, but what failed meanwhile waits for hours or is dead. Sign in with any name, then"
    );
    println!("  1. {CYAN}Policies{CYAN:#}: roll back to the version before.");
    println!(
        "  2. {CYAN}Waiting{CYAN:#}: choose the queue and the code HTTP 503, and preview a wake."
    );
    println!(
        "  3. {CYAN}Dead letters{CYAN:#}: survey the queue, choose what died of HTTP 503, and move it back."
    );
    println!("  4. {CYAN}Overview{CYAN:#}: the charts show it all, and nothing was lost.");
    provider.is_down.store(false, Relaxed);
    Ok(())
}
