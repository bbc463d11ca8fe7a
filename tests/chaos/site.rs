//! Everything that takes part: emulators, proxies, queues, workers and hosts, and the log of what happens to them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::documents::top;
use backstop_tests::emulator::services;
use backstop_tests::policies::waits;
use backstop_tests::proxy::{ALL, Fault, Proxy};
use serde::Serialize;
use serde_json::Value;

use crate::Settings;
use crate::emulators::Emulator;
use crate::host::Host;
use crate::link::Link;
use crate::lying::Planted;
use crate::messages::Planned;
use crate::plan::{HOSTS, HostPlan, Kind, Program, QUEUES, SITES, programs};
use crate::producers::Sent;
use crate::programs::Packages;
use crate::workers::WorkerProcess;

/// The size of the disk of a host's cache.
pub(crate) const SMALL_DISK: &str = "48m";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) folder: PathBuf,
    pub(crate) emulators: Vec<Emulator>,
    /// Whether a third of the requests of a site go wrong.
    pub(crate) refuses: Vec<Arc<AtomicBool>>,
    /// Of the queues and their dead-letter queues.
    pub(crate) urls: Vec<(String, String)>,
    pub(crate) workers: Vec<WorkerProcess>,
    pub(crate) hosts: Vec<Host>,
    /// The folder of the small disk, if it could be mounted.
    pub(crate) small_disk: Option<PathBuf>,
    pub(crate) log: Mutex<Log>,
}

/// What happens, and what is seen to be wrong while it happens.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) windows: Vec<Window>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) wrong: Vec<String>,
    pub(crate) skipped: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// Disturbances of hosts that were disturbed already.
    pub(crate) left_out: u32,
    /// What `backstop deliver` was given; with what it has sent, if it says so.
    pub(crate) delivered: Vec<(Planned, Option<Sent>)>,
    /// The most memory of each host, in mebibytes.
    pub(crate) memory: std::collections::BTreeMap<&'static str, f64>,
    /// How long each stop took, in milliseconds.
    pub(crate) stops: Vec<u64>,
}

/// A disturbance as it was carried out.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Window {
    /// In milliseconds since 1970.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) kind: Kind,
    /// The hosts that it concerns.
    pub(crate) hosts: Vec<&'static str>,
}

/// What an operator was told.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Claim {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) what: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) cache: String,
    pub(crate) exit: i32,
    pub(crate) answers: Vec<Value>,
}

impl World {
    pub(crate) async fn start(settings: Settings) -> Self {
        let folder = settings.folder.clone();
        std::fs::create_dir_all(&folder).unwrap();
        let mut log = Log::default();
        let (mut emulators, mut refuses, mut proxies) = (Vec::new(), Vec::new(), Vec::new());
        for kind in SITES {
            let emulator = Emulator::start(kind, &folder.join(format!("{kind:?}"))).await;
            let refuse = Arc::new(AtomicBool::new(false));
            let plan = plan_of_requests(Arc::clone(&refuse), settings.plant.clone());
            let proxy = Proxy::start(&emulator.endpoint(), plan).await;
            proxies.push(port_of(&proxy.endpoint));
            refuses.push(refuse);
            emulators.push(emulator);
        }
        let mut urls = Vec::new();
        for queue in &QUEUES {
            urls.push(make(&emulators[queue.site], queue.name, queue.fifo).await);
        }
        let mut workers = Vec::new();
        for queue in 0..QUEUES.len() {
            let forgets = settings.plant.contains(&Planted::Forgets);
            workers.push(WorkerProcess::start(queue, &folder, forgets).await);
        }
        let small = HOSTS.iter().find(|it| it.small_disk).unwrap();
        let small_disk = mount(&folder.join(format!("cache-{}", small.cache)), &mut log);
        for at in 0..QUEUES.len() {
            crate::files::replace(&policy_file(&folder, at), waits(1_500).as_bytes());
        }
        std::fs::write(folder.join("envelope-key"), "5e".repeat(32)).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.join("envelope-key"), private).unwrap();
        let library = faketime(&mut log);
        let packages = Arc::new(Packages::build());
        let mut hosts = Vec::new();
        for (plan, program) in HOSTS.iter().zip(programs(settings.seed)) {
            let port = proxies[plan.site];
            let installed = (Arc::clone(&packages), library.as_deref());
            hosts.push(host(plan, program, &folder, port, &workers, installed).await);
        }
        let world = Self {
            settings,
            folder,
            emulators,
            refuses,
            urls,
            workers,
            hosts,
            small_disk,
            log: Mutex::new(log),
        };
        for host in &world.hosts {
            std::fs::write(host.config(), world.config(host)).unwrap();
        }
        world
    }

    pub(crate) fn policy_file(&self, queue: usize) -> PathBuf {
        policy_file(&self.folder, queue)
    }

    pub(crate) fn hosts_of(&self, site: usize) -> Vec<&'static str> {
        let of = self.hosts.iter().filter(|it| it.plan.site == site);
        of.map(|it| it.plan.name).collect()
    }

    /// The hosts of a site whose workers are other processes.
    pub(crate) fn posting_hosts_of(&self, site: usize) -> Vec<&'static str> {
        let of = self.hosts.iter().filter(|it| it.plan.site == site);
        of.filter(|it| it.program == Program::Command)
            .map(|it| it.plan.name)
            .collect()
    }

    /// The caches of the hosts that serve a queue.
    pub(crate) fn caches(&self, queue: usize) -> Vec<PathBuf> {
        let serving = self.hosts.iter().filter(|it| it.serves(queue));
        let mut caches: Vec<_> = serving.map(|it| it.cache.clone()).collect();
        caches.dedup();
        caches
    }

    /// Whether a fault is planted.
    pub(crate) fn has(&self, planted: Planted) -> bool {
        self.settings.plant.contains(&planted)
    }

    /// What must not be.
    pub(crate) fn wrong(&self, text: impl Into<String>) {
        let text = text.into();
        println!("  WRONG: {text}");
        self.log.lock().unwrap().wrong.push(text);
    }

    pub(crate) fn note(&self, text: impl Into<String>) {
        let text = format!("{} {}", clock::now().0, text.into());
        self.log.lock().unwrap().notes.push(text);
    }
}

