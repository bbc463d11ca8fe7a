//! Who takes part, and what happens to whom: drawn from the seed, before anything begins.

use rand::rngs::ChaCha8Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use serde::Serialize;

use crate::emulators::Kind as Emulator;

/// A queue of the campaign.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: &'static str,
    /// Its place in [`SITES`].
    pub(crate) site: usize,
    pub(crate) fifo: bool,
    pub(crate) hold: &'static str,
    /// How many of 20 messages it gets.
    pub(crate) share: usize,
    /// Whether its worker is the one in Python.
    pub(crate) python: bool,
    /// Whether its policy is a file that changes, or a built-in one.
    pub(crate) file: bool,
    pub(crate) honours_retry_after: bool,
}

pub(crate) const QUEUES: [Queue; 4] = [
    Queue {
        name: "fast",
        site: 0,
        fifo: false,
        hold: "visibility",
        share: 9,
        python: false,
        file: false,
        honours_retry_after: true,
    },
    Queue {
        name: "again",
        site: 0,
        fifo: false,
        hold: "resend",
        share: 4,
        python: true,
        file: true,
        honours_retry_after: false,
    },
    Queue {
        name: "auto",
        site: 1,
        fifo: false,
        hold: "auto",
        share: 5,
        python: false,
        file: true,
        honours_retry_after: false,
    },
    Queue {
        name: "ledger",
        site: 1,
        fifo: true,
        hold: "visibility",
        share: 2,
        python: true,
        file: false,
        honours_retry_after: true,
    },
];

/// The emulators, each with two hosts.
pub(crate) const SITES: [Emulator; 2] = [Emulator::Fauxqs, Emulator::MiniStack];

/// A host of the campaign.
#[derive(Debug)]
pub(crate) struct HostPlan {
    pub(crate) name: &'static str,
    pub(crate) site: usize,
    /// The folder of its cache: two hosts may share one.
    pub(crate) cache: &'static str,
    /// Whether its cache is on a small disk of its own, where one can be mounted.
    pub(crate) small_disk: bool,
    /// Whether its time of day is a file's, where libfaketime is installed.
    pub(crate) own_clock: bool,
}

pub(crate) const HOSTS: [HostPlan; 4] = [
    HostPlan {
        name: "a1",
        site: 0,
        cache: "a1",
        small_disk: true,
        own_clock: false,
    },
    HostPlan {
        name: "a2",
        site: 0,
        cache: "a2",
        small_disk: false,
        own_clock: true,
    },
    HostPlan {
        name: "b1",
        site: 1,
        cache: "b",
        small_disk: false,
        own_clock: true,
    },
    HostPlan {
        name: "b2",
        site: 1,
        cache: "b",
        small_disk: false,
        own_clock: false,
    },
];

/// What program a host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    /// `backstop run`, with workers behind HTTP.
    Command,
    /// A program in Python with the workers inside.
    Python,
    /// The same in Node.js.
    Node,
}

/// The programs of the hosts of a seed: of each site, one of its two hosts has its workers inside, one of them in Python, the other in Node.js.
pub(crate) fn programs(seed: u64) -> Vec<Program> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x7072_6f67_7261_6d73);
    let mut programs = vec![Program::Command; HOSTS.len()];
    let mut inside = [Program::Python, Program::Node];
    inside.shuffle(&mut random);
    for (site, program) in inside.into_iter().enumerate() {
        let of_site = (0..HOSTS.len()).filter(|at| HOSTS[*at].site == site);
        let of_site: Vec<_> = of_site.collect();
        programs[*of_site.choose(&mut random).unwrap()] = program;
    }
    programs
}

pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// In seconds.
pub(crate) const VISIBILITY: u64 = 8;
/// In seconds.
pub(crate) const ATTEMPT_TIMEOUT: u64 = 20;
/// In seconds.
pub(crate) const GRACE: u64 = 5;

/// A part of the connections of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Side {
    Queue,
    Worker,
}

/// What happens. Numbers are places in [`HOSTS`], [`QUEUES`] and [`SITES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// kill -9, and a new start afterwards.
    Kill {
        host: usize,
    },
    /// SIGSTOP, and SIGCONT afterwards.
    Freeze {
        host: usize,
    },
    /// SIGTERM, and a new start when it has ended.
    Restart {
        host: usize,
    },
    Cut {
        host: usize,
        side: Side,
    },
    Slow {
        host: usize,
        side: Side,
    },
    Stall {
        host: usize,
        side: Side,
    },
    /// A third of the requests of a site are throttled, fail, fail in part, or have no answer.
    Refuse {
        site: usize,
    },
    /// fauxqs by kill -9, since it writes each change at once; MiniStack by SIGTERM, since it writes at its end. Both start with their data.
    Emulator {
        site: usize,
    },
    /// kill -9 of the worker of a queue, and a new start afterwards.
    KillWorker {
        queue: usize,
    },
    FreezeWorker {
        queue: usize,
    },
    /// The disk with the cache of the first host has no room.
    FullDisk,
    NoDescriptors {
        host: usize,
    },
    /// No more memory than it has, and four mebibytes.
    LittleMemory {
        host: usize,
    },
    /// The time of day steps by so many seconds, and back.
    Clock {
        host: usize,
        seconds: i64,
    },
    /// A file that is no policy, traps, loops, or is too large takes the place of the policy, and the good one comes back.
    HostilePolicy {
        queue: usize,
        which: usize,
    },
    /// Another version of the policy.
    Swap {
        queue: usize,
        which: usize,
    },
    /// The host is killed or stopped, and its files are damaged before it starts again.
    DamagedState {
        host: usize,
        kill: bool,
    },
    /// The configuration is broken, then SIGHUP; then it is whole again, and SIGHUP.
    BadConfiguration {
        host: usize,
        which: usize,
    },
    Wake {
        queue: usize,
    },
    /// A pause, and a resume afterwards.
    Pause {
        queue: usize,
    },
    Set {
        queue: usize,
    },
    Rollback {
        queue: usize,
    },
    Reconsider {
        queue: usize,
    },
    /// Letters go back.
    Redrive {
        queue: usize,
    },
    /// The same, and kill -9 in the middle, perhaps a damaged journal, and the run is resumed.
    RedriveKilled {
        queue: usize,
        damaged: bool,
    },
    /// A delivery from a file, kill -9 in the middle, perhaps a damaged state, and the same command again.
    Deliver {
        queue: usize,
        damaged: bool,
    },
}

