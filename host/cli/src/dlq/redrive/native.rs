//! SQS's own redrive, with a run of its own in the log.

use std::sync::Arc;

use backstop_core::text::one_line;
use backstop_dead_letters::redrive::{
    MOST_PER_SECOND, Outcome, Plan, RunFolder, To, Wanted, run_native,
};
use backstop_queue::{Connections, Sqs};

use super::{Args, report, state};
use crate::error::{Exit, Result};
use crate::signals::stop_on_signal;
use crate::terminal::{Progress, count, eprintln};

const STOPPING: &str = "stopping: SQS's task is cancelled; what it has moved stays moved";

pub(super) async fn run(
    args: &Args,
    plan: &Plan,
    connections: &Arc<Connections>,
    folder: &RunFolder,
) -> Result<()> {
    let queue = Sqs::new(connections.sdk().await).queue(&plan.queue);
    let destination = match &plan.to {
        None => None,
        Some(To::Function(_)) => {
            return Err(Exit::Usage.because("--native moves letters to queues only"));
        }
        Some(To::Queue(arn)) if arn.starts_with("arn:") => Some(arn.clone()),
        Some(To::Queue(url)) => Some(connections.by_url(url).await.describe().await?.arn),
    };
    let per_second = match args.rate {
        None => None,
        Some(rate) => {
            let seconds = rate.interval().as_secs_f64();
            let number = (1.0 / seconds.max(f64::MIN_POSITIVE)).round();
            if !(1.0..=f64::from(MOST_PER_SECOND)).contains(&number) {
                return Err(Exit::Usage.because(format!(
                    "--native allows a --rate from 1/s to {MOST_PER_SECOND}/s"
                )));
            }
            #[expect(clippy::cast_possible_truncation, reason = "from 1 to 500")]
            Some(number as i32)
        }
    };
    let stop = stop_on_signal(STOPPING)?;
    eprintln!("run {}: {}", plan.run, one_line(&plan.queue));
    let progress = Progress::text(None, 0);
    let each = |moved: u64, about: Option<u64>| {
        let about = about.map(|it| format!(" of about {}", count(it)));
        let about = about.unwrap_or_default();
        progress.say(format!("SQS has moved about {}{about}", count(moved)));
    };
    let who = args.who.clone().unwrap_or_else(state::user);
    let destination = destination.as_deref();
    let wanted = Wanted {
        queue: Arc::new(queue.clone()),
        run: plan.run.clone(),
        who: who.clone(),
        despite: args.despite.clone(),
        is_shared: folder.is_shared(),
    };
    let lock = wanted.take(&stop).await?;
    let ended = run_native(&queue, destination, per_second, folder, &who, &stop, each).await;
    // After an error, SQS may still move letters.
    lock.release(ended.is_err()).await;
    drop(progress);
    let summary = ended?;
    report::summary(plan, &summary, args.json);
    match summary.ended.outcome {
        Outcome::Done => Ok(()),
        Outcome::Stopped | Outcome::Interrupted | Outcome::Failed => Err(Exit::Undelivered
            .because(format!(
                "SQS has not moved everything: {}",
                summary
                    .ended
                    .text
                    .as_deref()
                    .unwrap_or("the task was cancelled")
            ))),
    }
}
