//! The document and the schema of the interface, against real answers.

use std::collections::{BTreeMap, BTreeSet};

use backstop_host::admin::paths;
use backstop_tests::backstop::Running;
use backstop_tests::documents::document;
use serde_json::{Value, json};

use super::validator::mistakes;
use super::world::{TOKEN, World, answer};

/// The schema.
pub(super) fn schema() -> Value {
    serde_json::from_str(&document("host/docs/admin.schema.json")).unwrap()
}

/// The table of requests: the names of the body and of the answer by method and path.
fn table() -> BTreeMap<String, [Option<String>; 2]> {
    let text = document("host/docs/admin.md");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| `GET /") || line.starts_with("| `POST /"));
    rows.map(|row| {
        let cells: Vec<_> = row
            .split('|')
            .map(|cell| cell.trim().trim_matches('`'))
            .collect();
        let path = cells[1].split('?').next().unwrap();
        let name = |cell: &str| (!["", "text"].contains(&cell)).then(|| cell.to_owned());
        (path.to_owned(), [name(cells[2]), name(cells[3])])
    })
    .collect()
}

/// Asserts that an answer is as the document says.
pub(super) fn hold(path: &str, answer: &Value) {
    let name = table()[path][1].clone().unwrap();
    let found = mistakes(&schema(), &name, answer);
    assert!(found.is_empty(), "{path}: {found:#?}");
}

#[test]
fn every_path_is_documented_with_definitions_that_exist() {
    let documented: BTreeSet<_> = table().into_keys().collect();
    let routed: BTreeSet<_> = paths().map(|path| path.replace("{}", "ID")).collect();
    assert_eq!(documented, routed, "host/docs/admin.md and the routes");
    let schema = schema();
    for name in table().into_values().flatten().flatten() {
        assert!(schema["$defs"][&name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn the_settings_of_a_policy_are_in_its_status() {
    let running = Running::start(&[
        "--queue-url",
        "local:orders",
        "--exec",
        "true",
        "--set",
        "base=2s",
        "--admin",
        "127.0.0.1:0",
    ])
    .await;
    let request = reqwest::Client::new().get(format!("{}/v1/status", running.admin()));
    backstop_tests::eventually("it is ready", || async {
        answer(request.try_clone().unwrap()).await.0 == 200
    })
    .await;
    let (_, status) = answer(request).await;
    hold("GET /v1/status", &status);
    let settings = &status["queues"][0]["policy"]["live"][0]["settings"];
    assert_eq!(settings, &json!([["base", "2s"]]));
    running.stop().await;
}

#[test]
fn the_validator_finds_mistakes() {
    let schema = schema();
    let good = json!({ "version": 1, "ready": true, "reasons": [] });
    assert!(mistakes(&schema, "ready", &good).is_empty());
    for bad in [
        json!([]),
        json!({ "version": 2, "ready": true, "reasons": [] }),
        json!({ "version": 1, "ready": "yes", "reasons": [] }),
        json!({ "version": 1, "ready": true }),
        json!({ "version": 1, "ready": true, "reasons": [1] }),
        json!({ "version": 1, "ready": true, "reasons": [], "more": 1 }),
    ] {
        assert!(!mistakes(&schema, "ready", &bad).is_empty(), "{bad}");
    }
}

#[tokio::test]
async fn the_answers_of_a_host_are_as_the_schema_says() {
    let world = World::with_token(&[]).await;
    let (status, live) = world.get("/livez").await;
    assert_eq!(status, 200);
    hold("GET /livez", &live);
    let (status, ready) = world.get("/readyz?verbose").await;
    assert_eq!((status, &ready["ready"]), (200, &json!(true)));
    hold("GET /readyz", &ready);
    let (status, before) = world.get_with_token("/v1/status").await;
    assert_eq!(status, 200);
    hold("GET /v1/status", &before);
    world.swap().await;
    std::fs::write(world.at("policy.wat"), "(module").unwrap();
    backstop_tests::eventually("a version is rejected", || async {
        let (_, status) = world.get_with_token("/v1/status").await;
        status["queues"][0]["policy"]["refused"].is_string()
    })
    .await;
    let (_, after) = world.get_with_token("/v1/status").await;
    hold("GET /v1/status", &after);
    assert!(after["queues"][0]["policy"]["before"].is_string());
    let roll_back = async |body: Value| {
        assert_eq!(
            mistakes(&schema(), "rollback", &body).is_empty(),
            body.get("odd").is_none()
        );
        let request = reqwest::Client::new().post(format!("{}/v1/rollback", world.url));
        answer(request.bearer_auth(TOKEN).json(&body)).await
    };
    let (status, done) = roll_back(json!({ "queues": ["orders"] })).await;
    assert_eq!(status, 200);
    hold("POST /v1/rollback", &done);
    assert!(done["queues"][0]["rolled-back"]["to"].is_string(), "{done}");
    let (status, none) = roll_back(json!({})).await;
    assert_eq!(status, 200);
    hold("POST /v1/rollback", &none);
    assert!(none["queues"][0]["not-rolled-back"].is_string(), "{none}");
    for (body, expected) in [
        (json!({ "queues": ["orders", "unknown"] }), 404),
        (json!({ "odd": 1 }), 400),
    ] {
        let (status, error) = roll_back(body).await;
        assert_eq!(status, expected);
        assert_eq!(mistakes(&schema(), "error", &error), [""; 0]);
    }
    for (path, expected) in [
        ("/v1/status", 401),
        ("/v1/status?odd=1", 401),
        ("/odd", 401),
    ] {
        let (status, error) = world.get(path).await;
        assert_eq!(status, expected, "{path}");
        assert_eq!(mistakes(&schema(), "error", &error), [""; 0]);
    }
    for (path, expected) in [
        ("/v1/status?odd=1", 400),
        ("/odd", 404),
        ("/v1/rollback", 405),
    ] {
        let (status, error) = world.get_with_token(path).await;
        assert_eq!(status, expected, "{path}");
        assert_eq!(mistakes(&schema(), "error", &error), [""; 0]);
    }
    world.running.stop().await;
}
