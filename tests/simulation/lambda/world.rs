//! What all actors share: the plan, the chance, the history, and which message is about what.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use backstop_core::lock::lock;
use backstop_queue::{LocalQueue, Message, Outgoing, Queue, ReceiptHandle};
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::history::{Event, Failed, History};
use super::plan::{Attempt, Kind, Plan};
use super::planted::Planted;

/// The function, as Lambda names it.
pub(crate) const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:worker:$LATEST";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) planted: Option<Planted>,
    pub(crate) retries: Arc<LocalQueue>,
    pub(crate) dead: Arc<LocalQueue>,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: ChaCha8Rng,
    history: History,
    /// What the message with a receipt handle is about.
    handed: HashMap<ReceiptHandle, Failed>,
    runs: u32,
    /// Events that Lambda has and that have not ended.
    pending: usize,
    /// How often each event's function has run.
    attempts: HashMap<u32, usize>,
    duplicates: Vec<Message>,
    environments: u64,
}

/// The event and the last run that a text is about.
pub(crate) fn marks(text: &str) -> Failed {
    let digits = |text: &str| -> Option<u32> {
        let end = text.find(|it: char| !it.is_ascii_digit());
        text[..end.unwrap_or(text.len())].parse().ok()
    };
    let all = |mark: &'static str| {
        text.match_indices(mark)
            .filter_map(move |(at, _)| digits(&text[at + mark.len()..]))
    };
    let number = all("order-").next();
    let run = all("-run-").max();
    (
        number.unwrap_or_else(|| panic!("about nothing: {text}")),
        run.unwrap_or_default(),
    )
}

