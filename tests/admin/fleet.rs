//! Several hosts: those behind a name, one that does not answer, versions that differ, and rollbacks that would reach further than they say.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::free_port;
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::world::World;

/// A host of two queues with one policy, whose admin interface is at this address.
struct Host {
    running: Running,
    folder: TempDir,
    address: String,
}

impl Host {
    async fn at(address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.wat"), waits(1)).unwrap();
        let queue = |name: &str| {
            format!(
                "[queues.{name}]\nurl = \"local:{name}\"\nhandler = {{ exec = \"true\" }}\npolicy = \"policy.wat\"\ngrace = \"1s\"\n"
            )
        };
        let config = format!(
            "admin = \"{address}\"\n[policies]\ncache = \"cache\"\n{}{}",
            queue("orders"),
            queue("bills")
        );
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, config).unwrap();
        let arguments = ["run", "--json", "--config", path.to_str().unwrap()];
        let running = Running::start_command(command(&arguments)).await;
        let address = running.admin();
        Self {
            running,
            folder,
            address,
        }
    }

    /// Activates another version of the policy.
    async fn swap(&self, seconds: u32) {
        let swaps = || {
            let log = self.running.log();
            log.matches("a new version of the policy is active").count()
        };
        let before = swaps();
        std::fs::write(self.folder.path().join("policy.wat"), waits(seconds)).unwrap();
        eventually("the new version is active", || async { swaps() > before }).await;
    }
}

/// The exit code and all output of a command for hosts at these addresses.
async fn run(arguments: &[&str], admin: &[&str]) -> (i32, String) {
    let admin = admin.iter().flat_map(|url| ["--admin", url]);
    let arguments: Vec<_> = arguments.iter().copied().chain(admin).collect();
    let output = command(&arguments).output().await.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

#[tokio::test]
async fn an_action_that_reaches_a_part_of_the_hosts_says_so_and_soon() {
    let [one, two, three] = [
        Host::at("127.0.0.1:0").await,
        Host::at("127.0.0.1:0").await,
        Host::at("127.0.0.1:0").await,
    ];
    let all = [&*one.address, &two.address, &three.address];
    let (code, said) = run(&["pause", "orders"], &all).await;
    assert_eq!(
        (code, said.matches("paused until").count()),
        (0, 3),
        "{said}"
    );
    // It lives, and does not answer.
    three.running.signal(Signal::STOP);
    for (arguments, done) in [
        (&["resume", "orders"][..], "resumed"),
        (&["set", "orders", "rate=5/s"], "5/s"),
        (&["wake", "orders", "--all"], "no waiting message"),
        (&["policy", "reconsider", "orders"], "decided again"),
    ] {
        let started = Instant::now();
        let (code, said) = run(arguments, &all).await;
        let took = started.elapsed();
        assert!(said.contains(done), "{said}");
        assert!(
            said.contains("only 2 of 3 hosts have carried it out"),
            "{said}"
        );
        assert!(said.contains(&three.address), "{said}");
        assert_eq!(code, 10, "{said}");
        assert!(took < Duration::from_secs(6), "{took:?}");
    }
    // A host that is silent has not ended.
    let (code, said) = run(&["drain", "--wait", "2s"], &[&three.address]).await;
    assert!(code == 5 && !said.contains("ended after"), "{said}");
    // Looking is no action.
    let (code, said) = run(&["status"], &all).await;
    assert!(
        code == 0 && said.contains("a host does not answer"),
        "{said}"
    );
    three.running.signal(Signal::CONT);
    let (code, said) = run(&["resume", "orders"], &all).await;
    assert_eq!(
        (code, said.matches("was not paused").count()),
        (0, 2),
        "{said}"
    );
    for host in [one, two, three] {
        host.running.stop().await;
    }
}

#[tokio::test]
async fn every_host_behind_a_name_is_asked() {
    let port = free_port();
    // One host on each address of the name: on most machines it has that of IPv6, too.
    let found = tokio::net::lookup_host(("localhost", port)).await.unwrap();
    let addresses: BTreeSet<_> = found.collect();
    let mut hosts = Vec::new();
    for address in &addresses {
        hosts.push(Host::at(&address.to_string()).await);
    }
    let all = format!("dns+http://localhost:{port}");
    let mut command = command(&["pause", "bills", "--json"]);
    let output = command.env("BACKSTOP_ADMIN", &all).output().await.unwrap();
    let said = text(&output.stdout);
    let lines = said.lines();
    let answers = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let processes: BTreeSet<_> = answers.map(|it| it["process"].as_u64().unwrap()).collect();
    let expected = hosts.iter().map(|it| u64::from(it.running.id()));
    assert_eq!(processes, expected.collect(), "{}", text(&output.stderr));
    for (url, expected) in [
        (
            "dns+http://nobody.invalid:9465",
            "there are no hosts behind",
        ),
        (
            "dns+ftp://localhost:9465",
            "is not the URL of a host's admin interface",
        ),
    ] {
        let (code, said) = run(&["status"], &[url]).await;
        assert!(code != 0 && said.contains(expected), "{code}: {said}");
    }
    for host in hosts {
        host.running.stop().await;
    }
}

#[tokio::test]
async fn a_rollback_reaches_no_further_than_it_says_and_is_not_done_twice() {
    let [one, two] = [Host::at("127.0.0.1:0").await, Host::at("127.0.0.1:0").await];
    let all = [&*one.address, &two.address];
    one.swap(2).await;
    two.swap(2).await;
    two.swap(3).await;
    let (code, said) = run(&["policy", "status"], &all).await;
    assert!(
        code == 0 && said.contains("orders has 2 active versions"),
        "{said}"
    );
    let (code, said) = run(&["policy", "rollback", "orders"], &all).await;
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("`bills` have the same policy"), "{said}");
    let status = async |url: &str| {
        let (_, said) = run(&["policy", "status", "--json"], &[url]).await;
        let status: Value = serde_json::from_str(&said).unwrap();
        let part = &status["queues"][0]["policy"]["live"][0];
        part["digest"].as_str().unwrap().to_owned()
    };
    let bad = status(&two.address).await;
    let from = bad
        .trim_start_matches("sha256:")
        .get(..12)
        .unwrap()
        .to_owned();
    let arguments = [
        "policy",
        "rollback",
        "orders",
        "--all-queues",
        "--from",
        &from,
    ];
    for _ in 0..2 {
        let (code, said) = run(&arguments, &all).await;
        assert!(
            code == 4 && said.contains("nothing was rolled back"),
            "{said}"
        );
        // The healthy host keeps its version, and the other one is moved once.
        assert_eq!(status(&one.address).await, status(&two.address).await);
    }
    let (code, said) = run(&["policy", "rollback", "--from", "12"], &all).await;
    assert!(
        code == 5 && said.contains("at least 8 digits"),
        "{code}: {said}"
    );
    for host in [one, two] {
        host.running.stop().await;
    }
}

