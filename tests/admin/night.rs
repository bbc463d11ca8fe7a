//! A night of three hosts, ended on the page of one of them: the worker is down, somebody saves a policy that dead-letters everything, and all letters come home. `NIGHT_MESSAGES=10000` plays it with 20,000 messages, and prints how long each step took.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::{free_port, ministack};
use backstop_tests::eventually;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::worker::Worker;
use serde_json::Value;
use tempfile::TempDir;

use super::page::{Person, button, button_with};
use super::world::TOKEN;

/// A policy that gives up at once.
fn gives_up() -> String {
    Rule {
        judge: Some("(i32.const 128)"),
        ..Rule::default()
    }
    .text()
}

struct Night {
    folder: TempDir,
    hosts: Vec<Running>,
    queues: Queues,
    name: String,
    is_down: Arc<AtomicBool>,
    worker: Worker,
    ana: Person,
    began: std::time::Instant,
}

impl Night {
    async fn begin() -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
        let name = queues.url.rsplit('/').next().unwrap().to_owned();
        let is_down = Arc::new(AtomicBool::new(true));
        let down = Arc::clone(&is_down);
        let worker = Worker::answering(move |_| if down.load(Relaxed) { 503 } else { 200 }).await;
        let folder = tempfile::tempdir().unwrap();
        let at = |file: &str| folder.path().join(file).to_str().unwrap().to_owned();
        std::fs::write(at("token"), TOKEN).unwrap();
        std::fs::write(at("policy.wat"), waits(3_600_000)).unwrap();
        let ports = [free_port(), free_port(), free_port()];
        let urls = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let mut hosts = Vec::new();
        for (number, port) in ports.iter().enumerate() {
            let config = format!(
                "endpoint-url = {:?}\nadmin = \"127.0.0.1:{port}\"\nadmin-token-file = {:?}\nfleet = {urls:?}\ndecisions = {{ record = {:?} }}\n[policies]\ncache = {:?}\n[queues.{name}]\nurl = {:?}\ndead-letter-queue = {:?}\npolicy = {:?}\nhandler = {{ http = {:?} }}\ngrace = \"2s\"\ndepth-poll = \"5s\"\nidle-poll = \"1s\"\n",
                queues.endpoint,
                at("token"),
                at(&format!("records-{number}.jsonl")),
                at(&format!("cache-{number}")),
                queues.url,
                queues.dead_letters,
                at("policy.wat"),
                worker.url,
            );
            let file = at(&format!("host-{number}.toml"));
            std::fs::write(&file, config).unwrap();
            let mut host = command(&["run", "--json", "--config", &file]);
            host.env("BACKSTOP_STATE", at("runs"));
            hosts.push(Running::start_command(host).await);
        }
        let mut ana = Person::at(&urls[0]);
        ana.sign_in("Ana", TOKEN).await;
        Self {
            folder,
            hosts,
            queues,
            name,
            is_down,
            worker,
            ana,
            began: tokio::time::Instant::now().into_std(),
        }
    }

    /// Says what is done by now, and after how long.
    #[expect(clippy::print_stderr, reason = "a figure to read")]
    fn done(&mut self, what: &str) {
        let took = self.began.elapsed();
        eprintln!("{:>7.1} s  {what}", took.as_secs_f64());
        self.began = tokio::time::Instant::now().into_std();
    }

    async fn shows(&self, path: &str, text: &str) {
        eventually(text, async || self.ana.see(path).await.1.contains(text)).await;
    }

    fn saves(&self, policy: &str) {
        let new = self.folder.path().join("new.wat");
        std::fs::write(&new, policy).unwrap();
        std::fs::rename(new, self.folder.path().join("policy.wat")).unwrap();
    }

    async fn presses(&self, path: &str, action: &str) -> Value {
        let (_, view) = self.ana.see(path).await;
        let act = match action {
            "" => button(&view),
            action => button_with(&view, action),
        };
        let (status, done) = self.ana.act(&act).await;
        assert!(status.is_success(), "{status} {done} {view}");
        done
    }
}

/// `1,000`, as the page writes it.
fn count(number: usize) -> String {
    match (number / 1_000, number % 1_000) {
        (0, rest) => rest.to_string(),
        (thousands, rest) => format!("{thousands},{rest:03}"),
    }
}

impl Night {
    /// All that are sent while the worker is down wait, and all that are sent after the swap are dead.
    async fn disaster(&mut self, messages: usize) {
        let waiting = format!("/waiting?queue={}", self.name);
        let orders =
            |kind: &'static str| (0..messages).map(move |number| format!("{kind}-{number}"));
        self.queues.send(orders("early")).await;
        let all = format!("<strong>{}</strong> messages wait", count(messages));
        self.shows(&waiting, &all).await;
        self.done("the worker is down: all that were sent wait");
        self.saves(&gives_up());
        for host in &self.hosts {
            eventually("each host has the version", async || {
                host.log().contains("a new version of the policy is active")
            })
            .await;
        }
        self.queues.send(orders("late")).await;
        eventually("all of these are dead", async || {
            self.queues.dead().await == messages
        })
        .await;
        self.is_down.store(false, Relaxed);
        self.done("a policy that gives up was saved: all that were sent since are dead; the worker is back");
    }

