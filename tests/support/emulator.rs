//! The emulators of SQS, started on a free port at first use.
//!
//! Under cargo-nextest, which gives each test a process, the tests that run one after the other in a slot share its emulators; they stop with the run. Otherwise the tests of a process share them, and they stop with it.

use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use backstop_core::clock;
use tokio::sync::Mutex;

use crate::documents::top;

/// One running emulator.
#[derive(Debug)]
pub struct Emulator {
    /// Its name, for messages.
    pub name: &'static str,
    /// Where it listens.
    pub endpoint: String,
    /// Stops it. It belongs to this process or to the run: see [`Slot`].
    _guard: Option<Child>,
}

/// The place of one test in a run of cargo-nextest: no two tests of the run are in it at the same time.
struct Slot {
    run: String,
    /// The process of cargo-nextest, which is the parent of each test's.
    runner: u32,
    number: String,
}

impl Slot {
    /// That of this process; none under `cargo test`.
    fn of_this_process() -> Option<Self> {
        Some(Self {
            run: std::env::var("NEXTEST_RUN_ID").ok()?,
            runner: std::os::unix::process::parent_id(),
            number: std::env::var("NEXTEST_TEST_GLOBAL_SLOT").ok()?,
        })
    }

    /// The port of the emulator that an earlier test of this run and this slot has started and written to this file.
    fn running(&self, file: &Path, health: &str) -> Option<u16> {
        let written = std::fs::read_to_string(file).ok()?;
        let (run, port) = written.split_once(' ')?;
        let port = port.parse().ok()?;
        (run == self.run && answers(port, health)).then_some(port)
    }
}

/// ministack: SQS, Lambda and more in one process.
pub fn ministack() -> &'static Emulator {
    static RUNNING: OnceLock<Emulator> = OnceLock::new();
    RUNNING.get_or_init(|| {
        start("ministack", "/_ministack/health", |command, port| {
            command
                .arg(services().join("python/bin/python"))
                .arg(top().join("tests/services/start_ministack.py"))
                .env("BIND_HOST", "127.0.0.1")
                .env("GATEWAY_PORT", port);
        })
    })
}

/// Held by a test that uses SQS on [`moto`]: it serves one client at a time.
pub static MOTO: Mutex<()> = Mutex::const_new(());

/// moto: the stricter one about visibility limits.
pub fn moto() -> &'static Emulator {
    static RUNNING: OnceLock<Emulator> = OnceLock::new();
    RUNNING.get_or_init(|| {
        start("moto", "/moto-api/", |command, port| {
            command
                .arg(services().join("python/bin/moto_server"))
                .args(["-H", "127.0.0.1", "-p", port]);
        })
    })
}

/// fauxqs: standard queues only, fast and steady with a backlog. For benchmarks.
pub fn fauxqs() -> &'static Emulator {
    static RUNNING: OnceLock<Emulator> = OnceLock::new();
    RUNNING.get_or_init(|| {
        start("fauxqs", "/health", |command, port| {
            let modules = services().join("node_modules");
            command
                .arg(modules.join(".bin/node"))
                .arg(top().join("tests/services/fauxqs.mjs"))
                .arg(modules.join("fauxqs"))
                .arg(port);
        })
    })
}

/// The folder of the test services; `make services` fills it.
pub fn services() -> PathBuf {
    let folder = top().join(".services");
    assert!(
        folder.join("stamp").exists(),
        "the test services are not installed: run `make services`"
    );
    folder.canonicalize().unwrap()
}

/// The folder of what the tests that run now share.
pub(crate) fn running() -> PathBuf {
    let folder = services().join("running");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A free port.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn start(name: &'static str, health: &str, describe: impl Fn(&mut Command, &str)) -> Emulator {
    let emulator = |port, guard| Emulator {
        name,
        endpoint: format!("http://127.0.0.1:{port}"),
        _guard: guard,
    };
    let slot = Slot::of_this_process();
    let place = match &slot {
        Some(slot) => slot.number.clone(),
        None => program_name(),
    };
    let written = running().join(format!("{name}.{place}"));
    if let Some(port) = slot
        .as_ref()
        .and_then(|slot| slot.running(&written, health))
    {
        return emulator(port, None);
    }

    let port = free_port();
    let mut command = Command::new("sh");
    match &slot {
        // Its standard input is closed however this process ends.
        None => command.args(["-c", r#""$@" & cat > /dev/null; kill $!"#, "sh"]),
        // Apart from the test, whose group of processes the runner may end.
        Some(slot) => command
            .args([
                "-c",
                r#"runner=$1; shift; "$@" & while kill -0 "$runner" 2> /dev/null; do sleep 1; done; kill $!"#,
                "sh",
                &slot.runner.to_string(),
            ])
            .process_group(0),
    };
    describe(&mut command, &port.to_string());
    let log = std::fs::File::create(written.with_added_extension("log")).unwrap();
    let guard = command
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let started = clock::instant();
    while !answers(port, health) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{name} did not start within a minute"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    if let Some(slot) = &slot {
        std::fs::write(&written, format!("{} {port}", slot.run)).unwrap();
    }
    emulator(port, Some(guard))
}

/// The name of this test program, for the name of a log.
fn program_name() -> String {
    let program = std::env::current_exe().unwrap();
    program.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Whether a server on this port answers a request for this path with 200.
pub(crate) fn answers(port: u16, path: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}
