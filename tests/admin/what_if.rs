//! What if another policy decided: a built-in or a file that somebody sends, against what waits and what was recorded. And the life of a message on the page.

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::page::{Person, button_with};
use super::world::TOKEN;

/// A host whose worker is busy: 20 messages wait for ten minutes.
struct Busy {
    _folder: TempDir,
    _running: Running,
    name: String,
    ana: Person,
}

impl Busy {
    async fn start(view_token: Option<&str>) -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
        let name = queues.url.rsplit('/').next().unwrap().to_owned();
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (token, view, records) = (path("token"), path("view"), path("records.jsonl"));
        std::fs::write(&token, TOKEN).unwrap();
        std::fs::write(&view, view_token.unwrap_or("nobody-has-this-token-0123")).unwrap();
        let config = format!(
            "endpoint-url = {:?}\nadmin = \"127.0.0.1:0\"\nadmin-token-file = {token:?}\nadmin-view-token-file = {view:?}\ndecisions = {{ record = {records:?} }}\n[queues.{name}]\nurl = {:?}\ndead-letter-queue = {:?}\npolicy = \"linear\"\nsettings = {{ base = \"10m\" }}\nshadow = \"full-jitter\"\ngrace = \"2s\"\nhandler = {{ exec = [\"sh\", \"-c\", \"read -r it; echo busy >&2; exit 75\"] }}\n",
            queues.endpoint, queues.url, queues.dead_letters
        );
        let file = path("backstop.toml");
        std::fs::write(&file, config).unwrap();
        let running = Running::start_command(command(&["run", "--json", "--config", &file])).await;
        queues.send((0..20).map(|it| it.to_string())).await;
        let mut ana = Person::at(&running.admin());
        ana.sign_in("Ana", TOKEN).await;
        eventually("all wait", async || {
            let (_, text) = ana.see(&format!("/waiting?queue={name}")).await;
            text.contains("<strong>20</strong> messages wait")
        })
        .await;
        Self {
            _folder: folder,
            _running: running,
            name,
            ana,
        }
    }

    /// Sends a file; gives the status and the answer.
    async fn send(&self, kind: &str, bytes: Vec<u8>) -> (StatusCode, Value) {
        let url = format!("{}/page/upload?name=mine.wasm", self.ana.url);
        let request = reqwest::Client::new().post(url).body(bytes);
        let request = request
            .header(COOKIE, &self.ana.cookie)
            .header(CONTENT_TYPE, kind);
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap_or_default())
    }

    /// Asks, and waits for the view with the answer.
    async fn ask(&self, more: Value) -> String {
        let mut asked = json!({ "queue": self.name });
        asked
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let (status, answer) = self.ana.post("/page/what-if", &asked).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let path = format!(
            "/policies/what-if?question={}",
            answer["question"].as_str().unwrap()
        );
        eventually("it is found out", async || {
            let (_, view) = self.ana.see(&path).await;
            !view.contains("being found out")
        })
        .await;
        self.ana.see(&path).await.1
    }

    async fn ask_file(&self, policy: &str) -> String {
        let (status, sent) = self
            .send("application/wasm", policy.as_bytes().to_vec())
            .await;
        assert_eq!(status, StatusCode::OK, "{sent}");
        self.ask(json!({ "file": sent["file"], "policy": "linear" }))
            .await
    }
}

