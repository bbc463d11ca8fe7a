//! A real OCI registry, Debian's docker-registry, with a folder and a port of its own. A stopped registry can be started again with its content.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use backstop_core::clock;
use tempfile::TempDir;

use crate::emulator::{answers, free_port, services};

/// The user of a registry that requires a login.
pub const USER: &str = "tester";

/// Their password.
pub const PASSWORD: &str = "open sesame";

/// `PASSWORD` as htpasswd keeps it.
const HASH: &str = "$2y$05$abcdefghijklmnopqrstuupx2xBUC4954936wVIjyyPHmUBFu0wCW";

/// A registry; it ends when this is dropped, or with the test process.
#[derive(Debug)]
pub struct Registry {
    folder: TempDir,
    port: u16,
    running: Option<Child>,
}

impl Registry {
    /// A registry with anonymous access.
    pub fn start() -> Self {
        Self::with_login("")
    }

    /// A registry that [`USER`] may use.
    pub fn start_with_login() -> Self {
        Self::with_login("auth: {htpasswd: {realm: tests, path: FOLDER/htpasswd}}\n")
    }

    fn with_login(auth: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: FOLDER/storage}}, delete: {{enabled: true}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n{auth}"
        );
        let config = config.replace("FOLDER", folder.path().to_str().unwrap());
        std::fs::write(folder.path().join("config.yml"), config).unwrap();
        std::fs::write(folder.path().join("htpasswd"), format!("{USER}:{HASH}\n")).unwrap();
        let mut registry = Self {
            folder,
            port,
            running: None,
        };
        registry.restart();
        registry
    }

    /// Its host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The URL of a policy in it.
    pub fn url(&self, name: &str) -> String {
        format!("oci://{}/policies/{name}", self.address())
    }

    /// Where it keeps the content of a digest.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let blobs = self.folder.path().join("storage/docker/registry/v2/blobs");
        blobs.join("sha256").join(&hex[..2]).join(hex).join("data")
    }

    /// What it has logged: each request with its method, path and status.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Stops it.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else {
            return;
        };
        drop(running.stdin.take());
        running.wait().unwrap();
        self.wait_until("ended", false);
    }

    /// Restarts it on its port.
    pub fn restart(&mut self) {
        self.stop();
        let program = services().join("registry/docker-registry");
        assert!(
            program.exists(),
            "the registry is not installed: run `make services`"
        );
        let log = self.folder.path().join("log");
        let log = std::fs::File::options().create(true).append(true).open(log);
        let log = log.unwrap();
        // The shell stops it when its standard input is closed, which happens however this process ends.
        let running = Command::new("sh")
            .args(["-c", r#""$@" & cat > /dev/null; kill $!; wait"#, "sh"])
            .arg(program)
            .arg("serve")
            .arg(self.folder.path().join("config.yml"))
            .stdin(Stdio::piped())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.running = Some(running);
        self.wait_until("started", true);
    }

    fn wait_until(&self, what: &str, expected: bool) {
        let started = clock::instant();
        while answers(self.port, "/") != expected {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "the registry has not {what} within 30 s:\n{}",
                self.log()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if let Some(mut running) = self.running.take() {
            drop(running.stdin.take());
            let _ = running.wait();
        }
    }
}
