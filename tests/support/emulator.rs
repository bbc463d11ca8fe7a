//! The emulators of SQS, started on a free port at first use and stopped with the test process.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use backstop_core::clock;
use tokio::sync::Mutex;

/// One running emulator.
#[derive(Debug)]
pub struct Emulator {
    /// Its name, for messages.
    pub name: &'static str,
    /// Where it listens.
    pub endpoint: String,
    /// Stops it when this process ends: it runs while its standard input is open.
    _guard: Child,
}

/// ministack: SQS, Lambda and more in one process.
pub fn ministack() -> &'static Emulator {
    static RUNNING: OnceLock<Emulator> = OnceLock::new();
    RUNNING.get_or_init(|| {
        start("ministack", "/_ministack/health", |command, port| {
            command
                .arg(services().join("python/bin/python"))
                .arg(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/services/start_ministack.py"
                ))
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
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/services/fauxqs.mjs");
            command
                .arg(modules.join(".bin/node"))
                .arg(script)
                .arg(modules.join("fauxqs"))
                .arg(port);
        })
    })
}

/// The folder of the test services; `make services` fills it.
pub fn services() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.services");
    assert!(
        folder.join("stamp").exists(),
        "the test services are not installed: run `make services`"
    );
    folder.canonicalize().unwrap()
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
    let port = free_port();
    // The shell stops the emulator when its standard input is closed, which happens however this process ends.
    let mut command = Command::new("sh");
    command.args(["-c", r#""$@" & cat > /dev/null; kill $!"#, "sh"]);
    describe(&mut command, &port.to_string());
    let log = services().join(format!("{name}.{port}.log"));
    let log = std::fs::File::create(log).unwrap();
    let guard = command
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let endpoint = format!("http://127.0.0.1:{port}");
    let started = clock::instant();
    while !answers(port, health) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{name} did not start within a minute"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    Emulator {
        name,
        endpoint,
        _guard: guard,
    }
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
