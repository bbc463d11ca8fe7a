//! Dead letters on the page: a survey is made once and seen by everybody, a run moves the letters that were chosen and no others, and it is stopped and goes on.

use std::path::PathBuf;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::page::{Person, button, button_with};
use super::schema::hold;

/// Where the worker is down: nothing succeeds.
struct Shop {
    folder: TempDir,
    queues: Queues,
    running: Running,
    /// The queue's name, as the host calls it.
    name: String,
    ana: Person,
}

impl Shop {
    /// 30 orders die: 21 because the worker was down, and 9 because they are wrong.
    async fn closed() -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
        let name = queues.url.rsplit('/').next().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let (down, work) = (folder.path().join("down"), folder.path().join("work.sh"));
        std::fs::write(&down, "").unwrap();
        let script = format!(
            "read -r it\ncase $it in *[789]) echo 'no such article' >&2; exit 65;; esac\ntest -e {} || exit 0\necho 'the till is closed' >&2; exit 75\n",
            down.display()
        );
        std::fs::write(&work, script).unwrap();
        let records = folder.path().join("records.jsonl").display().to_string();
        let exec = format!("sh {}", work.display());
        let more = [
            "--exec",
            &exec,
            "--policy",
            "linear",
            "--set",
            "base=1s",
            "--max-attempts",
            "2",
            "--admin",
            "127.0.0.1:0",
            "--decisions",
            &records,
        ];
        let arguments = [
            &["run", "--json", "--grace", "2s"][..],
            &queues.arguments(),
            &more,
        ];
        let mut host = command(&arguments.concat());
        host.env("BACKSTOP_STATE", folder.path().join("runs"));
        let running = Running::start_command(host).await;
        let mut ana = Person::at(&running.admin());
        ana.sign_in("Ana", "").await;
        let shop = Self {
            folder,
            queues,
            running,
            name,
            ana,
        };
        shop.orders(0..30).await;
        shop.has_dead(30).await;
        shop
    }

    /// Sends orders with these numbers.
    async fn orders(&self, numbers: std::ops::Range<u32>) {
        let body = |number| json!({ "number": number, "tenant": format!("t{}", number % 3) });
        let bodies = numbers.map(|number| format!("{} {number}", body(number)));
        self.queues.send(bodies).await;
    }

    async fn has_dead(&self, letters: usize) {
        eventually("the orders are dead", async || {
            self.queues.dead().await == letters
        })
        .await;
    }

    fn open(&self) {
        std::fs::remove_file(self.folder.path().join("down")).unwrap();
    }

    fn at(&self, more: &str) -> String {
        format!("/dead-letters?queue={}{more}", self.name)
    }

    /// Asks for a survey, and waits until it has found something new.
    async fn survey(&self, pointer: &str) -> Value {
        let before = self.found("cause").await["survey"].clone();
        let (_, view) = self.ana.see(&self.at("")).await;
        let form = view.split("&quot;survey&quot;").next().unwrap();
        assert!(form.contains("data-act"), "{view}");
        let mut act = button_with(&view, "survey");
        act["pointer"] = pointer.into();
        let (status, begun) = self.ana.act(&act).await;
        assert_eq!(begun["summary"], "A survey has begun.", "{status} {begun}");
        eventually("the survey has ended", async || {
            let found = self.found("cause").await;
            !found.is_null() && found["survey"] != before
        })
        .await;
        self.found("cause").await
    }

    /// What the last survey has found, as JSON.
    async fn found(&self, by: &str) -> Value {
        let path = format!(
            "{}/v1/dead-letters?queue={}&grouped-by={by}",
            self.ana.url, self.name
        );
        let answer: Value = reqwest::get(path).await.unwrap().json().await.unwrap();
        hold("GET /v1/dead-letters", &answer);
        answer["queues"][0]["found"].clone()
    }

    /// The preview of a run for the groups whose key has this text.
    async fn preview(&self, found: &Value, of: &str, more: &str) -> String {
        let groups = found["groups"].as_array().unwrap().iter();
        let groups = groups.filter(|group| group["key"].to_string().contains(of));
        let groups: Vec<_> = groups
            .map(|group| format!("&group={}", group["id"].as_str().unwrap()))
            .collect();
        assert!(!groups.is_empty(), "{of} in {found:#}");
        let (_, view) = self.ana.see(&self.at("")).await;
        let host = view.split("name=\"host\" value=\"").nth(1).unwrap();
        let host = host.split('"').next().unwrap();
        let path = format!(
            "/dead-letters/redrive?queue={}&host={host}&survey={}&grouped-by={}{}{more}",
            self.name,
            found["survey"].as_str().unwrap(),
            found["grouped-by"].as_str().unwrap(),
            groups.concat()
        );
        self.ana.see(&path).await.1
    }

    /// The newest run, once it has this outcome.
    async fn run(&self, outcome: &str) -> Value {
        let newest = async || {
            let path = format!("{}/v1/redrives", self.ana.url);
            let answer: Value = reqwest::get(path).await.unwrap().json().await.unwrap();
            hold("GET /v1/redrives", &answer);
            answer["runs"][0].clone()
        };
        eventually(outcome, async || newest().await["outcome"] == outcome).await;
        newest().await
    }

    fn copies(&self, run: &Value) -> PathBuf {
        self.folder
            .path()
            .join("runs")
            .join(run["run"].as_str().unwrap())
            .join("copies.jsonl")
    }
}

