//! The control socket of running hosts: the status of policies, and rollbacks.

use std::path::Path;

use backstop_engine::PolicyDigest;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, serve, text};
use backstop_tests::compiler::{Held, heavy};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use backstop_tests::worker::Worker;
use serde_json::Value;
use tempfile::TempDir;

/// A host that serves one queue with a policy in a folder of the test's own.
struct Host {
    folder: TempDir,
    running: Running,
    _worker: Worker,
}

impl Host {
    async fn start(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let worker = Worker::by_name().await;
        std::fs::write(folder.path().join("policy.wat"), waits(1)).unwrap();
        let queues = Queues::standard(&ministack().endpoint, &[]).await;
        let policy = folder.path().join("policy.wat");
        let cache = folder.path().join("kept");
        let policy = ["--policy", policy.to_str().unwrap()];
        let cache = ["--cache", cache.to_str().unwrap()];
        let running = serve(&queues, &worker, &[&policy[..], &cache, more].concat()).await;
        Self {
            folder,
            running,
            _worker: worker,
        }
    }

    fn write(&self, text: &str) {
        std::fs::write(self.folder.path().join("policy.wat"), text).unwrap();
    }

    async fn swaps(&self, count: usize) {
        eventually("the new version decides", || async {
            let log = self.running.log();
            log.matches("a new version of the policy is active").count() == count
        })
        .await;
    }

    /// A subcommand of `backstop policy` for this host: its exit code, its output and its errors.
    async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let cache = self.folder.path().join("kept");
        run(&cache, arguments).await
    }

    async fn status(&self) -> Value {
        let (code, printed, error) = self.run(&["status", "--json"]).await;
        assert_eq!(code, 0, "{error}");
        let answer: Value = serde_json::from_str(&printed).unwrap();
        assert_eq!(answer["process"], self.running.id());
        answer["queues"][0]["policy"].clone()
    }
}

async fn run(cache: &Path, arguments: &[&str]) -> (i32, String, String) {
    let arguments = [
        &["policy"],
        arguments,
        &["--cache", cache.to_str().unwrap()],
    ]
    .concat();
    let output = command(&arguments)
        .env_remove("BACKSTOP_CACHE")
        .output()
        .await
        .unwrap();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

fn digest(wait: u32) -> String {
    PolicyDigest::of(waits(wait).as_bytes()).to_string()
}

#[tokio::test]
async fn a_host_reports_the_active_version_and_rolls_back_on_request() {
    let host = Host::start(&[]).await;
    let status = host.status().await;
    assert_eq!(status["live"][0]["digest"], digest(1).as_str());
    assert_eq!(status["before"], Value::Null);
    let (code, _, error) = host.run(&["rollback"]).await;
    assert_eq!(code, 4);
    assert!(error.contains("no version before"), "{error}");

    host.write(&waits(2));
    host.swaps(1).await;
    host.write("(module");
    eventually("the refusal is shown", || async {
        host.status().await["refused"].is_string()
    })
    .await;
    let status = host.status().await;
    assert_eq!(status["live"][0]["digest"], digest(2).as_str());
    assert!(
        status["before"]
            .as_str()
            .unwrap()
            .contains(&digest(1)[7..19])
    );

    let (code, printed, _) = host.run(&["rollback"]).await;
    assert_eq!(code, 0);
    assert!(printed.contains("rolled back from"), "{printed}");
    assert_eq!(host.status().await["live"][0]["digest"], digest(1).as_str());
    // It is not tried again although it is there again, but another one is.
    host.write(&waits(2));
    host.write(&waits(3));
    host.swaps(2).await;
    assert_eq!(host.status().await["live"][0]["digest"], digest(3).as_str());
    let (code, printed, _) = host.run(&["status"]).await;
    assert!(
        code == 0 && printed.contains("active      ") && printed.contains("source      "),
        "{printed}"
    );
    // Nothing happens to one queue when another is misspelt.
    let (_, printed, _) = host.run(&["status", "--json"]).await;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let queue = printed["queues"][0]["queue"].as_str().unwrap();
    let (code, _, error) = host.run(&["rollback", queue, "unknown"]).await;
    assert_eq!(code, 5);
    assert!(error.contains("`unknown`"), "{error}");
    assert_eq!(host.status().await["live"][0]["digest"], digest(3).as_str());
    let cache = host.folder.path().join("kept");
    assert_eq!(host.running.stop().await.0, 0);

    let (code, _, error) = run(&cache, &["status"]).await;
    assert_eq!(code, 5);
    assert!(
        error.contains("no running host uses the cache folder"),
        "{error}"
    );
    assert_eq!(cache.join("running").read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn a_host_reports_the_version_being_compiled_until_a_newer_file_ends_it() {
    let host = Host::start(&[]).await;
    assert_eq!(host.status().await["compiling"], Value::Null);
    host.write(&heavy(2));
    let held = Held::of(host.running.id());
    let compiling = &host.status().await["compiling"];
    let heavy = PolicyDigest::of(heavy(2).as_bytes());
    assert_eq!(compiling["version"], heavy.short());
    assert!(compiling["since"].is_u64(), "{compiling}");
    let (_, printed, _) = host.run(&["status"]).await;
    assert!(printed.contains("compiling "), "{printed}");
    host.write(&waits(3));
    host.swaps(1).await;
    held.gone();
    let status = host.status().await;
    assert_eq!(status["live"][0]["digest"], digest(3).as_str());
    assert_eq!(
        (&status["compiling"], &status["refused"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(host.running.stop().await.0, 0);
}

#[tokio::test]
async fn the_socket_of_a_killed_host_is_not_a_host() {
    let host = Host::start(&[]).await;
    let cache = host.folder.path().join("kept");
    host.running.kill().await;
    assert_eq!(cache.join("running").read_dir().unwrap().count(), 1);
    assert_eq!(run(&cache, &["status"]).await.0, 5);
    assert_eq!(cache.join("running").read_dir().unwrap().count(), 0);
}

#[tokio::test]
async fn the_folder_of_the_socket_is_its_owners_alone() {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let host = Host::start(&[]).await;
    let cache = host.folder.path().join("kept");
    let sockets: Vec<_> = cache.join("running").read_dir().unwrap().collect();
    assert_eq!(sockets.len(), 1);
    let socket = sockets[0].as_ref().unwrap();
    assert!(socket.file_type().unwrap().is_socket());
    for folder in [cache.join("running"), cache] {
        let mode = folder.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "{}", folder.display());
    }
    assert_eq!(host.running.stop().await.0, 0);
}

#[tokio::test]
async fn a_folder_that_others_may_write_to_is_refused_with_advice() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let arguments = [
        "run",
        "--queue-url",
        "local:try",
        "--exec",
        "true",
        "--cache",
        folder.path().to_str().unwrap(),
    ];
    let output = command(&arguments).output().await.unwrap();
    assert_eq!(output.status.code(), Some(3));
    let error = text(&output.stderr);
    assert!(error.contains("can be written to by others"), "{error}");
    assert!(error.contains("mode 0700"), "{error}");
}
