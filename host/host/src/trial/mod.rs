//! A host in virtual time, for tests of workers: its queues are in memory, and time jumps to what is due next once nothing works.
//!
//! The clock of a host that [runs](Backstop::run) never jumps: tokio lets only a runtime jump that was built with a paused clock and has a single thread. [`Backstop::try_out`] builds one for itself, and nothing else does.

mod journal;
mod setting;
mod virtual_time;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::builder::Backstop;
use crate::config::Config;
use crate::queue::{
    BATCH_ENTRIES, Connections, LocalQueue, LocalQueues, LocalSettings, Message, Outgoing, Queue,
    VisibilityTimeout,
};
use crate::record::Observer;
use crate::run::{RunError, Summaries, send};
use crate::service::Service;
use backstop_core::failure::Timestamp;
use journal::Journal;
pub use journal::{Ended, TriedAttempt};
pub use virtual_time::VirtualTime;

/// How a host is tried out.
#[derive(Debug, Clone)]
pub struct Trial {
    /// What the ids of messages derive from, and with them the randomness of policies.
    pub seed: u64,
    /// The virtual time after which the trial ends, whatever is left.
    pub longest: Duration,
    /// The messages, in the order in which they are sent.
    pub messages: Vec<TrialMessage>,
    /// The time, which handlers may sleep in.
    pub time: VirtualTime,
}

/// A message of a trial.
#[derive(Debug, Clone)]
pub struct TrialMessage {
    /// The queue's name in the configuration.
    pub queue: String,
    /// When it is sent, from the beginning.
    pub after: Duration,
    /// What is sent. On a FIFO queue, one without a group is in the same group as all others without.
    pub message: Outgoing,
}

/// What has happened in a trial.
#[derive(Debug, Clone)]
pub struct Tried {
    /// The counts of each queue.
    pub summaries: Summaries,
    /// How much virtual time has passed until all queues were empty.
    pub elapsed: Duration,
    /// The attempts of all messages, in the order in which they began.
    pub attempts: Vec<TriedAttempt>,
    /// What is in the dead-letter queues, with their names.
    pub letters: Vec<(String, Message)>,
    /// How many messages are left in the queues.
    pub left: usize,
}

/// Why a host can't be tried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It would not run either.
    #[error(transparent)]
    Run(#[from] RunError),
    /// There is no runtime for it.
    #[error("can't start a runtime")]
    Runtime(#[source] io::Error),
    /// Another program handles the messages, and its time does not jump.
    #[error(
        "queue `{0}`: expected a function as its handler: the time of other programs does not jump"
    )]
    Handler(String),
    /// A message is for a queue that the host does not have.
    #[error("messages: there is no queue `{0}`")]
    Queue(String),
}

impl Backstop {
    /// Runs the host in virtual time until its queues are empty, `stop` is cancelled or the trial's time is over. Blocks.
    ///
    /// Its queues are in memory, whatever their URLs: each begins with the trial's messages, and has a dead-letter queue. Time stands still while a handler works, which is therefore done outside of the host's runtime, and jumps on when all wait. What reaches out is left out: metrics, the admin interface, decision records, traces, the cache, the table of idempotency, and maintenance windows.
    #[doc(hidden)]
    pub fn try_out(self, trial: Trial, stop: CancellationToken) -> Result<Tried, TrialError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .map_err(TrialError::Runtime)?;
        let time = trial.time.clone();
        let tried = runtime.block_on(async {
            time.begin();
            let freed = time.clone();
            let stopped = stop.clone();
            // A handler that hangs must not hold the time still for ever.
            tokio::spawn(async move {
                stopped.cancelled().await;
                freed.free();
            });
            tried(self, trial, stop).await
        });
        time.free();
        runtime.shutdown_background();
        tried
    }
}