impl World {
    pub(crate) fn new(
        plan: Plan,
        planted: Option<Planted>,
        retries: Arc<LocalQueue>,
        dead: Arc<LocalQueue>,
    ) -> Arc<Self> {
        let state = State {
            random: ChaCha8Rng::seed_from_u64(plan.seed.wrapping_add(1)),
            history: History::default(),
            handed: HashMap::new(),
            runs: 0,
            pending: 0,
            attempts: HashMap::new(),
            duplicates: Vec::new(),
            environments: 0,
        };
        Arc::new(Self {
            plan,
            planted,
            retries,
            dead,
            started: Instant::now(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn is(&self, planted: Planted) -> bool {
        self.planted == Some(planted)
    }

    pub(crate) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) async fn until(&self, at: Duration) {
        sleep_until(self.started + at).await;
    }

    pub(crate) fn happened(&self, event: Event) {
        let now = self.now();
        self.state().history.events.push((now, event));
    }

    pub(crate) fn faulty(&self, of: Option<Failed>, what: &'static str) {
        self.happened(Event::Faulty { of, what });
    }

    pub(crate) fn requested(&self) {
        self.state().history.requests += 1;
    }

    pub(crate) fn never_ended(&self, what: String) {
        self.state().history.unended.push(what);
    }

    pub(crate) fn history(&self) -> History {
        self.state().history.clone()
    }

    pub(crate) fn is_under_way(&self, kind: Kind) -> bool {
        let now = self.now();
        let mut all = self.plan.disturbances.iter();
        all.any(|it| it.kind == kind && it.from <= now && now < it.to())
    }

    /// Whether something of this kind is under way, and hits.
    pub(crate) fn strikes(&self, kind: Kind, ratio: (u32, u32)) -> bool {
        self.is_under_way(kind) && self.chance(ratio)
    }

    pub(crate) fn chance(&self, ratio: (u32, u32)) -> bool {
        self.state().random.random_ratio(ratio.0, ratio.1)
    }

    pub(crate) fn milliseconds(&self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.state().random.random_range(from..to))
    }

    pub(crate) fn next_environment(&self) -> u64 {
        let mut state = self.state();
        state.environments += 1;
        state.environments
    }

    /// Remembers what a received message is about.
    pub(crate) fn handed(&self, message: &Message) -> Failed {
        let of = marks(&message.body);
        let handle = message.receipt_handle.clone();
        self.state().handed.insert(handle, of);
        of
    }

    pub(crate) fn of_handle(&self, handle: &ReceiptHandle) -> Failed {
        self.state().handed[handle]
    }

    pub(crate) fn duplicate(&self, message: &Message) {
        self.state().duplicates.push(message.clone());
    }

    pub(crate) fn take_duplicates(&self, most: usize) -> Vec<Message> {
        let mut state = self.state();
        let most = most.min(state.duplicates.len());
        state.duplicates.drain(..most).collect()
    }

    /// Whether nothing is anywhere any more.
    pub(crate) fn is_still(&self) -> bool {
        let state = self.state();
        state.pending == 0 && state.duplicates.is_empty() && self.retries.is_empty()
    }

    /// Lambda has an event: it runs the function, and writes a record if that fails.
    pub(crate) fn accept(self: &Arc<Self>, number: u32, after: Option<u32>, event: Value) {
        self.happened(Event::Accepted { number, after });
        let twice = self.strikes(Kind::RunsTwice, (1, 2));
        if twice {
            self.faulty(Some((number, u32::MAX)), "runs twice");
        }
        for _ in 0..=u32::from(twice) {
            self.state().pending += 1;
            let (world, event) = (Arc::clone(self), event.clone());
            tokio::spawn(async move {
                world.run(number, event).await;
                world.state().pending -= 1;
            });
        }
    }

    async fn run(&self, number: u32, event: Value) {
        let delayed = self.strikes(Kind::Delayed, (1, 2));
        sleep(self.milliseconds(5, if delayed { 200_000 } else { 500 })).await;
        let run = {
            let mut state = self.state();
            state.runs += 1;
            state.runs
        };
        self.happened(Event::Ran { number, run });
        let attempt = self.next_attempt(number);
        sleep(attempt.takes).await;
        let fails = attempt.fails;
        self.happened(Event::Ended { number, run, fails });
        let Some(code) = fails else { return };
        let (failed, timestamp) = (self.now(), self.retries.now());
        sleep(self.milliseconds(5, 800)).await;
        let timestamp = jiff::Timestamp::from_millisecond(timestamp.0.cast_signed()).unwrap();
        let body = json!({
            "version": "1.0",
            "timestamp": timestamp.to_string(),
            "requestContext": {
                "requestId": format!("order-{number}-run-{run}"),
                "functionArn": FUNCTION,
                "condition": "RetriesExhausted",
                "approximateInvokeCount": 1,
            },
            "requestPayload": event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": {"errorMessage": format!("order-{number}-run-{run} failed"), "errorType": code},
        });
        let sent = self.retries.send(&[Outgoing::new(body.to_string())]).await;
        sent.unwrap()[0].as_ref().unwrap();
        let (of, at) = ((number, run), failed);
        self.happened(Event::Recorded { of, at });
    }

    fn next_attempt(&self, number: u32) -> Attempt {
        let mut state = self.state();
        let made = state.attempts.entry(number).or_default();
        let planned = self.plan.events.iter().find(|it| it.number == number);
        let attempt = planned.and_then(|it| it.attempts.get(*made)).copied();
        *made += 1;
        attempt.unwrap_or(Attempt {
            takes: Duration::from_millis(10),
            fails: None,
        })
    }
}

/// What an environment does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    /// Lambda freezes it between two invocations.
    Frozen,
    Dead,
}

/// An environment of the handler's function.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) id: u64,
    phase: watch::Sender<Phase>,
}

impl Environment {
    pub(crate) fn new(id: u64) -> Arc<Self> {
        let phase = watch::Sender::new(Phase::Active);
        Arc::new(Self { id, phase })
    }

    pub(crate) fn freeze(&self) {
        self.phase.send_replace(Phase::Frozen);
    }

    pub(crate) fn thaw(&self) {
        self.phase.send_replace(Phase::Active);
    }

    pub(crate) fn kill(&self) {
        self.phase.send_replace(Phase::Dead);
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.phase.borrow() == Phase::Dead
    }

    /// Goes on while an invocation runs. Nothing goes on in an environment that is dead.
    pub(crate) async fn lives(&self) {
        let mut phase = self.phase.subscribe();
        let lives = phase.wait_for(|phase| *phase == Phase::Active).await;
        assert!(lives.is_ok());
    }
}
