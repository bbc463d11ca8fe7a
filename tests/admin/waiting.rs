//! What waits, wakes and reconsiderations: real answers against the schema, and what is refused.

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::Running;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use serde_json::{Value, json};

use super::schema::{hold, schema};
use super::validator::mistakes;
use super::world::{World, answer};

/// A host with these messages, which fail and wait for an hour.
async fn waiting(count: usize, hold: &str) -> (Running, String, String) {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
    let arguments = [
        "--exec",
        "sh -c 'exit 7'",
        "--policy",
        "linear",
        "--set",
        "base=1h",
        "--hold",
        hold,
        "--admin",
        "127.0.0.1:0",
    ];
    let running = Running::start(&[&queues.arguments()[..], &arguments].concat()).await;
    queues.send((0..count).map(|it| it.to_string())).await;
    let url = running.admin();
    eventually("all wait", || async {
        let (_, report) = get(&url, "/v1/waiting").await;
        report["queues"][0]["waiting"] == count
    })
    .await;
    let name = queues.url.rsplit('/').next().unwrap().to_owned();
    (running, url, name)
}

async fn get(url: &str, path: &str) -> (u16, Value) {
    answer(reqwest::Client::new().get(format!("{url}{path}"))).await
}

async fn post(url: &str, path: &str, body: &Value) -> (u16, Value) {
    answer(
        reqwest::Client::new()
            .post(format!("{url}{path}"))
            .json(body),
    )
    .await
}