#[tokio::test]
async fn a_run_moves_the_letters_that_were_chosen_from_a_survey_and_no_others() {
    let shop = Shop::closed().await;
    let (_, view) = shop.ana.see(&shop.at("")).await;
    assert!(view.contains("Nobody has surveyed"), "{view}");
    let found = shop.survey("").await;
    assert_eq!(found["letters"], 30, "{found:#}");
    assert_eq!(found["verdicts"], json!({ "retry": 21, "dead-letter": 9 }));
    // Everybody sees it, and looking is no receive.
    let receives = receives(&shop).await;
    let mut bob = Person::at(&shop.ana.url);
    bob.sign_in("Bob", "").await;
    for by in [
        "cause",
        "policy",
        "fingerprint",
        "origin",
        "source",
        "answer",
    ] {
        let path = shop.at(&format!("&grouped-by={by}"));
        let (status, view) = bob.see(&path).await;
        assert!(
            status == StatusCode::OK && view.contains("<strong>30</strong> letters were seen"),
            "{by} {view}"
        );
    }
    assert_eq!(self::receives(&shop).await, receives);

    // Somebody sends another order, which dies of the same cause after the survey.
    shop.orders(30..31).await;
    shop.has_dead(31).await;
    shop.open();
    let preview = shop
        .preview(
            &found,
            "max-attempts",
            "&only=retry&ramp=5,all&watch-for=1s&keep-copies=yes&why=the+till+is+open",
        )
        .await;
    assert!(
        preview.contains("<strong>21</strong> letters would be moved"),
        "{preview}"
    );
    let (status, begun) = shop.ana.act(&button(&preview)).await;
    assert!(
        begun["summary"].as_str().unwrap().contains("has begun"),
        "{status} {begun}"
    );
    let run = shop.run("done").await;
    let counts = ["letters", "moved", "failed-again", "refused"].map(|it| run[it].clone());
    assert_eq!(
        counts,
        [json!(21), json!(21), json!(0), json!(0)],
        "{run:#}"
    );
    assert!(run["who"].as_str().unwrap().contains("Ana"), "{run:#}");
    assert_eq!(run["why"], "the till is open");
    shop.has_dead(10).await;
    let copies = std::fs::read_to_string(shop.copies(&run)).unwrap();
    assert_eq!(copies.lines().count(), 21);

    // The page shows it, and the command knows it, too.
    let id = run["run"].as_str().unwrap();
    let (_, view) = shop.ana.see("/redrives").await;
    assert!(
        view.contains(id) && view.contains("the till is open"),
        "{view}"
    );
    let path = format!("{}/v1/redrives/{id}", shop.ana.url);
    let detail: Value = reqwest::get(path).await.unwrap().json().await.unwrap();
    hold("GET /v1/redrives/ID", &detail);
    let (_, view) = shop.ana.see(&format!("/redrives?run={id}")).await;
    assert!(view.contains(id), "{view}");
    let runs = command(&["dlq", "runs", id, "--json"])
        .env("BACKSTOP_STATE", shop.folder.path().join("runs"))
        .output()
        .await
        .unwrap();
    let runs: Value = serde_json::from_slice(&runs.stdout).unwrap();
    assert_eq!(
        (&runs["outcome"], &runs["moved"]),
        (&json!("done"), &json!(21))
    );
    // The whole life of one of them, with the death, the run and the success.
    let mut lives = Vec::new();
    for group in found["groups"].as_array().unwrap() {
        let id = group["samples"][0].as_str().unwrap();
        lives.push(shop.ana.see(&format!("/message?id={id}")).await.1);
    }
    let told = |life: &String| {
        let parts = [
            "attempt 2 failed",
            "dead lettered",
            "redriven",
            "attempt 1 succeeded",
        ];
        parts.iter().all(|part| life.contains(part))
    };
    assert!(lives.iter().any(told), "{lives:#?}");
    let (_, audit) = shop.ana.see("/audit").await;
    let started = format!("21 letters chosen, the run {id} has begun");
    assert!(audit.contains(&started), "{audit}");
    drop(shop.running);
}

