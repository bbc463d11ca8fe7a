//! What a host remembers of the failed messages of a queue that wait for their next attempt: how many wait and why, until when, and what brings them back sooner.
//!
//! No API of SQS lists invisible messages. The host that hid a message remembers it here until it becomes visible, in memory and bounded (`memory`): so it can report what waits (`report`), wake it (`wake`) and decide about it again after a swap (`reconsider`). The failure of a message that is sent again is remembered until the message is due, however often it hops through this host. What is remembered can be written and taken over by another process (`kept`). Messages that nobody remembers come by themselves when they are due.

mod causes;
mod due;
mod earlier;
mod filter;
mod grouping;
mod kept;
mod memory;
mod packed;
mod reach;
mod reconsider;
mod records;
mod report;
mod rules;
mod sooner;
mod spread;
mod suppose;
mod tally;
mod wake;
mod why;

use std::hash::{Hash, Hasher};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use backstop_core::lock::lock;
use metrics::Counter;
use siphasher::sip::SipHasher13;
use tokio::time::Instant;

use crate::decision::Hold;
use crate::failure::{Milliseconds, Timestamp};
use crate::hold;
use crate::queue::{Description, Message, MessageEnvelope, Queue, Requests, VisibilityTimeout};
use crate::telemetry;
use backstop_decider::{DecidedFailure, Decider};
use backstop_traces::Destination;
use causes::{Cause, HELD_BACK};
use earlier::EarlierTimes;
use memory::{Key, Known, Limits, Memory, New};
use packed::Packed;
use reconsider::Versions;
use rules::Rules;
use why::{Past, Why};

pub use due::Due;
pub use earlier::{Earlier, EarlierTime, Taken};
pub use filter::Filter;
pub use grouping::Grouping;
pub use kept::TakenOver;
pub use reach::Reach;
pub use reconsider::{OtherVersion, Reconsider, Reconsidered, Today};
pub use report::{Count, Group, GroupCount, MessageReport, QueueReport};
pub use suppose::Supposed;
pub use tally::{Tally, WITHIN};
pub use wake::{BroughtBack, OfCode, Refusal, Wake, Woken};

/// What is remembered of one queue: as many messages as SQS holds invisible, and so many bytes that the whole process of a host with one queue takes about 100 MiB.
const LIMITS: Limits = Limits {
    messages: 120_000,
    bytes: 56 << 20,
};

/// The messages of one queue that wait and that this host remembers.
pub struct Waiting {
    name: String,
    queue: Arc<dyn Queue>,
    place: Destination,
    source: String,
    fifo: bool,
    longest_hop: Duration,
    decider: Decider,
    requests: Arc<Requests>,
    woken: WokenCounts,
    /// Times in the memory count from here.
    started: Instant,
    /// Milliseconds since 1970.
    since: AtomicU64,
    /// What the keys of messages are made with, so that others can't foresee them.
    secret: OnceLock<[u8; 16]>,
    grouping: OnceLock<Grouping>,
    memory: Mutex<Memory>,
    rules: Mutex<Rules>,
    earlier: Mutex<EarlierTimes>,
    versions: Mutex<Versions>,
    /// Held while visibilities are changed.
    turn: tokio::sync::Mutex<()>,
}

backstop_core::shown!(Waiting, waiting => queue = waiting.name, since = waiting.since());

/// Counts the messages that come sooner, by what brought them.
struct WokenCounts {
    wake: Counter,
    reconsideration: Counter,
    brought_back: Counter,
}

impl WokenCounts {
    fn of(queue: &str) -> Self {
        let queue = telemetry::Queue::named(queue);
        Self {
            wake: queue.woken("wake"),
            reconsideration: queue.woken("reconsideration"),
            brought_back: queue.woken("brought-back"),
        }
    }
}

impl Waiting {
    /// Nothing is remembered yet of the queue with this name.
    pub fn of(
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
            place: Destination::queue(queue.url()),
            source: description.arn.clone(),
            fifo: description.fifo,
            longest_hop: hold::longest_hop(description),
            decider: decider.clone(),
            requests: Arc::clone(requests),
            woken: WokenCounts::of(name),
            started: Instant::now(),
            since: AtomicU64::new(queue.now().0),
            queue: Arc::clone(queue),
            secret: OnceLock::new(),
            grouping: OnceLock::new(),
            memory: Mutex::new(Memory::new(limits)),
            rules: Mutex::default(),
            earlier: Mutex::default(),
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
        decided: DecidedFailure<'_>,
    ) {
        let key = self.key(&message.id, message.envelope.is_some(), &message.body);
        let is_held_instead = decided.is_none();
        let past = is_held_instead.then(|| self.past(key, message)).flatten();
        let why = match (decided, &past) {
            (Some((failure, decided)), _) => Why::decided(message, failure, decided),
            (None, Some(past)) => Some(Why::past(past)),
            (None, None) => message.envelope.as_deref().map(Why::carried),
        };
        let Some(why) = why else {
            return;
        };
        // SQS counts from later on: the message is forgotten before it is visible, not after.
        let ends = self.ms(since + timeout.as_duration());
        let handle = Some(&*message.receipt_handle.0);
        self.remember(message, key, handle, (ends, ends), Hold::Visibility, why);
    }