async fn tried(
    mut backstop: Backstop,
    trial: Trial,
    stop: CancellationToken,
) -> Result<Tried, TrialError> {
    let begin = Instant::now();
    let journal = Arc::new(Journal::new(begin, trial.time));
    backstop.messages.clear();
    let config = backstop.into_config().map_err(RunError::from)?;
    let config = setting::in_memory(config, &journal)?;
    let mut connections = Connections::new(config.endpoint_url.clone());
    connections.local = LocalQueues::with(LocalSettings {
        seed: Some(trial.seed),
        begin: Some(Timestamp::OF_TESTS),
        ..LocalSettings::default()
    });
    let queues = Queues::of(&config, &connections);
    let (first, later) = trial
        .messages
        .into_iter()
        .enumerate()
        .partition(|(_, it)| it.after.is_zero());
    queues.send_all(first, begin).await?;
    let observer = Arc::clone(&journal) as Arc<dyn Observer>;
    let service = Service::prepare_observed(config, &connections, Some(observer))
        .await
        .map_err(RunError::from)?;
    let ended = stop.child_token();
    let ending = async {
        let emptied = async {
            queues.send_all(later, begin).await?;
            queues.emptied().await;
            Ok(())
        };
        let result: Result<(), TrialError> = tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            emptied = emptied => emptied,
            () = sleep(trial.longest) => Ok(()),
        };
        let elapsed = begin.elapsed();
        ended.cancel();
        result.map(|()| elapsed)
    };
    let (elapsed, summaries) = tokio::join!(ending, service.run(ended.clone()));
    Ok(Tried {
        summaries: Summaries(summaries),
        elapsed: elapsed?,
        left: queues.left(),
        letters: queues.letters(&connections).await?,
        attempts: journal.attempts(),
    })
}

/// The queues that are served, by their names in the configuration.
struct Queues(Vec<(String, Arc<LocalQueue>)>);

impl Queues {
    fn of(config: &Config, connections: &Connections) -> Self {
        let queues = config.queues.iter().map(|queue| {
            let name = queue.url.strip_prefix("local:").unwrap_or(&queue.url);
            (queue.name.clone(), connections.local.named(name))
        });
        Self(queues.collect())
    }

    /// Sends messages, each when its time has come. The number of each is unique.
    async fn send_all(
        &self,
        mut messages: Vec<(usize, TrialMessage)>,
        begin: Instant,
    ) -> Result<(), TrialError> {
        messages.sort_by_key(|(_, it)| it.after);
        for (number, it) in messages {
            let found = self.0.iter().find(|(name, _)| *name == it.queue);
            let Some((name, queue)) = found else {
                return Err(TrialError::Queue(it.queue));
            };
            sleep_until(begin + it.after).await;
            let mut message = it.message;
            if queue.url().ends_with(".fifo") {
                let unique = || format!("trial-{number}");
                message.group.get_or_insert_with(|| "trial".to_owned());
                message.deduplication_id.get_or_insert_with(unique);
            }
            send(name, queue, &[message]).await?;
        }
        Ok(())
    }

    async fn emptied(&self) {
        for (_, queue) in &self.0 {
            queue.emptied().await;
        }
    }

    fn left(&self) -> usize {
        self.0.iter().map(|(_, queue)| queue.len()).sum()
    }

    /// Takes all messages out of the other queues, which are their dead-letter queues.
    async fn letters(&self, connections: &Connections) -> Result<Vec<(String, Message)>, RunError> {
        let mut letters = Vec::new();
        for (name, queue) in connections.local.all() {
            if self.0.iter().any(|(_, served)| Arc::ptr_eq(served, &queue)) {
                continue;
            }
            loop {
                let received = queue
                    .receive(BATCH_ENTRIES, Duration::ZERO, VisibilityTimeout::MAX)
                    .await;
                let received = received.map_err(|cause| RunError::Fill {
                    queue: name.clone(),
                    cause,
                })?;
                if received.is_empty() {
                    break;
                }
                letters.extend(received.into_iter().map(|letter| (name.clone(), letter)));
            }
        }
        Ok(letters)
    }
}