impl Kind {
    /// Its name in the report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kill { .. } => "kill -9 of a host",
            Self::Freeze { .. } => "SIGSTOP and SIGCONT of a host",
            Self::Restart { .. } => "SIGTERM and restart of a host",
            Self::Cut { .. } => "cut connections",
            Self::Slow { .. } => "slow connections",
            Self::Stall { .. } => "stalled connections",
            Self::Refuse { .. } => "refused, failed and lost requests",
            Self::Emulator { .. } => "restart of an emulator",
            Self::KillWorker { .. } => "kill -9 of a worker",
            Self::FreezeWorker { .. } => "SIGSTOP and SIGCONT of a worker",
            Self::FullDisk => "full disk",
            Self::NoDescriptors { .. } => "no descriptors",
            Self::LittleMemory { .. } => "no memory",
            Self::Clock { .. } => "clock step",
            Self::HostilePolicy { .. } => "hostile policy",
            Self::Swap { .. } => "new version of a policy",
            Self::DamagedState { .. } => "damaged state of a host",
            Self::BadConfiguration { .. } => "broken configuration and SIGHUP",
            Self::Wake { .. } => "wake",
            Self::Pause { .. } => "pause and resume",
            Self::Set { .. } => "set",
            Self::Rollback { .. } => "rollback",
            Self::Reconsider { .. } => "reconsider",
            Self::Redrive { .. } => "redrive",
            Self::RedriveKilled { .. } => "redrive, killed and resumed",
            Self::Deliver { .. } => "delivery, killed and run again",
        }
    }
}

/// Something that happens.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Disturbance {
    /// In milliseconds after the begin.
    pub(crate) at: u64,
    /// In milliseconds.
    pub(crate) lasts: u64,
    pub(crate) kind: Kind,
}

/// What happens in so many seconds: about one thing in each, in storms of a half minute with calm between them.
pub(crate) fn draw(seed: u64, seconds: u64) -> Vec<Disturbance> {
    let mut random = ChaCha8Rng::seed_from_u64(seed ^ 0x0063_6861_6f73);
    let mut drawn = Vec::new();
    let mut at = 3_000;
    while at < seconds * 1_000 {
        // The last 15 of each 45 seconds are calm.
        if at % 45_000 < 30_000 {
            let lasts = random.random_range(500..9_000);
            let kind = kind(&mut random);
            drawn.push(Disturbance { at, lasts, kind });
        }
        at += random.random_range(200..1_800);
    }
    drawn
}

fn kind(random: &mut ChaCha8Rng) -> Kind {
    let host = random.random_range(0..HOSTS.len());
    let site = random.random_range(0..SITES.len());
    let queue = random.random_range(0..QUEUES.len());
    let which = random.random_range(0..16);
    let side = *[Side::Queue, Side::Worker].choose(random).unwrap();
    let is_first = random.random_ratio(1, 2);
    let seconds = *[3_600, -3_600, 86_400, -86_400, 300, -300]
        .choose(random)
        .unwrap();
    let with_clock = if is_first { 1 } else { 2 };
    let with_file = if is_first { 1 } else { 2 };
    match random.random_range(0..31) {
        0..2 => Kind::Kill { host },
        2..4 => Kind::Freeze { host },
        4..6 => Kind::Restart { host },
        6..8 => Kind::Cut { host, side },
        8 => Kind::Slow { host, side },
        9 => Kind::Stall { host, side },
        10 => Kind::Refuse { site },
        11 => Kind::Emulator { site },
        12 => Kind::KillWorker { queue },
        13 => Kind::FreezeWorker { queue },
        14 => Kind::FullDisk,
        15 => Kind::NoDescriptors { host },
        16 => Kind::LittleMemory { host },
        17 => Kind::Clock {
            host: with_clock,
            seconds,
        },
        18 => Kind::HostilePolicy {
            queue: with_file,
            which,
        },
        19 => Kind::Swap {
            queue: with_file,
            which,
        },
        20 => Kind::DamagedState {
            host,
            kill: is_first,
        },
        21 => Kind::BadConfiguration { host, which },
        22 | 23 => Kind::Wake { queue },
        24 => Kind::Pause { queue },
        25 => Kind::Set { queue },
        26 => Kind::Rollback { queue: with_file },
        27 => Kind::Reconsider { queue: with_file },
        28 => Kind::Redrive { queue },
        29 => Kind::Deliver {
            queue: queue % 3,
            damaged: is_first,
        },
        _ => Kind::RedriveKilled {
            queue,
            damaged: is_first,
        },
    }
}
