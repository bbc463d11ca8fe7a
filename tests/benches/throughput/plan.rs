//! Which sides run in which settings.

use crate::packages::{self, Language};
use crate::work::Load;

/// Rounds of the main comparison.
const ROUNDS: usize = 7;

/// Rounds of the other cases.
const OTHER_ROUNDS: usize = 3;

/// fauxqs keeps the messages of a queue in an array. One of more than 14,021 is a large object of V8, which moves all of it for each message that leaves: the benchmark would measure that.
const AT_STEADY_COST: usize = 14_000;

/// The bytes of all messages of a run, at most: what fauxqs keeps in memory.
const AT_MOST: usize = 64 << 20;

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
    /// The same, which posts each message to a worker, all of a batch at once.
    BareHttp,
    /// Backstop's library with a Rust function.
    Backstop { in_flight: usize },
    /// The `backstop` command, which posts each message to a worker.
    Command { in_flight: usize },
    /// `sqs-consumer` of npm.
    SqsConsumer,
    /// Loops of receive and delete in threads, with boto3.
    Boto3,
    /// Backstop's module for Python with a function, which runs in threads.
    PythonFunction { in_flight: usize },
    /// The same with a coroutine function.
    PythonCoroutine { in_flight: usize },
    /// Loops of receive in one event loop, with aiobotocore.
    Aiobotocore { in_flight: usize },
    /// Backstop's package for Node.js.
    Node { in_flight: usize },
}

impl Side {
    /// The most messages in flight, for the sides that limit them.
    pub(crate) fn in_flight(self) -> usize {
        match self {
            Self::Backstop { in_flight }
            | Self::Command { in_flight }
            | Self::PythonFunction { in_flight }
            | Self::PythonCoroutine { in_flight }
            | Self::Node { in_flight }
            | Self::Aiobotocore { in_flight } => in_flight,
            Self::Bare
            | Self::BareWithAttributes
            | Self::BareHttp
            | Self::SqsConsumer
            | Self::Boto3 => 0,
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        self.is_package() || matches!(self, Self::Backstop { .. } | Self::Command { .. })
    }

    /// Whether it is a package of another language with the host in it.
    pub(crate) fn is_package(self) -> bool {
        matches!(
            self,
            Self::PythonFunction { .. } | Self::PythonCoroutine { .. } | Self::Node { .. }
        )
    }

    pub(crate) fn has_http_worker(self) -> bool {
        matches!(self, Self::BareHttp | Self::Command { .. })
    }
}

/// What grows in a table; everything else stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    Size,
    Attributes,
    Threads,
    Queues,
}

/// One side in one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) side: Side,
    /// Loops, consumers or threads; the most polls of Backstop.
    pub(crate) polls: usize,
    pub(crate) latency: Latency,
    /// How many of a hundred messages fail.
    pub(crate) failing: usize,
    pub(crate) fifo: bool,
    /// The worker threads of tokio, where not one for each processor: the emulator needs a processor, too.
    pub(crate) threads: Option<usize>,
    /// The bytes of a body, at least.
    pub(crate) bytes: usize,
    /// The attributes that each message has.
    pub(crate) sent_attributes: usize,
    /// Queues that share the messages, the polls and what is in flight.
    pub(crate) queues: usize,
    growth: Option<Growth>,
    /// The language whose workers are compared, in the report's chapter about them.
    pub(crate) language: Option<Language>,
    pub(crate) load: Load,
}

impl Case {
    pub(crate) const fn new(side: Side, polls: usize) -> Self {
        Self {
            side,
            polls,
            latency: Latency::None,
            failing: 0,
            fifo: false,
            threads: None,
            bytes: 1,
            sent_attributes: 0,
            queues: 1,
            growth: None,
            language: None,
            load: Load::None,
        }
    }

    /// With this work, in the comparison of a language's workers.
    pub(crate) fn of(self, language: Language, load: Load) -> Self {
        let language = Some(language);
        Self {
            language,
            load,
            ..self
        }
    }

    pub(crate) const fn failing(self, failing: usize) -> Self {
        Self { failing, ..self }
    }

    const fn fifo(self) -> Self {
        Self { fifo: true, ..self }
    }

    const fn one_thread(self) -> Self {
        Self {
            threads: Some(1),
            ..self
        }
    }

    pub(crate) const fn behind_latency(self) -> Self {
        let latency = Latency::TenMilliseconds;
        Self { latency, ..self }
    }

    fn grown(self, growth: Growth, to: usize) -> Self {
        let growth = Some(growth);
        let case = Self { growth, ..self };
        match growth {
            Some(Growth::Size) => Self { bytes: to, ..case },
            Some(Growth::Attributes) => Self {
                sent_attributes: to,
                ..case
            },
            Some(Growth::Threads) => Self {
                threads: Some(to),
                ..case
            },
            Some(Growth::Queues) => Self { queues: to, ..case },
            None => case,
        }
    }

    /// Whether the report's chapter about growth has it.
    pub(crate) fn grows(&self) -> bool {
        self.growth.is_some()
    }