/// The number with this name.
fn number(view: &str, name: &str) -> String {
    let start = format!("<dt>{name}</dt><dd>");
    let rest = view
        .split(&start)
        .nth(1)
        .unwrap_or_else(|| panic!("{name} in {view}"));
    rest.split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_file_is_tried_on_what_waits_and_on_what_was_recorded() {
    let busy = Busy::start(None).await;
    let view = busy.ask_file(&waits(2_000)).await;
    for (name, expected) in [
        ("messages wait", "20"),
        ("would come sooner", "20"),
        ("would be dead", "0"),
        ("failures", "20"),
        ("decided differently", "20"),
    ] {
        assert_eq!(number(&view, name), expected, "{name} in {view}");
    }
    assert!(
        view.contains("a shorter delay") && view.contains("after 10m"),
        "{view}"
    );
    let id = view.split("/page/chart?question=").nth(1).unwrap();
    let chart = format!(
        "{}/page/chart?question={}",
        busy.ana.url,
        id.split('"').next().unwrap()
    );
    let chart = reqwest::Client::new()
        .get(chart)
        .header(COOKIE, &busy.ana.cookie);
    let chart = chart.send().await.unwrap();
    assert_eq!(chart.headers()[CONTENT_TYPE], "image/svg+xml");
    let policy = chart.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(
        policy.contains("default-src 'none'") && policy.contains("sandbox"),
        "{policy}"
    );
    assert!(chart.text().await.unwrap().contains("20 failures of"));

    let view = busy
        .ask(json!({ "policy": "full-jitter", "settings": "base=1h, cap=2h" }))
        .await;
    assert_eq!(number(&view, "messages wait"), "20");
    let longer: u32 = number(&view, "would wait for longer").parse().unwrap();
    let sooner: u32 = number(&view, "would come sooner").parse().unwrap();
    assert!(longer > 0 && longer + sooner == 20, "{view}");
    // Nothing was changed.
    let (_, waiting) = busy.ana.see(&format!("/waiting?queue={}", busy.name)).await;
    assert!(
        waiting.contains("<strong>20</strong> messages wait"),
        "{waiting}"
    );

    // Its policy is asked about dead letters, too.
    let act = button_with(&view, "survey");
    let (status, begun) = busy.ana.act(&act).await;
    assert_eq!(begun["summary"], "A survey has begun.", "{status} {begun}");
    eventually("the survey has asked it", async || {
        let (_, view) = busy
            .ana
            .see(&format!("/dead-letters?queue={}", busy.name))
            .await;
        view.contains("That is what full-jitter")
    })
    .await;
}

#[tokio::test]
async fn a_file_from_outside_harms_nothing_and_reads_nothing() {
    let busy = Busy::start(None).await;
    let endless = waits(1).replacen(
        "(i32.const 1)",
        "(loop $for_ever (br $for_ever)) (unreachable)",
        1,
    );
    let view = busy.ask_file(&endless).await;
    assert!(
        view.contains("class=\"notice bad\"") || number(&view, "it breaks") == "20",
        "{view}"
    );
    let view = busy.ask_file("(module").await;
    assert!(
        view.contains("mine.wasm: ") && !view.contains("/tmp/"),
        "{view}"
    );
    for name in [
        "/etc/passwd",
        "./policy.wasm",
        "s3://bucket/key",
        "https://example.com/p.wasm",
    ] {
        let view = busy.ask(json!({ "policy": name })).await;
        assert!(
            view.contains("there is no built-in policy"),
            "{name} {view}"
        );
    }
    let view = busy
        .ask(json!({ "policy": "linear", "settings": "base=soon" }))
        .await;
    assert!(view.contains("base"), "{view}");
    // Neither a form nor a script of another site can send one of this type.
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
    ] {
        let (status, _) = busy.send(kind, b"\0asm".to_vec()).await;
        assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{kind}");
    }
    // It is refused before it is read.
    let url = format!("{}/page/upload", busy.ana.url);
    let large = reqwest::Client::new()
        .post(url)
        .header(COOKIE, &busy.ana.cookie);
    let large = large.header(CONTENT_TYPE, "application/wasm");
    let answered = large.body(vec![0; (32 << 20) + 1]).send().await;
    let status = answered.map(|it| it.status());
    assert!(!matches!(status, Ok(status) if status != StatusCode::PAYLOAD_TOO_LARGE));
    for wrong in [json!({}), json!({ "policy": "linear", "settings": "base" })] {
        let mut asked = json!({ "queue": busy.name });
        asked
            .as_object_mut()
            .unwrap()
            .extend(wrong.as_object().unwrap().clone());
        let (status, answer) = busy.ana.post("/page/what-if", &asked).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    }
}

#[tokio::test]
async fn who_only_looks_tries_no_policy_and_sees_the_life_of_a_message() {
    let token = "a-token-to-look-0123456789abcdef";
    let mut busy = Busy::start(Some(token)).await;
    let (_, waiting) = busy.ana.see(&format!("/waiting?queue={}", busy.name)).await;
    let id = waiting.split("/message?id=").nth(1).unwrap();
    let id = id.split('"').next().unwrap().to_owned();
    busy.ana.sign_in("Eve", token).await;
    let (status, _) = busy.send("application/wasm", waits(1).into_bytes()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (status, _) = busy
        .ana
        .post(
            "/page/what-if",
            &json!({ "queue": busy.name, "policy": "linear" }),
        )
        .await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (_, view) = busy.ana.see("/policies/what-if").await;
    assert!(
        view.contains("Your token is for looking only") || view.contains("disabled"),
        "{view}"
    );

    // Bodies, and values of bodies, are for those with the role for it.
    for path in [
        "/v1/dead-letters/any-id".to_owned(),
        format!("/v1/dead-letters?queue={}&grouped-by=value", busy.name),
    ] {
        for (token, expected) in [(token, StatusCode::FORBIDDEN), (TOKEN, StatusCode::OK)] {
            let asked = reqwest::Client::new().get(format!("{}{path}", busy.ana.url));
            let answered = asked.bearer_auth(token).send().await.unwrap();
            assert_eq!(answered.status(), expected, "{path}");
        }
    }
    let (_, letter) = busy.ana.see("/dead-letters/letter?id=any-id").await;
    assert!(letter.contains("not see the bodies"), "{letter}");

    let shadowed = async || busy.ana.see("/policies").await.1;
    eventually("the shadow is compared", async || {
        let view = shadowed().await;
        view.contains("The shadow full-jitter") && view.contains("transient: retry in 10m")
    })
    .await;

    let story = async || busy.ana.see(&format!("/message?id={id}")).await.1;
    eventually("the record is written", async || {
        story().await.contains("attempt 1 failed")
    })
    .await;
    let view = story().await;
    assert!(
        view.contains("transient, retry in 10m") && view.contains("busy"),
        "{view}"
    );
}
