//! What a host remembers of the failed messages of a queue that wait for their next attempt: how many wait and why, until when, and what brings them back sooner.
//!
//! No API of SQS lists invisible messages. The host that hid a message remembers it here until it becomes visible, in memory and bounded ([`memory`]): so it can report what waits ([`report`]), wake it ([`wake`]) and decide about it again after a swap ([`reconsider`]). A restart forgets everything; the messages come by themselves when they are due.

mod due;
mod filter;
mod memory;
mod names;
mod packed;
mod reconsider;
mod report;
mod rules;
mod spread;
mod wake;

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::decider::{Decided, Decider};
use crate::decision::{Action, Hold};
use crate::failure::{Failure, Milliseconds, Timestamp};
use crate::hold;
use crate::queue::{Description, Envelope, Message, Queue, Requests, VisibilityTimeout};
use memory::{Key, Limits, Memory, New};
use packed::Decidable;
use reconsider::Versions;
use rules::Rules;

pub use due::Due;
pub use filter::Filter;
pub(crate) use filter::{CARRIED_BYTES, carried};
pub(crate) use packed::{PayloadParts, RememberedFailure};
pub use reconsider::{Reconsider, Reconsidered, Today};
pub use report::{Count, Group, MessageReport, QueueReport};
pub use wake::{Refusal, Wake, Woken};

/// What is remembered of one queue: as many messages as SQS holds invisible.
const LIMITS: Limits = Limits {
    messages: 120_000,
    bytes: 96 << 20,
};

/// The messages of one queue that wait and that this host remembers.
pub struct Waiting {
    name: String,
    queue: Arc<dyn Queue>,
    source: String,
    fifo: bool,
    longest_hop: Duration,
    decider: Decider,
    requests: Arc<Requests>,
    /// Times in the memory count from here.
    started: Instant,
    since: Timestamp,
    hashes: RandomState,
    memory: Mutex<Memory>,
    rules: Mutex<Rules>,
    versions: Mutex<Versions>,
    /// Held while visibilities are changed.
    turn: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("queue", &self.name)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

/// Why a message waits, as far as the host knows.
struct Why<'a> {
    attempt: u32,
    failed_at: Timestamp,
    delay: Milliseconds,
    code: &'a str,
    class: String,
    policy: &'a str,
    decidable: Option<Decidable<'a>>,
}

impl<'a> Why<'a> {
    /// From the decision, or from the envelope of a message that is sent again without one.
    fn of(message: &'a Message, decided: Option<(&'a Failure, &'a Decided)>) -> Option<Self> {
        let Some((failure, decided)) = decided else {
            let envelope = message.envelope.as_ref()?;
            return Some(Self {
                attempt: envelope.attempts,
                failed_at: envelope.failed_at(),
                delay: envelope.delay,
                code: &envelope.code,
                class: envelope.class.clone(),
                policy: &envelope.policy,
                decidable: None,
            });
        };
        let kept = failure.failed_at.since(message.kept_since);
        let decidable = decided.payload.as_ref().map(|payload| Decidable {
            failure,
            kept: Milliseconds::from_duration(kept),
            payload,
        });
        Some(Self {
            attempt: failure.attempt.get(),
            failed_at: failure.failed_at,
            delay: match decided.decision.action {
                Action::Retry { delay } => delay,
                Action::DeadLetter { .. } | Action::Discard { .. } => return None,
            },
            code: &failure.error.code,
            class: decided.decision.class.to_string(),
            policy: &decided.policy,
            decidable,
        })
    }
}

impl Waiting {
    /// Nothing is remembered yet of the queue with this name.
    pub(crate) fn of(
        name: &str,
        queue: &Arc<dyn Queue>,
        description: &Description,
        decider: &Decider,
        requests: &Arc<Requests>,
    ) -> Arc<Self> {
        Self::within(LIMITS, name, queue, description, decider, requests)
    }