/// An id of a message in the log.
fn id(running: &Running) -> String {
    let log = running.log();
    let id = log.split(" id=\"").nth(1).unwrap();
    id.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn the_answers_about_waiting_messages_are_as_the_schema_says() {
    for held in ["visibility", "resend"] {
        let (running, url, name) = waiting(3, held).await;
        let (_, report) = get(&url, "/v1/waiting").await;
        hold("GET /v1/waiting", &report);
        let filtered =
            format!("/v1/waiting?queue={name}&code=exit%207&class=transient&attempt=1&due-after=1");
        let (status, report) = get(&url, &filtered).await;
        assert_eq!(
            (status, &report["queues"][0]["waiting"]),
            (200, &json!(3)),
            "{report}"
        );
        let (_, report) = get(&url, "/v1/waiting?code=exit%208").await;
        assert_eq!(report["queues"][0]["waiting"], 0);
        let (_, found) = get(&url, &format!("/v1/messages/{}", id(&running))).await;
        hold("GET /v1/messages/ID", &found);
        let message = &found["messages"][0];
        assert_eq!(
            (&message["hold"], &message["attempt"]),
            (&json!(held), &json!(1))
        );
        let (status, none) = get(&url, "/v1/messages/%2F%1b").await;
        hold("GET /v1/messages/ID", &none);
        assert_eq!((status, &none["messages"]), (200, &json!([])));

        let reconsider = json!({ "queue": name, "spread": 10, "dry-run": true, "list": true });
        assert_eq!(mistakes(&schema(), "reconsider", &reconsider), [""; 0]);
        let (status, result) = post(&url, "/v1/reconsider", &reconsider).await;
        assert_eq!(status, 200, "{result}");
        hold("POST /v1/reconsider", &result);
        let time = json!({ "id": id(&running), "failed-at": message["failed-at"], "due": 1 });
        let earlier = json!({ "queue": name, "messages": [time], "dry-run": true });
        assert_eq!(mistakes(&schema(), "earlier", &earlier), [""; 0]);
        let (status, taken) = post(&url, "/v1/earlier", &earlier).await;
        assert_eq!((status, &taken["kept"]), (200, &json!(1)), "{taken}");
        hold("POST /v1/earlier", &taken);
        let filter = json!({ "code": ["exit 7"], "attempt": [1], "due-after": 1 });
        for dry in [true, false] {
            let wake = json!({ "queue": name, "filter": filter, "spread": 60_000, "dry-run": dry });
            assert_eq!(mistakes(&schema(), "wake", &wake), [""; 0]);
            let (status, woken) = post(&url, "/v1/wake", &wake).await;
            assert_eq!((status, &woken["matched"]), (200, &json!(3)), "{woken}");
            hold("POST /v1/wake", &woken);
        }
        // The log is written, and read, after the answer.
        eventually("the actions are logged", || async {
            let log = running.log();
            log.contains("result=\"dry run: 3 match") && log.contains("result=\"3 match")
        })
        .await;
        running.kill().await;
    }
}

#[tokio::test]
async fn malformed_requests_change_nothing() {
    let world = World::start().await;
    let many = vec!["x".repeat(100); 600];
    for (body, expected) in [
        (json!({ "queue": "orders" }), 400),
        (json!({ "queue": "other", "filter": {} }), 404),
        // What chooses nothing wakes nothing, and says so.
        (json!({ "queue": "orders", "filter": {} }), 400),
        (json!({ "queue": "orders", "filter": null }), 400),
        (json!({ "queue": "orders", "all": false }), 400),
        (json!({ "queue": "orders", "filter": { "id": [] } }), 400),
        (
            json!({ "queue": "orders", "filter": { "class": ["transient"], "id": [] } }),
            400,
        ),
        (
            json!({ "queue": "orders", "filter": { "code": ["x"] }, "all": true }),
            400,
        ),
        (json!({ "queue": "orders", "all": true, "odd": 1 }), 400),
        (json!({ "queue": "orders", "filter": { "codes": [] } }), 400),
        (
            json!({ "queue": "orders", "filter": { "attempt": [0] } }),
            400,
        ),
        (json!({ "queue": "orders", "all": true, "spread": -1 }), 400),
        (
            json!({ "queue": "orders", "all": true, "spread": 4_294_967_296_u64 }),
            400,
        ),
        (json!({ "queue": "orders", "filter": { "id": many } }), 200),
        (
            json!({ "queue": "orders", "filter": { "id": vec!["x".repeat(100); 700] } }),
            413,
        ),
        (
            json!({ "queue": "orders", "all": true, "spread": u32::MAX }),
            200,
        ),
    ] {
        let (status, answer) = world.post("/v1/wake", &body).await;
        assert_eq!(status, expected, "{body} {answer}");
    }
    let empty = json!({ "queue": "orders", "filter": {} });
    let (_, answer) = world.post("/v1/wake", &empty).await;
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("chooses no message"), "{error}");
    let none = json!({ "queues": [] });
    let (status, answer) = world.post("/v1/rollback", &none).await;
    assert_eq!(status, 400, "{answer}");
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("chooses no queue"), "{error}");
    for (body, expected) in [
        (json!({ "queue": "orders", "digests": [] }), 409),
        (
            json!({ "queue": "orders", "digests": ["sha256:00"], "dry-run": true }),
            409,
        ),
        (json!({ "queue": "orders", "digests": "sha256:00" }), 400),
        (json!({ "queue": "orders", "failed-until": "now" }), 400),
        (json!({ "queue": "orders", "failed-until": 1 }), 200),
    ] {
        let (status, answer) = world.post("/v1/reconsider", &body).await;
        assert_eq!(status, expected, "{body} {answer}");
    }
    let (_, answer) = world
        .post(
            "/v1/reconsider",
            &json!({ "queue": "orders", "dry-run": true }),
        )
        .await;
    let digests = &answer["digests"];
    let digest = digests[0].as_str().unwrap();
    assert!(
        digest.starts_with("sha256:") && digest.len() == 71,
        "{answer}"
    );
    let same = json!({ "queue": "orders", "failed-until": answer["as-of"], "digests": digests });
    let (status, answer) = world.post("/v1/reconsider", &same).await;
    assert_eq!(status, 200, "{answer}");
    let time = |id: String| json!({ "id": id, "failed-at": 1, "due": 1 });
    for (body, expected) in [
        (json!({ "queue": "orders" }), 400),
        (json!({ "queue": "other", "messages": [] }), 404),
        (json!({ "queue": "orders", "messages": [] }), 200),
        (
            json!({ "queue": "orders", "messages": [time("m".repeat(128))] }),
            200,
        ),
        (
            json!({ "queue": "orders", "messages": [time(String::new())] }),
            400,
        ),
        (
            json!({ "queue": "orders", "messages": [time("m".repeat(129))] }),
            400,
        ),
        (
            json!({ "queue": "orders", "messages": [{ "id": "m", "due": 1 }] }),
            400,
        ),
        (
            json!({ "queue": "orders", "messages": vec![time("m".to_owned()); 1_001] }),
            400,
        ),
    ] {
        let (status, answer) = world.post("/v1/earlier", &body).await;
        assert_eq!(status, expected, "{answer}");
    }
    for (path, expected) in [
        ("/v1/waiting?queue=other", 404),
        ("/v1/waiting?attempt=0x1", 400),
        ("/v1/waiting?due-after=yesterday", 400),
        ("/v1/waiting?odd=1", 400),
        ("/v1/messages/", 404),
        ("/v1/messages/a/b", 404),
        ("/v1/wake", 405),
    ] {
        let (status, answer) = world.get(path).await;
        assert_eq!(status, expected, "{path} {answer}");
        assert_eq!(mistakes(&schema(), "error", &answer), [""; 0]);
    }
    world.running.stop().await;
}