fn policy_file(folder: &Path, queue: usize) -> PathBuf {
    let policies = folder.join("policies");
    std::fs::create_dir_all(&policies).unwrap();
    policies.join(format!("{}.wat", QUEUES[queue].name))
}

fn port_of(endpoint: &str) -> u16 {
    endpoint.rsplit(':').next().unwrap().parse().unwrap()
}

fn plan_of_requests(
    refuses: Arc<AtomicBool>,
    planted: Vec<Planted>,
) -> impl Fn(&str, u64) -> Fault + Send + Sync + 'static {
    move |operation, number| {
        let swallowed = match operation {
            // Some of them, so that something ends.
            "DeleteMessageBatch" if number % 3 == 0 => Some(Planted::SwallowsDeletes),
            "SendMessageBatch" => Some(Planted::SwallowsLetters),
            "ChangeMessageVisibilityBatch" => Some(Planted::SwallowsVisibility),
            _ => None,
        };
        if swallowed.is_some_and(|it| planted.contains(&it)) {
            return Fault::Pretended;
        }
        let draw = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        if !refuses.load(Ordering::Relaxed) || operation == "GetQueueAttributes" || draw % 3 != 0 {
            return Fault::None;
        }
        ALL[usize::try_from(draw / 3).unwrap() % ALL.len()]
    }
}

/// A queue and its dead-letter queue: their URLs.
async fn make(emulator: &Emulator, name: &str, fifo: bool) -> (String, String) {
    let suffix = if fifo { ".fifo" } else { "" };
    let create = async |name: String| {
        let mut create = emulator.client.create_queue().queue_name(name);
        if fifo {
            create = create.attributes(Q::FifoQueue, "true");
        }
        create.send().await.unwrap().queue_url.unwrap()
    };
    (
        create(format!("{name}{suffix}")).await,
        create(format!("{name}-dead{suffix}")).await,
    )
}

async fn host(
    plan: &'static HostPlan,
    program: Program,
    folder: &Path,
    emulator: u16,
    workers: &[WorkerProcess],
    (packages, library): (Arc<Packages>, Option<&Path>),
) -> Host {
    let own = folder.join(plan.name);
    std::fs::create_dir_all(&own).unwrap();
    let mut to_workers = Vec::new();
    for (at, worker) in workers.iter().enumerate() {
        if QUEUES[at].site == plan.site {
            to_workers.push((at, Link::to(worker.port).await));
        }
    }
    let cache = folder
        .join(format!("cache-{}", plan.cache))
        .join("backstop");
    std::fs::create_dir_all(cache.parent().unwrap()).unwrap();
    let clock = library.filter(|_| plan.own_clock).map(|library| {
        let file = own.join("clock");
        std::fs::write(&file, "+0\n").unwrap();
        (library.to_owned(), file)
    });
    Host {
        plan,
        program,
        packages,
        to_queue: Link::to(emulator).await,
        to_workers,
        cache,
        folder: own,
        clock,
        process: tokio::sync::Mutex::default(),
    }
}

/// A disk that can be full.
fn mount(at: &Path, log: &mut Log) -> Option<PathBuf> {
    std::fs::create_dir_all(at).unwrap();
    let options = format!("size={SMALL_DISK},mode=0700");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
        .arg(at)
        .output();
    match mounted {
        Ok(output) if output.status.success() => Some(at.to_owned()),
        failed => {
            let why = failed.map(|it| String::from_utf8_lossy(&it.stderr).trim().to_owned());
            let why = why.unwrap_or_else(|error| error.to_string());
            log.skipped
                .push(format!("full disk: no tmpfs can be mounted here ({why})"));
            None
        }
    }
}

/// The library by which a process has a time of day of its own.
fn faketime(log: &mut Log) -> Option<PathBuf> {
    let library = services().join("faketime/libfaketimeMT.so.1");
    if library.exists() {
        return Some(library);
    }
    let script = top().join("tests/chaos/faketime.sh");
    log.skipped.push(format!(
        "clock step: libfaketime is not installed, which {} does where apt-get is",
        script.display()
    ));
    None
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(disk) = &self.small_disk {
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}
