//! One simulation: events come, an event source mapping invokes the handler with what failed, and the history comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::decision::Bounds;
use backstop_core::lock::lock;
use backstop_decider::Decider;
use backstop_functions::LambdaApi;
use backstop_host::config::DeadLetterQueues;
use backstop_host::lambda::{
    Allowed, Batch, BatchError, BatchMessage, BatchResponse, RetryHandler, RetryHandlerOptions,
};
use backstop_queue::{Connections, LocalQueue, LocalSettings, Message, Queue, VisibilityTimeout};
use backstop_records::{DecisionRecord, Observer};
use backstop_versions::LivePolicy;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::aws::{ACCOUNT, Aws};
use super::history::{Event, Failed, History, Response};
use super::plan::{Kind, Plan};
use super::planted::Planted;
use super::world::{Environment, World, marks};
use crate::determinism::simulated;
use crate::policies::Policies;

/// How long an event may take to end when nothing disturbs any more.
const LONGEST: Duration = Duration::from_secs(2 * 86_400);

/// The part of an invocation's time that the handler keeps free.
const MARGIN: Duration = Duration::from_secs(3);

/// An environment, with the handler in it.
struct Started {
    environment: Arc<Environment>,
    aws: Aws,
    handler: Arc<RetryHandler>,
}

/// The mapping of the retry queue to the handler.
struct Mapping {
    world: Arc<World>,
    /// By their first delay.
    versions: BTreeMap<u64, Arc<LivePolicy>>,
    idle: Mutex<Vec<Started>>,
}

/// Carries out a plan.
pub(crate) fn run(policies: &Policies, plan: Plan, planted: Option<Planted>) -> History {
    let bases = plan.swaps.iter().map(|swap| swap.base);
    let bases = bases.chain([plan.base]);
    let versions = bases.map(|base| (base, policies.of_base(base))).collect();
    let seed = plan.seed;
    simulated(seed, async move || {
        let settings = || LocalSettings {
            visibility_timeout: VisibilityTimeout::from_seconds(plan.visibility),
            retention: Duration::from_secs(14 * 86_400),
            ..LocalSettings::default()
        };
        let retries = LocalQueue::new("retries", settings());
        let dead = LocalQueue::new("dead", settings());
        let world = World::new(plan, planted, retries, dead);
        let mapping = Arc::new(Mapping {
            world: Arc::clone(&world),
            versions,
            idle: Mutex::default(),
        });
        whole(&mapping).await;
        world.history()
    })
}

async fn whole(mapping: &Arc<Mapping>) {
    let world = &mapping.world;
    let stop = CancellationToken::new();
    let mut pollers = JoinSet::new();
    for _ in 0..world.plan.pollers {
        let (mapping, stop) = (Arc::clone(mapping), stop.clone());
        pollers.spawn(async move {
            while !stop.is_cancelled() {
                mapping.poll().await;
            }
        });
    }
    let mut events = world.plan.events.clone();
    events.sort_by_key(|event| event.at);
    for event in events {
        world.until(event.at).await;
        let payload = json!({"order": format!("order-{}", event.number)});
        world.accept(event.number, None, payload);
    }
    world.until(world.plan.calm()).await;
    let ended = async {
        while !world.is_still() {
            sleep(Duration::from_secs(10)).await;
        }
    };
    // A handler with a planted fault may never end.
    let longest = world
        .planted
        .map_or(LONGEST, |_| Duration::from_secs(2 * 3_600));
    if timeout(longest, ended).await.is_err() {
        world.never_ended(format!("{} messages are in the queue", world.retries.len()));
    }
    stop.cancel();
    pollers.shutdown().await;
}

