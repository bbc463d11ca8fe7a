//! A retry queue in memory with a mapping, and simulated functions: a test cannot move Lambda's clock. The handler between them is the real one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::decision::{Bounds, LONGEST_DELAY};
use backstop_core::failure::{Error, Timestamp};
use backstop_decider::Decider;
use backstop_decider::shadow::{self, Shadow};
use backstop_engine::{Limits, Sandbox};
use backstop_functions::Functions;
use backstop_host::config::{DeadLetterQueues, UNHINDERED_ATTEMPTS};
use backstop_host::lambda::{Allowed, RetryHandler, RetryHandlerOptions};
use backstop_queue::{
    Connections, LocalQueue, LocalSettings, Message, Outgoing, Queue, VisibilityTimeout,
};
use backstop_settle::hold::HoldMode;
use backstop_versions::{LivePolicy, PartSpec, PolicySpec, Source};
use serde_json::Value;
use tokio::time::Instant;

use crate::retries::{event, record};

/// The function that fails, as it was invoked.
pub const FUNCTION: &str = "arn:aws:lambda:eu-west-1:123456789012:function:orders:live";

/// One invocation.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// When.
    pub at: Timestamp,
    /// The function's ARN.
    pub function: String,
    /// The event in its envelope.
    pub event: Value,
}

impl Invocation {
    /// Which attempt it is.
    pub fn attempt(&self) -> u64 {
        self.event["_retry_metadata"]["attempt"].as_u64().unwrap()
    }
}

/// The result of an invocation: success, or an error of this type.
pub type Outcome = dyn Fn(&Invocation) -> Result<(), &'static str> + Send + Sync;
type Refusal = dyn Fn(usize) -> Result<(), Error> + Send + Sync;

/// Functions that behave as the test defines; failures are written to the retry queue as Lambda does.
pub struct Simulated {
    queue: Arc<LocalQueue>,
    outcome: Box<Outcome>,
    refusal: Box<Refusal>,
    detects_recursion: bool,
    reports_failures: Result<Option<bool>, Error>,
    invocations: Mutex<Vec<Invocation>>,
    tries: Mutex<usize>,
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Simulated")
    }
}

#[async_trait]
impl Functions for Simulated {
    async fn invoke(&self, function: &str, event: String) -> Result<(), Error> {
        let tried = {
            let mut tries = self.tries.lock().unwrap();
            *tries += 1;
            *tries
        };
        (self.refusal)(tried)?;
        let invocation = Invocation {
            at: self.queue.now(),
            function: function.to_owned(),
            event: serde_json::from_str(&event).unwrap(),
        };
        self.invocations.lock().unwrap().push(invocation.clone());
        if let Err(code) = (self.outcome)(&invocation) {
            let request = format!("r-{tried}");
            let body = record(
                function,
                &request,
                self.queue.now(),
                &invocation.event,
                code,
            );
            self.queue.send(&[Outgoing::new(body)]).await.unwrap();
        }
        Ok(())
    }

    async fn reports_failures(&self, _: &str, _: &str) -> Result<Option<bool>, Error> {
        self.reports_failures.clone()
    }

    async fn detects_recursion(&self, _: &str) -> Result<bool, Error> {
        Ok(self.detects_recursion)
    }
}

/// A world with one retry queue.
#[derive(Debug)]
pub struct World {
    /// The retry queue.
    pub queue: Arc<LocalQueue>,
    /// Its dead-letter queue.
    pub dead_letters: Arc<LocalQueue>,
    /// The functions.
    pub functions: Arc<Simulated>,
    /// The local queues.
    pub connections: Arc<Connections>,
    /// The handler.
    pub handler: Arc<RetryHandler>,
    /// The policy that decides.
    pub policy: Arc<LivePolicy>,
    /// The shadow policy.
    pub shadow: Option<Arc<Shadow>>,
}

/// The settings of a world.
pub struct Plan {
    /// The policy's name or path.
    pub policy: &'static str,
    /// Its settings.
    pub settings: Vec<(&'static str, &'static str)>,
    /// The settings of a shadow of the same policy, if there is to be one.
    pub shadow: Option<Vec<(&'static str, &'static str)>>,
    /// The bounds on its decisions.
    pub bounds: Bounds,
    /// The retry queue's retention.
    pub retention: Duration,
    /// How messages are held.
    pub hold: HoldMode,
    /// The bytes that the retry queue's messages may take.
    pub max_bytes: usize,
    /// The dead-letter queues, if not that of the redrive policy.
    pub dead_letter_queues: DeadLetterQueues,
    /// The functions that may be invoked; any where there are none.
    pub functions: Vec<String>,
    /// Whether recursion detection is on.
    pub detects_recursion: bool,
    /// Whether the mapping has `ReportBatchItemFailures`, as far as the handler may know.
    pub reports_failures: Result<Option<bool>, Error>,
    /// What a function does.
    pub outcome: Box<Outcome>,
    /// Lambda's response to the n-th invocation, from 1.
    pub refusal: Box<Refusal>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan")
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            policy: "linear",
            settings: vec![("base", "1h")],
            shadow: None,
            bounds: Bounds {
                max_attempts: Some(UNHINDERED_ATTEMPTS),
                max_age: Some(LONGEST_DELAY),
                ..Bounds::default()
            },
            retention: Duration::from_secs(14 * 86_400),
            hold: HoldMode::Auto,
            max_bytes: 1 << 30,
            dead_letter_queues: DeadLetterQueues::default(),
            functions: vec![],
            detects_recursion: false,
            reports_failures: Ok(Some(true)),
            outcome: Box::new(|_| Ok(())),
            refusal: Box::new(|_| Ok(())),
        }
    }
}