    fn within(
        limits: Limits,
        name: &str,
        queue: &Arc<dyn Queue>,
        description: &Description,
        decider: &Decider,
        requests: &Arc<Requests>,
    ) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            source: description.arn.clone(),
            fifo: description.fifo,
            longest_hop: hold::longest_hop(description),
            decider: decider.clone(),
            requests: Arc::clone(requests),
            started: Instant::now(),
            since: queue.now(),
            queue: Arc::clone(queue),
            hashes: RandomState::new(),
            memory: Mutex::new(Memory::new(limits)),
            rules: Mutex::default(),
            versions: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })
    }

    /// A message was made invisible at `since` for `timeout`. `decided` is the decision, unless the message is held because it could not be sent again.
    pub fn hidden(
        &self,
        message: &Message,
        since: Instant,
        timeout: VisibilityTimeout,
        decided: Option<(&Failure, &Decided)>,
    ) {
        let Some(why) = Why::of(message, decided) else {
            return;
        };
        // SQS counts from later on: the message is forgotten before it is visible, not after.
        let ends = self.ms(since + timeout.as_duration());
        let key = self.key(&message.id, message.envelope.is_some(), &message.body);
        let handle = Some(message.receipt_handle.0.as_str());
        self.remember(message, key, handle, (ends, ends), Hold::Visibility, why);
    }

    /// A message was sent again at `since` with this envelope; its hop takes `hop`.
    pub(crate) fn resent(
        &self,
        message: &Message,
        envelope: &Envelope,
        since: Instant,
        hop: Duration,
        decided: Option<(&Failure, &Decided)>,
    ) {
        let Some(why) = Why::of(message, decided) else {
            return;
        };
        let hop = VisibilityTimeout::rounded_up(hop).as_duration();
        let ends = self.ms(since + hop);
        let due = self.ms(Instant::now() + envelope.due.since(self.queue.now()));
        let key = self.key(&envelope.id, true, &message.body);
        self.remember(message, key, None, (ends, due.max(ends)), Hold::Resend, why);
    }

    /// A message was received again.
    pub(crate) fn arrived(&self, message: &Message) {
        let is_first = message.receive_count.get() == 1 && message.envelope.is_none();
        if !is_first {
            let key = self.key(&message.id, message.envelope.is_some(), &message.body);
            self.memory().forget(key);
        }
    }

    /// When a message that was sent again, and has come before it is due, is attempted because of a wake.
    pub(crate) fn woken(&self, envelope: &Envelope) -> Option<Timestamp> {
        self.rules().wake(envelope, self.queue.now())
    }

    fn remember(
        &self,
        message: &Message,
        key: Key,
        handle: Option<&str>,
        (ends, due): (i64, i64),
        hold: Hold,
        why: Why<'_>,
    ) {
        let packed = packed::pack(
            &message.id,
            handle,
            (message.sent, message.receive_count.get()),
            why.decidable,
        );
        let now = self.now();
        let ago = self.queue.now().since(why.failed_at);
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        let new = New {
            packed,
            key,
            ends,
            due,
            failed: now.saturating_sub(ago),
            delay: why.delay,
            attempt: why.attempt,
            code: &filter::remembered(why.code),
            class: &why.class,
            policy: why.policy,
            hold,
        };
        if ends > now {
            self.memory().add(new, now);
        }
    }

    /// A sender can forge an envelope with the id of another message: the key of a copy depends on its body too.
    fn key(&self, id: &str, is_copy: bool, body: &str) -> Key {
        let mut hasher = self.hashes.build_hasher();
        (id, is_copy).hash(&mut hasher);
        if is_copy {
            body.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Milliseconds since the start.
    fn ms(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.started);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn now(&self) -> i64 {
        self.ms(Instant::now())
    }

    /// A time of the memory as a time of day.
    fn timestamp(&self, at: i64, now: i64) -> Timestamp {
        let today = self.queue.now().0;
        Timestamp(today.saturating_add_signed(at.saturating_sub(now)))
    }

    /// A time of day as a time of the memory.
    fn at(&self, time: Timestamp, now: i64) -> i64 {
        let today = self.queue.now();
        let ms = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        now.saturating_add(ms(time.since(today)))
            .saturating_sub(ms(today.since(time)))
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