/// The sum of the receive counts of the letters that a look finds.
async fn receives(shop: &Shop) -> u32 {
    let path = format!("{}/metrics", shop.ana.url);
    let text = reqwest::get(path).await.unwrap().text().await.unwrap();
    let lines = text.lines().filter(|line| {
        line.starts_with("backstop_sqs_requests_total")
            && line.contains("\"ReceiveMessage\"")
            && line.contains("dead")
    });
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap())
        .sum()
}

#[tokio::test]
async fn a_run_is_stopped_and_goes_on_and_what_has_changed_since_is_refused() {
    let shop = Shop::closed().await;
    let found = shop.survey("").await;
    shop.open();
    let slow = shop
        .preview(&found, "max-attempts", "&only=all&rate=3/s")
        .await;
    let (_, begun) = shop.ana.act(&button(&slow)).await;
    assert!(
        begun["summary"].as_str().unwrap().ends_with("has begun."),
        "{begun}"
    );
    let running = shop.run("running").await;
    assert_eq!(running["here"], true, "{running:#}");
    // While it runs, nobody starts another run or a survey of these letters.
    let (status, second) = shop.ana.act(&button(&slow)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{second}");
    let (_, view) = shop.ana.see(&shop.at("")).await;
    let (status, survey) = shop.ana.act(&button_with(&view, "survey")).await;
    assert_eq!(status, StatusCode::CONFLICT, "{survey}");

    let (_, view) = shop.ana.see("/redrives").await;
    let (_, stopped) = shop.ana.act(&button_with(&view, "stop-run")).await;
    assert!(
        stopped["summary"].as_str().unwrap().starts_with("It stops"),
        "{stopped}"
    );
    let stopped = shop.run("interrupted").await;
    assert!(
        stopped["moved"].as_u64().unwrap() < 21 && stopped["can-resume"] == true,
        "{stopped:#}"
    );
    let (_, view) = shop.ana.see("/redrives").await;
    let (_, resumed) = shop.ana.act(&button_with(&view, "resume-run")).await;
    assert!(
        resumed["summary"]
            .as_str()
            .unwrap()
            .starts_with("It goes on"),
        "{resumed}"
    );
    let done = shop.run("done").await;
    assert_eq!(
        (&done["moved"], &done["failed-again"]),
        (&json!(21), &json!(0)),
        "{done:#}"
    );
    shop.has_dead(9).await;

    // Another survey by now: what was chosen from the one before is not moved.
    let before = shop.preview(&found, "permanent", "&only=all").await;
    let newer = shop.survey("/tenant").await;
    assert_eq!(newer["letters"], 9);
    let (status, refused) = shop.ana.act(&button(&before)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    // Nothing chooses nothing.
    let (_, view) = shop.ana.see(&shop.at("")).await;
    assert!(view.contains("Choose permanent"), "{view}");
    let host = button_with(&view, "survey")["host"].clone();
    let nothing = json!({ "action": "redrive", "host": host, "request": { "queue": shop.name, "survey": newer["survey"], "groups": [] } });
    let (status, refused) = shop.ana.act(&nothing).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    assert!(
        refused["error"]
            .as_str()
            .unwrap()
            .contains("no group is chosen"),
        "{refused}"
    );
    shop.has_dead(9).await;
    drop(shop.running);
}

#[tokio::test]
async fn letters_that_others_have_written_are_shown_as_text_and_go_nowhere_else() {
    let shop = Shop::closed().await;
    // Whoever may write into the dead-letter queue says that this one comes from another queue, and that it is another letter.
    let other = Queues::standard(&shop.queues.endpoint, &[]).await;
    let attribute = |value: &str| {
        let value = aws_sdk_sqs::types::MessageAttributeValue::builder()
            .data_type("String")
            .string_value(value);
        value.build().unwrap()
    };
    let found = shop.survey("").await;
    let sample = found["groups"][0]["samples"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let forged = |source: String, id: String| {
        let send = shop
            .queues
            .client
            .send_message()
            .queue_url(&shop.queues.dead_letters);
        send.message_body("<script>alert(1)</script> {\"number\": 1}")
            .message_attributes(
                "BackstopReason",
                attribute("<img src=x onerror=alert(1)>\u{202e}"),
            )
            .message_attributes("BackstopError", attribute("HTTP 503: <b>busy</b>"))
            .message_attributes("BackstopSource", attribute(&source))
            .message_attributes("BackstopMessageId", attribute(&id))
            .send()
    };
    forged(other.arn().await, sample.clone()).await.unwrap();
    forged(shop.queues.arn().await, sample.clone())
        .await
        .unwrap();
    let newer = shop.survey("").await;
    assert_eq!(
        (&newer["letters"], &newer["elsewhere"]),
        (&json!(32), &json!(1)),
        "{newer:#}"
    );
    let (_, view) = shop.ana.see(&shop.at("")).await;
    for raw in ["<img", "<script>alert", "<b>busy", "\u{202e}"] {
        assert!(!view.contains(raw), "{raw} in {view}");
    }
    let written = newer["groups"].as_array().unwrap().iter();
    let mut written = written.filter(|group| group["key"].to_string().contains("onerror"));
    let id = written.next().unwrap()["samples"][0]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("{}/v1/dead-letters/{id}", shop.ana.url);
    let letter: Value = reqwest::get(path).await.unwrap().json().await.unwrap();
    hold("GET /v1/dead-letters/ID", &letter);
    let (_, letter) = shop.ana.see(&format!("/dead-letters/letter?id={id}")).await;
    assert!(
        letter.contains("&lt;script&gt;alert(1)&lt;/script&gt; {&quot;number&quot;: 1}"),
        "{letter}"
    );
    for raw in ["<img", "<script>alert", "<b>busy", "\u{202e}"] {
        assert!(!letter.contains(raw), "{raw} in {letter}");
    }
    // The ones that were chosen are moved, not the one that claims to be one of them.
    shop.open();
    let preview = shop.preview(&newer, "max-attempts", "&only=all").await;
    assert!(
        preview.contains("<strong>21</strong> letters would be moved"),
        "{preview}"
    );
    let preview_of_forged = shop.preview(&newer, "onerror", "&only=all").await;
    assert!(
        preview_of_forged.contains("<strong>1</strong> letters would be moved")
            && preview_of_forged.contains("1 of the chosen ones come from elsewhere"),
        "{preview_of_forged}"
    );
    shop.ana.act(&button(&preview)).await;
    let run = shop.run("done").await;
    assert_eq!(run["moved"], 21, "{run:#}");
    shop.has_dead(11).await;
    assert_eq!(other.held().await, 0);
    let log = shop.running.log();
    assert!(!text(log.as_bytes()).contains('\u{202e}'));
}

#[tokio::test]
async fn a_letter_of_a_megabyte_is_shown_by_its_beginning() {
    let shop = Shop::closed().await;
    let body = format!("<script>{}", "é<b>\u{202e}".repeat(100_000));
    let send = shop.queues.client.send_message();
    let send = send.queue_url(&shop.queues.dead_letters).message_body(body);
    send.send().await.unwrap();
    let found = shop.survey("").await;
    assert_eq!(found["letters"], 31, "{found:#}");
    let mut groups = found["groups"].as_array().unwrap().iter();
    let unknown = groups.find(|group| group["count"] == 1).unwrap();
    let id = unknown["samples"][0].as_str().unwrap();
    let (_, view) = shop.ana.see(&format!("/dead-letters/letter?id={id}")).await;
    assert!(
        view.contains("its first 16 KiB") && view.contains("&lt;script&gt;é&lt;b&gt;"),
        "{}",
        view.len()
    );
    assert!(view.len() < 200_000, "{}", view.len());
    for raw in ["<script>é", "<b>", "\u{202e}"] {
        assert!(!view.contains(raw), "{raw}");
    }
}