/// The visibility timeout of the mapping's receives, and the function's timeout.
const VISIBILITY: Duration = Duration::from_secs(360);
const TIMEOUT: Duration = Duration::from_secs(60);

impl Plan {
    /// Builds the world.
    pub fn build(self) -> World {
        let connections = Connections::default();
        let dead_letters = connections.local.named("dead");
        let settings = LocalSettings {
            retention: self.retention,
            max_bytes: self.max_bytes,
            visibility_timeout: VisibilityTimeout::rounded_up(VISIBILITY),
            redrive: Some((Arc::clone(&dead_letters), 1_000.try_into().unwrap())),
            ..LocalSettings::default()
        };
        let queue = connections.local.set_up("retries", settings);
        let functions = Arc::new(Simulated {
            queue: Arc::clone(&queue),
            outcome: self.outcome,
            refusal: self.refusal,
            detects_recursion: self.detects_recursion,
            reports_failures: self.reports_failures,
            invocations: Mutex::default(),
            tries: Mutex::default(),
        });
        let sandbox = Sandbox::on_demand(Limits::default()).unwrap();
        let spec = |settings: &[(&str, &str)]| {
            PolicySpec::Single(PartSpec {
                source: Source::parse(self.policy, std::path::Path::new("/")).unwrap(),
                settings: settings
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
            })
        };
        let (policy, _) = LivePolicy::load_or_fall_back(&sandbox, spec(&self.settings), None);
        let shadow = self.shadow.as_deref().map(|settings| {
            let sandbox = shadow::sandbox(Limits::default()).unwrap();
            Shadow::load("retries", &sandbox, spec(settings))
        });
        let decider =
            Decider::new("retries", Arc::clone(&policy), self.bounds).shadowed_by(shadow.clone());
        let options = RetryHandlerOptions {
            retry_queue: None,
            dead_letter_queues: self.dead_letter_queues,
            functions: Allowed::of(&self.functions),
            hold: self.hold,
            envelope_keys: None,
            handler: Some("retries".to_owned()),
            margin: Duration::from_secs(5),
        };
        let invoked: Arc<dyn Functions> = Arc::clone(&functions) as _;
        let connections = Arc::new(connections);
        let handler = RetryHandler::new(Arc::clone(&connections), decider, invoked, options);
        World {
            connections,
            queue,
            dead_letters,
            functions,
            handler: Arc::new(handler),
            policy,
            shadow,
        }
    }
}

impl World {
    /// The first failure of an event: what Lambda writes to the retry queue.
    pub async fn fail(&self, request_id: &str, event: &Value, code: &str) {
        self.put(record(FUNCTION, request_id, self.queue.now(), event, code))
            .await;
    }

    /// A message on the retry queue.
    pub async fn put(&self, body: String) {
        let sent = self.queue.send(&[Outgoing::new(body)]).await.unwrap();
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    }

    /// Passes batches to the handler as a mapping does, until the retry queue is empty.
    pub async fn run(&self) {
        tokio::select! {
            () = self.queue.emptied() => {}
            () = self.map() => {}
        }
    }

    /// Passes batches to the handler as a mapping does, for this long.
    pub async fn run_for(&self, span: Duration) {
        let _ = tokio::time::timeout(span, self.map()).await;
    }

    async fn map(&self) {
        loop {
            let messages = self.receive().await;
            if !messages.is_empty() {
                self.hand_over(&messages).await;
            }
        }
    }

    /// What is visible, as the mapping's poller takes it.
    pub async fn receive(&self) -> Vec<Message> {
        let wait = Duration::from_secs(20);
        let visibility = VisibilityTimeout::rounded_up(VISIBILITY);
        self.queue.receive(10, wait, visibility).await.unwrap()
    }

    /// One invocation of the handler: the ids that it reports. The other messages are deleted, as the mapping does.
    pub async fn hand_over(&self, messages: &[Message]) -> Vec<String> {
        let batch = event("local:retries", messages);
        let response = self.handler.handle(batch, Instant::now() + TIMEOUT).await;
        let failures = response.unwrap().batch_item_failures;
        let kept: Vec<_> = failures
            .into_iter()
            .map(|failure| failure.item_identifier)
            .collect();
        for message in messages
            .iter()
            .filter(|message| !kept.contains(&message.id))
        {
            let _ = self
                .queue
                .delete(std::slice::from_ref(&message.receipt_handle))
                .await;
        }
        kept
    }

    /// Every invocation so far.
    pub fn invocations(&self) -> Vec<Invocation> {
        self.functions.invocations.lock().unwrap().clone()
    }

    /// How many invocations were requested, rejected ones included.
    pub fn tries(&self) -> usize {
        *self.functions.tries.lock().unwrap()
    }

    /// Takes every dead letter, with its reason.
    pub async fn take_dead(&self) -> BTreeMap<String, Message> {
        let mut taken = BTreeMap::new();
        while !self.dead_letters.is_empty() {
            let visibility = VisibilityTimeout::rounded_up(VISIBILITY);
            let received = self
                .dead_letters
                .receive(10, Duration::ZERO, visibility)
                .await;
            for message in received.unwrap() {
                let handle = std::slice::from_ref(&message.receipt_handle);
                self.dead_letters.delete(handle).await.unwrap();
                let reason = message.attributes.get("BackstopReason");
                taken.insert(reason.map(|it| it.to_text()).unwrap_or_default(), message);
            }
        }
        taken
    }
}
