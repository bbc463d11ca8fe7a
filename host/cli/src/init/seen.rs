//! What the queue says about itself, and what follows from it.

use backstop_core::failure::Milliseconds;
use backstop_queue::{Connections, Description};
use serde::Serialize;

use super::given::Given;
use crate::error::{Context, Exit, Result};

/// The limit on attempts, if the queue allows them.
const ATTEMPTS: u32 = 12;

/// What is enough for a FIFO queue, where a message is received with each failure of one before it.
const FIFO_RECEIVES: u32 = 1000;

/// What was found about a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Seen {
    pub(super) arn: String,
    pub(super) fifo: bool,
    pub(super) visibility_timeout_s: u32,
    pub(super) retention: Milliseconds,
    /// How many receives the redrive policy allows.
    pub(super) max_receive_count: Option<u32>,
    /// The ARN of the dead-letter queue in the redrive policy.
    pub(super) dead_letter_queue: Option<String>,
    /// The limit on attempts that fits it.
    pub(super) max_attempts: u32,
}

impl Seen {
    /// Looks at the queue and, if one is named, at the dead-letter queue.
    pub(super) async fn look(given: &Given, connections: &Connections) -> Result<Self> {
        let queue = described(&given.url, connections).await?;
        if let Some(url) = &given.dead_letter_queue {
            let letters = described(url, connections).await?;
            if letters.fifo != queue.fifo {
                return Err(Exit::Usage.because(format!(
                    "the queue and its dead-letter queue {url} are of different kinds: both have to be FIFO queues, or neither"
                )));
            }
        }
        Ok(Self::of(queue))
    }

    fn of(queue: Description) -> Self {
        let receives = queue.redrive.as_ref().map(|it| it.max_receive_count.get());
        Self {
            fifo: queue.fifo,
            visibility_timeout_s: queue.visibility_timeout.seconds(),
            retention: queue.retention,
            max_receive_count: receives,
            max_attempts: receives.map_or(ATTEMPTS, attempts),
            dead_letter_queue: queue.redrive.map(|it| it.dead_letter_arn),
            arn: queue.arn,
        }
    }

    /// In one line.
    pub(super) fn description(&self) -> String {
        let kind = if self.fifo { "FIFO" } else { "standard" };
        let letters = match (&self.dead_letter_queue, self.max_receive_count) {
            (Some(letters), Some(receives)) => {
                format!("dead letters go to {letters}, at the latest after {receives} receives")
            }
            (Some(_) | None, _) if self.is_local() => "for trying".to_owned(),
            (Some(_) | None, _) => "no redrive policy".to_owned(),
        };
        format!(
            "{}: a {kind} queue, visibility timeout {} s, keeps a message for {}, {letters}",
            self.arn, self.visibility_timeout_s, self.retention,
        )
    }

    /// Whether it is in memory: it has dead letters of its own.
    pub(super) fn is_local(&self) -> bool {
        self.arn.starts_with("local:")
    }

    /// What to change at the queue.
    pub(super) fn advice(&self, given: &Given) -> Vec<String> {
        let mut advice = Vec::new();
        if self.is_local() {
            return advice;
        }
        if self.dead_letter_queue.is_none() && given.dead_letter_queue.is_none() {
            advice.push("the queue has no dead-letter queue, and a host does not start without one: give the queue a redrive policy, or uncomment dead-letter-queue in backstop.toml".to_owned());
        }
        match self.max_receive_count {
            Some(receives) if self.fifo && receives < FIFO_RECEIVES => advice.push(format!(
                "maxReceiveCount is {receives}: on a FIFO queue, messages behind a failing one are received too, so set it to {FIFO_RECEIVES}"
            )),
            Some(receives) if receives <= ATTEMPTS => advice.push(format!(
                "maxReceiveCount is {receives}, and SQS moves a message away after that many receives, without a reason: raise it well above the attempts you want, and max-attempts with it"
            )),
            Some(_) | None => {}
        }
        if self.visibility_timeout_s < 5 {
            advice.push(format!(
                "the visibility timeout is {} s: make it 5 s or longer",
                self.visibility_timeout_s
            ));
        }
        advice
    }
}

/// The limit on attempts of a queue with this `maxReceiveCount`: one receive is left for one without an attempt, if possible.
fn attempts(receives: u32) -> u32 {
    let with_one_left = if receives > 2 { receives - 1 } else { receives };
    with_one_left.min(ATTEMPTS)
}

async fn described(url: &str, connections: &Connections) -> Result<Description> {
    let queue = connections.by_url(url).await;
    let description = queue.describe().await;
    description
        .map_err(|error| Exit::Queue.because(error.to_string()))
        .with_context(|| format!("can't look at the queue {url}"))
}