impl Mapping {
    /// One poll, and the invocation with what it brings.
    async fn poll(&self) {
        let world = &self.world;
        let visibility = VisibilityTimeout::from_seconds(world.plan.visibility);
        let wait = Duration::from_secs(20);
        let received = world.retries.receive(world.plan.batch, wait, visibility);
        let mut messages = received.await.unwrap();
        for message in &messages {
            let of = world.handed(message);
            let count = message.receive_count.get();
            world.happened(Event::Received { of, count });
            if world.strikes(Kind::Duplicates, (1, 3)) {
                world.duplicate(message);
            }
        }
        let more = world.take_duplicates(world.plan.batch - messages.len());
        for message in &more {
            let of = marks(&message.body);
            world.happened(Event::Duplicated { of });
        }
        messages.extend(more);
        if messages.is_empty() {
            return;
        }
        if world.strikes(Kind::NotInvoked, (1, 2)) {
            world.faulty(None, "nobody is invoked");
            return;
        }
        let idle = lock(&self.idle).pop();
        let is_cold = world.strikes(Kind::ColdStarts, (1, 1)) || world.chance((1, 20));
        let started = match idle.filter(|_| !is_cold) {
            Some(started) => started,
            None => self.start().await,
        };
        let (env, all) = (started.environment.id, about(&messages));
        started.environment.thaw();
        world.happened(Event::Began {
            env,
            all: all.clone(),
        });
        let response = self.invoke(&started, &messages).await;
        world.happened(Event::Responded {
            env,
            all,
            response: response.clone(),
        });
        if let Response::Named(named) = response {
            self.delete(&started.aws, &messages, &named).await;
        }
        if !started.environment.is_dead() {
            started.environment.freeze();
            lock(&self.idle).push(started);
        }
    }

    async fn start(&self) -> Started {
        let world = &self.world;
        sleep(world.milliseconds(100, 1_500)).await;
        let environment = Environment::new(world.next_environment());
        let mut base = world.plan.base_at(world.now());
        world.happened(Event::Started {
            env: environment.id,
            base,
        });
        if world.is(Planted::KeepsTheFirstVersion) {
            base = world.plan.base;
        }
        let aws = Aws {
            world: Arc::clone(world),
            environment: Arc::clone(&environment),
        };
        let sdk = aws.clone().sdk();
        let functions = Arc::new(LambdaApi::new(&sdk));
        let bounds = Bounds {
            max_attempts: NonZeroU32::new(world.plan.max_attempts),
            ..Bounds::default()
        };
        let decider = Decider::new("retries", Arc::clone(&self.versions[&base]), bounds)
            .in_place()
            .observed_by(Arc::new(Records(aws.clone())));
        let options = RetryHandlerOptions {
            retry_queue: None,
            dead_letter_queues: DeadLetterQueues::default(),
            functions: Allowed::of(&["worker".to_owned()]),
            hold: world.plan.hold(),
            envelope_keys: None,
            handler: Some("retry-handler".to_owned()),
            margin: MARGIN,
        };
        let connections = Arc::new(Connections::with_sdk(sdk));
        Started {
            environment,
            aws,
            handler: Arc::new(RetryHandler::new(connections, decider, functions, options)),
        }
    }

    /// One invocation of the handler, which Lambda ends at the function's timeout.
    async fn invoke(&self, started: &Started, messages: &[Message]) -> Response {
        let world = &self.world;
        let longest = world.plan.timeout;
        let deadline = Instant::now() + longest;
        let batch = Batch {
            records: messages.iter().map(|it| self.record(it)).collect(),
        };
        let handler = Arc::clone(&started.handler);
        let mut handling = tokio::spawn(async move { handler.handle(batch, deadline).await });
        let is_killed = world.strikes(Kind::Kills, (1, 3));
        let ends = if is_killed {
            let milliseconds = u64::try_from(longest.as_millis()).unwrap();
            let soon = world.chance((1, 2));
            world.milliseconds(1, if soon { 300 } else { milliseconds })
        } else {
            longest
        };
        let ended = timeout(ends, &mut handling).await;
        if world.is(Planted::OverrunsItsTime) && messages.len() > 1 {
            return Response::TimedOut;
        }
        let Ok(ended) = ended else {
            handling.abort();
            started.environment.kill();
            let env = started.environment.id;
            world.happened(Event::Killed { env });
            return if is_killed {
                Response::Lost
            } else {
                Response::TimedOut
            };
        };
        if world.strikes(Kind::LostResponses, (1, 2)) {
            return Response::Lost;
        }
        self.read(ended.unwrap(), messages)
    }

