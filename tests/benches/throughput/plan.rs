//! Which sides run in which settings.

/// Rounds of the main comparison.
pub(crate) const ROUNDS: usize = 7;

/// Rounds of the other cases.
const OTHER_ROUNDS: usize = 3;

/// fauxqs keeps the messages of a queue in an array. One of more than 14,021 is a large object of V8, which moves all of it for each message that leaves: the benchmark would measure that.
const AT_STEADY_COST: usize = 14_000;

/// The network between a side and the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Latency {
    None,
    TenMilliseconds,
}

impl Latency {
    /// How the tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no added latency",
            Self::TenMilliseconds => "10 ms added to each request",
        }
    }
}

/// Who consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Loops of receive and delete, with the Rust SDK.
    Bare,
    /// The same, which also asks for the attributes: a loop needs them to count receives and to send dead letters.
    BareWithAttributes,
    /// Backstop's library with a Rust function.
    Backstop { in_flight: usize },
    /// `sqs-consumer` of npm.
    SqsConsumer,
    /// Loops of receive and delete in threads, with boto3.
    Boto3,
}

/// One side in one setting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub(crate) side: Side,
    /// Loops, consumers or threads; the most polls of Backstop.
    pub(crate) polls: usize,
    pub(crate) latency: Latency,
    /// How many of a hundred messages fail.
    pub(crate) failing: usize,
    pub(crate) fifo: bool,
    /// Whether tokio has one worker thread instead of two: the emulator needs the other processor.
    pub(crate) one_thread: bool,
}

impl Case {
    const fn new(side: Side, polls: usize) -> Self {
        Self {
            side,
            polls,
            latency: Latency::None,
            failing: 0,
            fifo: false,
            one_thread: false,
        }
    }

    const fn failing(self, failing: usize) -> Self {
        Self { failing, ..self }
    }

    const fn fifo(self) -> Self {
        Self { fifo: true, ..self }
    }

    const fn one_thread(self) -> Self {
        Self {
            one_thread: true,
            ..self
        }
    }

    const fn behind_latency(self) -> Self {
        let latency = Latency::TenMilliseconds;
        Self { latency, ..self }
    }

    /// What the table calls the side.
    pub(crate) fn name(&self) -> String {
        let polls = self.polls;
        let name = match self.side {
            Side::Bare => format!("bare loop, {polls} pollers"),
            Side::BareWithAttributes => format!("bare loop with attributes, {polls} pollers"),
            Side::Backstop { in_flight } => {
                format!("Backstop, {polls} polls, {in_flight} in flight")
            }
            Side::SqsConsumer => format!("sqs-consumer, {polls} consumers"),
            Side::Boto3 => format!("boto3, {polls} threads"),
        };
        if self.one_thread {
            format!("{name}, 1 thread")
        } else {
            name
        }
    }

    /// The side and its setting.
    pub(crate) fn title(&self) -> String {
        let (queue, latency) = (self.queue(), self.latency.name());
        format!(
            "{}: {queue}, {latency}, {} % failing",
            self.name(),
            self.failing
        )
    }

    /// The kind of queue.
    pub(crate) fn queue(&self) -> &'static str {
        if self.fifo {
            "FIFO queue"
        } else {
            "standard queue"
        }
    }

    /// As many for all sides: a run takes about half a second or more.
    pub(crate) fn messages(&self) -> usize {
        let most = match self.failing {
            0 => AT_STEADY_COST,
            // For each receive, fauxqs looks at all messages that are invisible.
            _ => 6_000,
        };
        match self.latency {
            Latency::None => most,
            Latency::TenMilliseconds => (1_000 * self.polls).min(most),
        }
    }

    /// What the goals compare runs more often.
    pub(crate) fn rounds(&self) -> usize {
        match (self.failing, self.fifo) {
            (0, false) => ROUNDS,
            _ => OTHER_ROUNDS,
        }
    }
}

const BARE: Case = Case::new(Side::Bare, 16);
const ATTRIBUTES: Case = Case::new(Side::BareWithAttributes, 16);
const DEFAULTS: Case = Case::new(Side::Backstop { in_flight: 100 }, 10);
const AS_MANY: Case = Case::new(Side::Backstop { in_flight: 160 }, 16);
const MORE: Case = Case::new(Side::Backstop { in_flight: 1_000 }, 16);
const NODE: Case = Case::new(Side::SqsConsumer, 16);
const PYTHON: Case = Case::new(Side::Boto3, 16);

/// Enough polls that latency is no limit.
const MANY_POLLS: usize = 48;

/// All cases without latency.
const DIRECT: [Case; 30] = [
    Case::new(Side::Bare, 1),
    Case::new(Side::Bare, 4),
    BARE,
    BARE.one_thread(),
    ATTRIBUTES,
    ATTRIBUTES.one_thread(),
    DEFAULTS,
    DEFAULTS.one_thread(),
    AS_MANY,
    AS_MANY.one_thread(),
    MORE,
    Case::new(Side::SqsConsumer, 4),
    NODE,
    PYTHON,
    BARE.failing(10),
    AS_MANY.failing(10),
    NODE.failing(10),
    PYTHON.failing(10),
    BARE.failing(50),
    AS_MANY.failing(50),
    NODE.failing(50),
    PYTHON.failing(50),
    BARE.fifo(),
    BARE.fifo().one_thread(),
    ATTRIBUTES.fifo(),
    ATTRIBUTES.fifo().one_thread(),
    AS_MANY.fifo(),
    AS_MANY.fifo().one_thread(),
    NODE.fifo(),
    PYTHON.fifo(),
];

const MANY_BARE: Case = Case::new(Side::Bare, MANY_POLLS).behind_latency();
const MANY_ATTRIBUTES: Case = Case::new(Side::BareWithAttributes, MANY_POLLS).behind_latency();
const MANY: Case = Case::new(Side::Backstop { in_flight: 1_000 }, MANY_POLLS).behind_latency();

/// Further cases behind latency.
const MORE_POLLS: [Case; 7] = [
    MANY_BARE,
    MANY_BARE.one_thread(),
    MANY_ATTRIBUTES,
    MANY_ATTRIBUTES.one_thread(),
    MANY,
    MANY.one_thread(),
    Case::new(Side::SqsConsumer, MANY_POLLS).behind_latency(),
];

/// All cases, in turns.
pub(crate) const PLAN: [Case; 2 * DIRECT.len() + MORE_POLLS.len()] = {
    let mut cases = [BARE; 2 * DIRECT.len() + MORE_POLLS.len()];
    let mut index = 0;
    while index < DIRECT.len() {
        cases[2 * index] = DIRECT[index];
        cases[2 * index + 1] = DIRECT[index].behind_latency();
        index += 1;
    }
    let mut index = 0;
    while index < MORE_POLLS.len() {
        cases[2 * DIRECT.len() + index] = MORE_POLLS[index];
        index += 1;
    }
    cases
};