    /// The output of a command that succeeds.
    async fn runs(&self, arguments: &[&str]) -> String {
        let config = self.folder.path().join("host-0.toml");
        let all = [arguments, &["--config", config.to_str().unwrap()]].concat();
        let mut command = command(&all);
        let command = command
            .env("BACKSTOP_STATE", self.folder.path().join("runs"))
            .env("USER", "ana");
        let output = command.output().await.unwrap();
        assert!(output.status.success(), "{all:?} {}", text(&output.stderr));
        text(&output.stdout)
    }

    async fn all_are_home(&self) {
        eventually("the letters are home and done", async || {
            (self.queues.dead().await, self.queues.held().await) == (0, 0)
        })
        .await;
    }

    /// Nothing was lost, and nothing was done twice.
    fn each_was_done_once(&self, messages: usize) {
        let handled = self.worker.attempts();
        assert_eq!(
            handled.len(),
            4 * messages,
            "each failed once and succeeded once"
        );
        let early = handled.iter().filter(|it| it.body.starts_with("early"));
        assert_eq!(early.count(), 2 * messages);
    }
}

fn messages() -> usize {
    std::env::var("NIGHT_MESSAGES").map_or(150, |it| it.parse().unwrap())
}

#[tokio::test]
async fn a_night_of_three_hosts_ends_with_the_commands() {
    let messages = messages();
    let mut night = Night::begin().await;
    let name = night.name.clone();
    night.disaster(messages).await;
    let status = night.runs(&["status"]).await;
    assert!(status.contains(&name), "{status}");
    let rolled_back = night.runs(&["policy", "rollback", &name]).await;
    assert!(rolled_back.contains("rolled back"), "{rolled_back}");
    night.done("looked, and rolled back at all hosts");
    night
        .runs(&["wake", &name, "--all", "--spread", "0s"])
        .await;
    eventually("what waited is done", async || {
        night.queues.held().await == 0
    })
    .await;
    night.done("woken, and done");
    let ids = night.folder.path().join("ids.jsonl");
    let ids = ids.to_str().unwrap();
    let triage = night
        .runs(&["dlq", "triage", &name, "--reset-attempts", "--save", ids])
        .await;
    assert!(triage.contains("would be retried"), "{triage}");
    night.done("the dead letters are triaged");
    let moved = [
        "dlq",
        "redrive",
        &name,
        "--ids",
        ids,
        "--ramp",
        "10,all",
        "--watch-for",
        "1s",
        "--why",
        "a policy that gave up",
    ];
    night.runs(&moved).await;
    night.all_are_home().await;
    night.done("the letters are home and done");
    night.each_was_done_once(messages);
}

#[tokio::test]
async fn a_night_of_three_hosts_ends_on_the_page_of_one() {
    let messages = messages();
    let mut night = Night::begin().await;
    let (name, all) = (night.name.clone(), count(messages));
    let letters = format!("/dead-letters?queue={name}");
    night.disaster(messages).await;

    // What the page says, before anybody does anything.
    night.shows("/", "swap to").await;
    night
        .shows(
            "/",
            &format!("<dt>in the dead-letter queues</dt><dd><a href=\"/dead-letters?queue={name}\">{all}</a></dd>"),
        )
        .await;
    night.done("the overview shows the swap and the dead letters");
    let done = night.presses("/policies", "rollback").await;
    assert_eq!(
        done["summary"], "Done at 3 of 3 hosts: rolled back.",
        "{done}"
    );
    night.done("rolled back at all hosts");
    let done = night
        .presses(&format!("/waiting/wake?queue={name}&all=yes&spread=0"), "")
        .await;
    assert_eq!(done["is_part"], false, "{done}");
    eventually("what waited is done", async || {
        night.queues.held().await == 0
    })
    .await;
    night.done("woken, and done");

    night.presses(&letters, "survey").await;
    night
        .shows(
            &letters,
            &format!("<strong>{all}</strong> letters were seen"),
        )
        .await;
    night.done("the dead letters are surveyed");
    let (_, view) = night.ana.see(&format!("{letters}&grouped-by=policy")).await;
    let value = |name: &str| {
        let start = format!("name=\"{name}\" value=\"");
        view.split(&start)
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .to_owned()
    };
    let preview = format!(
        "/dead-letters/redrive?queue={name}&host={}&survey={}&grouped-by=policy&group={}&only=retry&ramp=10,all&watch-for=1s&why=a+policy+that+gave+up",
        value("host"),
        value("survey"),
        value("group")
    );
    let begun = night.presses(&preview, "").await;
    assert!(
        begun["summary"].as_str().unwrap().contains("has begun"),
        "{begun}"
    );
    night.shows("/redrives", ">done</strong>").await;
    night.all_are_home().await;
    night.done("the letters are home and done");
    night.each_was_done_once(messages);

    // The page of another host tells the same.
    let mut bob = Person::at(&night.hosts[2].admin());
    bob.sign_in("Bob", TOKEN).await;
    let (_, runs) = bob.see("/redrives").await;
    assert!(
        runs.contains("a policy that gave up") && runs.contains("Ana"),
        "{runs}"
    );
    let (_, audit) = bob.see("/audit").await;
    for action in ["rollback", "wake", "survey", "redrive"] {
        assert!(audit.contains(action), "{action} {audit}");
    }
}