    /// What the mapping reads in a response.
    fn read(&self, response: Result<BatchResponse, BatchError>, messages: &[Message]) -> Response {
        let mut response = match response {
            Ok(response) => response,
            Err(error) => return Response::Error(error.to_string()),
        };
        let named = &mut response.batch_item_failures;
        if self.world.is(Planted::NamesNothing) {
            named.clear();
        }
        let mut ids: BTreeSet<_> = named.drain(..).map(|it| it.item_identifier).collect();
        if self.world.is(Planted::NamesEverything) {
            ids.extend(messages.iter().map(|it| it.id.clone()));
        }
        if self.world.is(Planted::NamesAnother) {
            ids.insert("another".to_owned());
        }
        let is_of_batch = |id: &&String| messages.iter().any(|it| it.id == **id);
        if let Some(id) = ids.iter().find(|id| !is_of_batch(id)) {
            return Response::Invalid(id.clone());
        }
        let named = messages.iter().filter(|it| ids.contains(&it.id));
        Response::Named(named.map(|it| marks(&it.body)).collect())
    }

    /// Deletes what the response does not name.
    async fn delete(&self, aws: &Aws, messages: &[Message], named: &[Failed]) {
        let world = &self.world;
        sleep(world.milliseconds(1, 50)).await;
        for message in messages {
            let of = marks(&message.body);
            if named.contains(&of) {
                continue;
            }
            if world.strikes(Kind::FailedDeletes, (1, 2)) {
                world.faulty(Some(of), "the mapping's delete failed");
                continue;
            }
            let _ = aws.delete(&message.receipt_handle, true).await;
        }
    }

    /// A message as the mapping passes it.
    fn record(&self, message: &Message) -> BatchMessage {
        let early = u64::from(self.world.is(Planted::InvokesEarly)) * 3_600_000;
        let attributes = [
            ("ApproximateReceiveCount", message.receive_count.to_string()),
            ("SentTimestamp", message.sent.0.to_string()),
            (
                "ApproximateFirstReceiveTimestamp",
                message.first_received.0.to_string(),
            ),
        ];
        let mut body = message.body.to_string();
        if early > 0 {
            let year = "\"timestamp\":\"2027";
            body = body.replace(year, "\"timestamp\":\"2026");
        }
        BatchMessage {
            message_id: Some(message.id.clone()),
            receipt_handle: Some(message.receipt_handle.0.to_string()),
            body: Some(body),
            attributes: attributes
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            message_attributes: message
                .attributes
                .iter()
                .map(|(name, value)| (name.clone(), attribute(&value.to_text())))
                .collect(),
            event_source_arn: Some(format!("{ACCOUNT}:retries")),
        }
    }
}

fn attribute(text: &str) -> backstop_host::lambda::BatchAttribute {
    backstop_host::lambda::BatchAttribute {
        data_type: Some("String".to_owned()),
        string_value: Some(text.to_owned()),
        binary_value: None,
    }
}

fn about(messages: &[Message]) -> Vec<Failed> {
    messages.iter().map(|it| marks(&it.body)).collect()
}

/// Writes decisions into the history.
#[derive(Debug)]
struct Records(Aws);

impl Observer for Records {
    fn decided(&self, record: &DecisionRecord) {
        // The tasks of an environment that was killed may still decide.
        if self.0.environment.is_dead() {
            return;
        }
        self.0.world.happened(Event::Decided {
            env: self.0.environment.id,
            of: marks(&record.failure.error.message),
            attempt: record.failure.attempt.get(),
            action: record.decision.action.clone(),
            by: record.decision.decided_by.as_str().to_owned(),
        });
    }
}
