//! The npm packages: the shim, and a package for each platform.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use backstop_core::clock;
use backstop_tests::npm;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

use super::served::{Files, serve};
use super::world::{one, packages, scenarios, succeeds, works};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What the names of this machine's packages have, and what those of the others have there.
#[cfg(target_arch = "x86_64")]
const OTHERS: [(&str, &str); 3] = [
    ("x64", "arm64"),
    ("x64-gnu", "x64-musl"),
    ("x64-gnu", "arm64-musl"),
];
#[cfg(not(target_arch = "x86_64"))]
const OTHERS: [(&str, &str); 3] = [
    ("arm64", "x64"),
    ("arm64-gnu", "arm64-musl"),
    ("arm64-gnu", "x64-musl"),
];

/// A registry of npm with the packages in a folder.
struct Registry {
    url: String,
}

impl Registry {
    async fn of(tarballs: &[PathBuf]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut files = Files::new();
        for tarball in tarballs {
            let (about, content) = (about(tarball), std::fs::read(tarball).unwrap());
            files.extend(document(&url, about.clone(), Some(&content)));
            files.insert(
                format!("/{}", tarball.file_name().unwrap().to_str().unwrap()),
                content,
            );
            let name = about["name"].as_str().unwrap().to_owned();
            for (from, to) in OTHERS {
                // A package for another platform, which npm reads and does not fetch here.
                if let Some((before, after)) = name.split_once(from) {
                    let mut about = about.clone();
                    about["name"] = format!("{before}{to}{after}").into();
                    about["cpu"] = json!(["s390x"]);
                    files.extend(document(&url, about, None));
                }
            }
        }
        serve(listener, files);
        Self { url }
    }

    /// npm in a folder, with nothing of this machine's own settings.
    fn npm(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut npm = Command::new("npm");
        npm.args(arguments)
            .args(["--registry", &self.url, "--cache"])
            .arg(folder.join("cache"));
        npm.args([
            "--userconfig",
            "/dev/null",
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
        ]);
        npm.current_dir(folder)
            .env("HOME", folder)
            .stdin(Stdio::null());
        npm
    }
}

/// What npm calls this processor.
fn cpu() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "x64"
    } else {
        "arm64"
    }
}

/// The `package.json` in a tarball.
fn about(tarball: &Path) -> Value {
    let mut tar = Command::new("tar");
    let text = succeeds(tar.arg("-xzOf").arg(tarball).arg("package/package.json"));
    serde_json::from_str(&text).unwrap()
}

/// What a registry says of a package with one version.
fn document(url: &str, mut about: Value, content: Option<&[u8]>) -> Files {
    let (name, version) = (
        about["name"].as_str().unwrap().to_owned(),
        about["version"].as_str().unwrap().to_owned(),
    );
    let file = format!(
        "{}-{version}.tgz",
        name.trim_start_matches('@').replace('/', "-")
    );
    let digest = STANDARD.encode(Sha256::digest(content.unwrap_or_default()));
    about["dist"] =
        json!({ "tarball": format!("{url}/{file}"), "integrity": format!("sha256-{digest}") });
    let document = json!({ "name": name, "dist-tags": { "latest": version }, "versions": { &version: about } });
    let path = format!("/{}", name.replace('/', "%2f"));
    HashMap::from([(path, document.to_string().into_bytes())])
}

#[tokio::test(flavor = "multi_thread")]
async fn npm_installs_what_this_platform_needs_and_locks_the_packages_of_all() {
    for package in ["node", "node-retry"] {
        npm::built(package);
    }
    let made = packages("npm");
    let tarballs = [
        one(made.path(), &format!("linux-{}-{VERSION}.tgz", cpu())),
        one(made.path(), &format!("linux-{}-gnu-{VERSION}.tgz", cpu())),
        one(made.path(), &format!("backstop-sqs-{VERSION}.tgz")),
        one(made.path(), &format!("backstop-retry-{VERSION}.tgz")),
    ];
    let registry = Registry::of(&tarballs).await;
    let folder = made.path().join("project");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("package.json"), "{}").unwrap();
    succeeds(&mut registry.npm(&folder, &["install", "backstop-sqs", "backstop-retry"]));
    let lock = std::fs::read_to_string(folder.join("package-lock.json")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    for platform in [
        "x64",
        "arm64",
        "x64-gnu",
        "x64-musl",
        "arm64-gnu",
        "arm64-musl",
    ] {
        let locked = &lock["packages"][format!("node_modules/@backstop-sqs/linux-{platform}")];
        assert_eq!(locked["optional"], true, "{platform}: {lock}");
    }
    let own = about(&tarballs[1]);
    assert_eq!(
        (&own["cpu"], &own["libc"]),
        (&json!([cpu()]), &json!(["glibc"]))
    );
    // On another machine, from the lock file.
    std::fs::remove_dir_all(folder.join("node_modules")).unwrap();
    succeeds(&mut registry.npm(&folder, &["ci"]));

    let scenarios = scenarios();
    let shim = folder.join("node_modules/.bin/backstop");
    let command = |arguments: &[&str]| {
        let mut command = Command::new(&shim);
        command.args(arguments).env("HOME", &folder);
        command
    };
    works(&command, scenarios.to_str().unwrap());
    let once = registry
        .npm(
            &folder,
            &["exec", "--yes", "--", "backstop-sqs", "--version"],
        )
        .output()
        .unwrap();
    assert_eq!(once.stdout, format!("backstop {VERSION}\n").as_bytes());
    serves_a_queue(&folder);
    let failed = command(&["nonsense"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    stops_as_the_program_does(command(&[
        "run",
        "--queue-url",
        "local:orders",
        "--exec",
        "true",
    ]));

    // Installed without what is optional.
    std::fs::remove_dir_all(folder.join("node_modules/@backstop-sqs")).unwrap();
    let missing = command(&["--version"]).output().unwrap();
    let explained = String::from_utf8(missing.stderr).unwrap();
    assert!(
        explained.contains(&format!("@backstop-sqs/linux-{} is not installed", cpu())),
        "{explained}"
    );
}

/// A worker in Node.js, a decision that the installed command compiles, and a call that is retried.
fn serves_a_queue(folder: &Path) {
    let program = "
        import { Policy, worker } from 'backstop-sqs';
        import { retrier } from 'backstop-retry';
        const seen = [];
        const handle = async (message) => void seen.push(message.body);
        const counts = await worker({ queueUrl: 'local:orders', messages: ['a'], cache: 'off', handle }).run();
        const policy = await Policy.load('linear', { settings: { base: '3s' } });
        const retry = await retrier();
        console.log(seen, counts.succeeded, policy.decide({ code: 'HTTP 503' }).delay, await retry(() => 5));
    ";
    std::fs::write(folder.join("worker.mjs"), program).unwrap();
    let mut node = Command::new("node");
    node.current_dir(folder).env("HOME", folder);
    // Its log follows.
    let said = succeeds(node.arg("worker.mjs"));
    assert!(said.starts_with("[ 'a' ] 1 3000 5\n"), "{said}");
}

/// A service manager signals the shim alone.
fn stops_as_the_program_does(mut run: Command) {
    let mut running = run.stderr(Stdio::piped()).spawn().unwrap();
    let mut log = std::io::BufReader::new(running.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains(" ready") {
        line.clear();
        assert_ne!(
            std::io::BufRead::read_line(&mut log, &mut line).unwrap(),
            0,
            "it has ended"
        );
    }
    kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
    let started = clock::instant();
    let status = running.wait().unwrap();
    assert!(
        status.success() && started.elapsed() < Duration::from_secs(60),
        "{status}"
    );
}
