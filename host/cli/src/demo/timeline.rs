//! The demo's output: one line for each event of a followed order or of the policy, and a bar for all orders.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, interval, sleep_until};
use tokio_util::sync::CancellationToken;

use backstop_core::decision::Action;
use backstop_core::text::one_line;
use backstop_host::consumer::{Stats, Summary};
use backstop_records::DecisionRecord;

use crate::terminal::println;
use crate::terminal::style::{CYAN, DIM, GREEN, RED, YELLOW};

/// The number of orders.
pub(super) const TOTAL: u32 = 100;

/// The width of the bar, in characters. Each line fits into 80 columns.
const BAR: u64 = 20;

/// Prints events with the time since the start, or prints nothing.
#[derive(Debug)]
pub(super) struct Timeline {
    started: Instant,
    shown: bool,
}

impl Timeline {
    pub(super) fn start(shown: bool) -> Self {
        Self {
            started: Instant::now(),
            shown,
        }
    }

    /// Waits until this long after the start.
    pub(super) async fn until(&self, since_start: Duration) {
        sleep_until(self.started + since_start).await;
    }

    fn line(&self, who: impl Display, what: impl Display) {
        if self.shown {
            println!(
                "{DIM}{:5.1}s{DIM:#}  {who:<10}  {what}",
                self.started.elapsed().as_secs_f64()
            );
        }
    }

    pub(super) fn title(&self, policy: &Path) {
        if self.shown {
            println!(
                "A hundred orders on a queue in memory with the semantics of SQS: 45 succeed, 20\nhit a flaky network, 20 are throttled, 10 are invalid, 5 meet an outage. The\ntimeline shows four of them, one of each kind. This policy decides, in at most\nfour attempts of each order:"
            );
            println!("{DIM}{}{DIM:#}\n", policy.display());
        }
    }

    pub(super) fn note(&self, text: &str) {
        self.line("policy", format!("{CYAN}{text}{CYAN:#}"));
    }

    pub(super) fn policy(&self, does: &str, title: &str) {
        let name = title.rsplit('/').next().unwrap_or(title);
        self.line("policy", format!("{CYAN}{name} {does}{CYAN:#}"));
    }

    pub(super) fn diff(&self, old: &str, new: &str) {
        if self.shown {
            println!("{:19}  {RED}- {old}{RED:#}", "");
            println!("{:19}  {GREEN}+ {new}{GREEN:#}", "");
        }
    }

    /// Without the failure that the policy was evaluated for.
    pub(super) fn rejected(&self, reason: &str) {
        let cause = reason.split(',').next().unwrap_or(reason);
        self.line(
            "policy",
            format!("{RED}rejected: {}{RED:#}", one_line(cause)),
        );
    }

    pub(super) fn succeeded(&self, order: u32, attempt: u32) {
        self.line(
            format!("order {order:02}"),
            format!("attempt {attempt}  {GREEN}done{GREEN:#}"),
        );
    }

    pub(super) fn decided(&self, order: u32, record: &DecisionRecord) {
        let failure = &record.failure;
        let outcome = match &record.decision.action {
            Action::Retry { delay } => format!("{YELLOW}retry in {delay}{YELLOW:#}"),
            Action::DeadLetter { .. } => format!("{RED}dead-lettered{RED:#}"),
            Action::Discard { .. } => format!("{RED}discarded{RED:#}"),
        };
        let what = format!(
            "attempt {}  {:<20} {:<10} {outcome}",
            failure.attempt,
            one_line(&failure.error.code),
            one_line(&record.decision.class.to_string())
        );
        self.line(format!("order {order:02}"), what);
    }

    /// Draws the bar every second until `done`.
    pub(super) async fn tick(self: Arc<Self>, stats: Arc<Stats>, done: CancellationToken) {
        let mut every = interval(Duration::from_millis(1_000));
        every.tick().await;
        loop {
            tokio::select! {
                _ = every.tick() => self.bar(stats.succeeded.get(), stats.dead_lettered.get()),
                () = done.cancelled() => return,
            }
        }
    }

    fn bar(&self, done: u64, dead: u64) {
        let cells = |count: u64| usize::try_from(count * BAR / u64::from(TOTAL)).unwrap_or(0);
        let pending = u64::from(TOTAL).saturating_sub(done + dead);
        let rest = cells(u64::from(TOTAL)).saturating_sub(cells(done) + cells(dead));
        let bar = format!(
            "{GREEN}{}{GREEN:#}{RED}{}{RED:#}{DIM}{}{DIM:#}",
            "█".repeat(cells(done)),
            "█".repeat(cells(dead)),
            "░".repeat(rest)
        );
        self.line(
            "all",
            format!("{bar} {done} done, {dead} dead-lettered, {pending} pending"),
        );
    }

    pub(super) fn summary(
        &self,
        summary: &Summary,
        versions: &BTreeMap<String, u32>,
        left: usize,
        dead: usize,
    ) {
        if !self.shown {
            return;
        }
        let versions: Vec<_> = versions
            .iter()
            .map(|(version, decisions)| format!("{decisions} by {version}"))
            .collect();
        println!("\n  sent           {TOTAL:>4}");
        println!("  {GREEN}done           {:>4}{GREEN:#}", summary.succeeded);
        println!("  {RED}dead-lettered  {dead:>4}{RED:#}  each with its reason, class and attempt");
        println!("  left           {left:>4}");
        println!(
            "  decisions      {:>4}  {}",
            summary.retried + summary.dead_lettered,
            versions.join(", ")
        );
        println!(
            "  requests       {:>4.2}  per message; without batches it would be {:.2}",
            summary.requests_per_message,
            without_batches(summary)
        );
        println!(
            "\n{GREEN}Nothing was lost.{GREEN:#} The same policy works on SQS: see backstop run --help"
        );
    }
}

/// The requests per message that the same work costs without batches: one to receive each message, one for its outcome, and two for a dead letter.
fn without_batches(summary: &Summary) -> f64 {
    let requests =
        summary.received + summary.succeeded + summary.retried + 2 * summary.dead_lettered;
    let messages = summary.succeeded + summary.dead_lettered;
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let ratio = if messages == 0 {
        0.0
    } else {
        requests as f64 / messages as f64
    };
    ratio
}