/// A folder whose configuration has this fleet, and this file with the token.
fn folder_of(fleet: &str, token_file: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "fleet = {fleet}\nadmin = \"127.0.0.1:1\"\nadmin-token-file = \"{token_file}\"\n[queues.orders]\nurl = \"local:orders\"\nhandler = {{ exec = \"true\" }}\n"
    );
    std::fs::write(folder.path().join("backstop.toml"), config).unwrap();
    folder
}

/// The exit code and all output of a command in a folder, with these variables.
async fn run_in(folder: &TempDir, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = command(arguments);
    command.current_dir(folder).env_remove("BACKSTOP_CACHE");
    let output = command.envs(variables.iter().copied()).output().await;
    let output = output.unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

#[tokio::test]
async fn a_configuration_that_is_named_says_which_hosts_are_asked() {
    let world = World::with_token(&[]).await;
    let token = world.at("token");
    let folder = folder_of(&format!("[\"{}\"]", world.url), token.to_str().unwrap());
    let named = ["status", "--config", "backstop.toml"];
    let nobody = ("BACKSTOP_ADMIN", "http://127.0.0.1:1");
    let flag = ["status", "--admin", &world.url];
    let secret = std::fs::read_to_string(&token).unwrap();
    let right = ("BACKSTOP_ADMIN_TOKEN", secret.trim());
    let wrong = ("BACKSTOP_ADMIN_TOKEN", "another-token-of-somebody");
    for (arguments, variables, code, expected) in [
        (&named[..], &[][..], 0, "is polled"),
        // The file that names the hosts says which token is theirs. Two that name hosts are one too many.
        (&named, &[wrong], 0, "is polled"),
        (&named, &[nobody], 2, "both name hosts"),
        (&flag, &[nobody, right], 0, "is polled"),
        (
            &[&flag[..], &named[1..]].concat(),
            &[],
            2,
            "cannot be used with",
        ),
    ] {
        let (found, said) = run_in(&folder, arguments, variables).await;
        assert!(
            found == code && said.contains(expected),
            "{arguments:?} {found}: {said}"
        );
    }
    for (fleet, expected) in [
        ("[]", "line 1, column 1: fleet: no host"),
        (
            "[\"backstop:9465\"]",
            "fleet: `backstop:9465` is not the URL of a host's admin",
        ),
        (
            "[\"http://user:secret@10.0.0.7\"]",
            "is not the URL of a host's admin",
        ),
    ] {
        let (code, said) = run_in(&folder_of(fleet, "token"), &named, &[]).await;
        assert!(code == 3 && said.contains(expected), "{code}: {said}");
    }
    world.running.stop().await;
}

/// Anybody may have written a file that happens to be in the working directory.
#[tokio::test]
async fn a_configuration_that_happens_to_be_here_gets_no_token() {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let fleet = format!("[\"http://{}\"]", stranger.local_addr().unwrap());
    let folder = folder_of(&fleet, "secret");
    std::fs::write(folder.path().join("secret"), "a-secret-of-this-user").unwrap();
    let token = [("BACKSTOP_ADMIN_TOKEN", "a-token-of-this-user")];
    for arguments in [
        &["status"][..],
        &["pause", "orders"],
        &["why", "5fea7756-0ea4-451a-a703-a558b933e274"],
        &["policy", "status"],
    ] {
        let cache = folder.path().join("cache");
        let variables = [&token[..], &[("XDG_CACHE_HOME", cache.to_str().unwrap())]].concat();
        let (_, said) = run_in(&folder, arguments, &variables).await;
        assert!(
            said.contains("`fleet` counts if --config names the file"),
            "{said}"
        );
        let error = stranger.accept().unwrap_err();
        assert_eq!(
            error.kind(),
            std::io::ErrorKind::WouldBlock,
            "{arguments:?}"
        );
    }
    let file = ["status", "--admin-token-file", "secret"];
    let (code, said) = run_in(&folder, &file, &token).await;
    assert!(
        code == 2 && said.contains("those of this machine need no token"),
        "{said}"
    );
    assert!(stranger.accept().is_err());
}