    /// A message was made invisible at `since` for `timeout` without an attempt, because it would not be worthwhile: for `code`, after so many failed attempts.
    pub fn held_back(
        &self,
        message: &Message,
        since: Instant,
        timeout: VisibilityTimeout,
        code: &str,
        attempts: u32,
    ) {
        let key = self.key(&message.id, message.envelope.is_some(), &message.body);
        let why = Why {
            attempt: attempts,
            failed_at: self.queue.now(),
            delay: Milliseconds::from_duration(timeout.as_duration()),
            code,
            class: HELD_BACK.to_owned(),
            policy: "",
            decidable: None,
            known: Known::Elsewhere,
            is_decided: true,
        };
        let ends = self.ms(since + timeout.as_duration());
        let handle = Some(&*message.receipt_handle.0);
        self.remember(message, key, handle, (ends, ends), Hold::Visibility, why);
    }

    /// A message was sent again at `since` with this envelope; its hop takes `hop`. `decided` is the decision, unless this is not its first hop.
    pub fn resent(
        &self,
        message: &Message,
        envelope: &MessageEnvelope,
        since: Instant,
        hop: Duration,
        decided: DecidedFailure<'_>,
    ) {
        let hop = VisibilityTimeout::rounded_up(hop).as_duration();
        let ends = self.ms(since + hop);
        let due = self.ms(Instant::now() + envelope.due.since(self.queue.now()));
        let due = due.max(ends);
        let key = self.key(&envelope.id, true, &message.body);
        let why = match decided {
            Some((failure, decided)) => Why::decided(message, failure, decided),
            None if self.hops_on(key, envelope, (ends, due)) => None,
            None => Some(Why::carried(envelope)),
        };
        if let Some(why) = why {
            self.remember(message, key, None, (ends, due), Hold::Resend, why);
        }
    }

    /// Notes the next hop of a message, if the failure that its envelope speaks of is remembered.
    fn hops_on(&self, key: Key, envelope: &MessageEnvelope, (ends, due): (i64, i64)) -> bool {
        let mut memory = self.memory();
        let Some((at, slot)) = memory.find(key) else {
            return false;
        };
        let failed_at = Packed::read(&memory.packed(slot)).and_then(|it| it.failed_at());
        let is_same = slot.hold == Hold::Resend && failed_at == Some(envelope.failed_at());
        if is_same {
            memory.set_hop(at, ends, due);
            memory.expire(self.now(), memory::LEAVE_AT_ONCE);
        }
        is_same
    }

    /// What is remembered of the failure of a message that was sent again.
    fn past(&self, key: Key, message: &Message) -> Option<Past> {
        let envelope = message.envelope.as_deref()?;
        let memory = self.memory();
        let (_, slot) = memory.find(key)?;
        let failure = self.failure(&memory.packed(slot), slot.attempt)?;
        let cause = memory.cause(slot);
        let is_same = failure.failure.failed_at == envelope.failed_at();
        is_same.then(|| Past {
            failure,
            delay: slot.delay,
            class: cause.class.to_owned(),
            policy: cause.policy.to_owned(),
        })
    }

    /// A message was received again and is not sent again: what was remembered of it is over.
    pub fn forget(&self, message: &Message) {
        let is_first = message.receive_count.get() == 1 && message.envelope.is_none();
        if !is_first {
            let key = self.key(&message.id, message.envelope.is_some(), &message.body);
            self.memory().forget(key);
        }
    }

    /// When a message that was sent again, and has come before it is due, is attempted because of a wake or a reconsideration.
    pub fn woken(&self, message: &Message, envelope: &MessageEnvelope) -> Option<Timestamp> {
        let now = self.queue.now();
        let group = || self.group(message);
        let times = [
            self.rules().wake(envelope, group, now),
            self.earlier_time(envelope, now),
        ];
        times.into_iter().flatten().min()
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
        let packing = packed::pack(
            &message.id,
            handle,
            (message.sent, message.receive_count.get()),
            why.decidable,
        );
        let (now, group) = (self.now(), self.group(message));
        let ago = self.queue.now().since(why.failed_at);
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        let new = New {
            packing,
            key,
            ends,
            due,
            sent: self.at(message.sent, now),
            failed: now.saturating_sub(ago),
            delay: why.delay,
            attempt: why.attempt,
            cause: Cause {
                code: &filter::remembered(why.code),
                class: &why.class,
                policy: why.policy,
                group: &group,
            },
            hold,
            by_envelope: hold == Hold::Resend || !why.is_decided,
            known: match why.decidable {
                Some(decidable) if decidable.fits() => Known::Here,
                Some(_) => Known::TooLarge,
                None => why.known,
            },
        };
        if ends > now {
            self.memory().add(new, now);
        }
    }

    /// The key of a message, and that of its copies: they are remembered apart.
    fn key(&self, id: &str, is_copy: bool, body: &str) -> Key {
        self.hashed((id, is_copy.then_some(body)))
    }

    fn hashed(&self, value: impl Hash) -> u64 {
        let mut hasher = SipHasher13::new_with_key(self.secret.get_or_init(rand::random));
        value.hash(&mut hasher);
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
        lock(&self.memory)
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        lock(&self.rules)
    }
}