    /// What the table calls the side.
    pub(crate) fn name(&self) -> String {
        let polls = self.polls;
        let name = match self.side {
            Side::Bare => format!("bare loop, {polls} pollers"),
            Side::BareWithAttributes => format!("bare loop with attributes, {polls} pollers"),
            Side::BareHttp => format!("bare loop that posts to the worker, {polls} pollers"),
            Side::Backstop { in_flight } => {
                format!("Backstop, {polls} polls, {in_flight} in flight")
            }
            Side::Command { in_flight } => {
                format!("the backstop command, {polls} polls, {in_flight} in flight")
            }
            Side::SqsConsumer => format!("sqs-consumer, {polls} consumers"),
            Side::Boto3 => format!("boto3, {polls} threads"),
            Side::PythonFunction { .. } => "Backstop, a function in threads".to_owned(),
            Side::PythonCoroutine { .. } => "Backstop, a coroutine function".to_owned(),
            Side::Node { .. } => "Backstop, an async function".to_owned(),
            Side::Aiobotocore { in_flight } => {
                format!("aiobotocore, {polls} loops, {in_flight} in flight")
            }
        };
        match (self.growth, self.threads) {
            (Some(Growth::Size), _) => format!("{name}, {} B", self.bytes),
            (Some(Growth::Attributes), _) => format!("{name}, {} attributes", self.sent_attributes),
            (Some(Growth::Queues), _) => format!("{name}, {} queues", self.queues),
            (_, Some(1)) => format!("{name}, 1 thread"),
            (_, Some(threads)) => format!("{name}, {threads} threads"),
            (_, None) => name,
        }
    }

    /// The title of the table that has it.
    pub(crate) fn table(&self) -> String {
        let (queue, latency) = (self.queue(), self.latency.name());
        if let Some(language) = self.language {
            let (name, load) = (language.name(), self.load.name());
            return format!("{name}, {load}, {latency}, {} of 100 fail", self.failing);
        }
        match self.growth {
            Some(Growth::Size) => "The size of a message".to_owned(),
            Some(Growth::Attributes) => "Attributes of 100 bytes, all asked for".to_owned(),
            Some(Growth::Threads) => "Worker threads".to_owned(),
            Some(Growth::Queues) => {
                "Queues that share the messages, served by one process".to_owned()
            }
            None if self.side.has_http_worker() => {
                format!("With a worker behind HTTP, {queue}, {latency}")
            }
            None => format!(
                "{}, {latency}, {} % failing",
                capitalised(queue),
                self.failing
            ),
        }
    }

    /// The side and its setting.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.name(), self.table())
    }

    /// The kind of queue.
    fn queue(&self) -> &'static str {
        if self.fifo {
            "FIFO queue"
        } else {
            "standard queue"
        }
    }

    /// As many for all sides: a run takes about half a second or more.
    pub(crate) fn messages(&self) -> usize {
        let most = match (self.load, self.failing) {
            (Load::Computes, _) => 3_000,
            (Load::None, 0) => {
                AT_STEADY_COST.min(AT_MOST / (self.bytes + 100 * self.sent_attributes))
            }
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
        match (self.failing, self.fifo, self.growth, self.language) {
            (0, false, None, None) => ROUNDS,
            (_, _, _, Some(_)) => packages::ROUNDS,
            _ => OTHER_ROUNDS,
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
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

/// All cases without latency. The same follow behind it.
const DIRECT: [Case; 34] = [
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
    Case::new(Side::BareHttp, 16),
    Case::new(Side::BareHttp, 16).one_thread(),
    Case::new(Side::Command { in_flight: 160 }, 16),
    Case::new(Side::Command { in_flight: 160 }, 16).one_thread(),
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

/// Further cases behind latency.
const MORE_POLLS: [Case; 7] = [
    Case::new(Side::Bare, MANY_POLLS),
    Case::new(Side::Bare, MANY_POLLS).one_thread(),
    Case::new(Side::BareWithAttributes, MANY_POLLS),
    Case::new(Side::BareWithAttributes, MANY_POLLS).one_thread(),
    Case::new(Side::Backstop { in_flight: 1_000 }, MANY_POLLS),
    Case::new(Side::Backstop { in_flight: 1_000 }, MANY_POLLS).one_thread(),
    Case::new(Side::SqsConsumer, MANY_POLLS),
];

/// The sides that grow.
const GROWING: [Case; 2] = [ATTRIBUTES, AS_MANY];

const SIZES: [usize; 5] = [100, 1 << 10, 16 << 10, 64 << 10, 200 << 10];
const NUMBERS_OF_ATTRIBUTES: [usize; 4] = [0, 1, 5, 10];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
const QUEUES: [usize; 4] = [1, 4, 16, 100];

/// All cases, in turns.
pub(crate) fn plan() -> Vec<Case> {
    let mut cases: Vec<_> = DIRECT
        .into_iter()
        .flat_map(|case| [case, case.behind_latency()])
        .collect();
    cases.extend(MORE_POLLS.map(Case::behind_latency));
    for (growth, steps) in [
        (Growth::Size, SIZES.as_slice()),
        (Growth::Attributes, &NUMBERS_OF_ATTRIBUTES),
        (Growth::Threads, &THREADS),
        (Growth::Queues, &QUEUES),
    ] {
        for step in steps {
            cases.extend(GROWING.map(|case| case.grown(growth, *step)));
        }
    }
    cases.extend(packages::cases());
    cases
}
