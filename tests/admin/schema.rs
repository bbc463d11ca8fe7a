//! The document and the schema of the interface, against real answers.

use backstop_host::admin::{ROUTES, Route};
use backstop_tests::backstop::Running;
use backstop_tests::documents::{compare_rows, document};
use serde_json::{Value, json};

use super::validator::mistakes;
use super::world::{TOKEN, World, answer};

/// The schema.
pub(super) fn schema() -> Value {
    serde_json::from_str(&document("host/docs/admin.schema.json")).unwrap()
}

/// Asserts that an answer is as the schema says.
pub(super) fn hold(shown: &str, answer: &Value) {
    let route = ROUTES.iter().find(|route| route.shown() == shown).unwrap();
    let found = mistakes(&schema(), route.answer, answer);
    assert!(found.is_empty(), "{shown}: {found:#?}");
}

#[test]
fn the_table_of_requests_is_made_from_the_routes() {
    let row = |route: &Route| {
        let code = |name: &str| format!("`{name}`");
        let body = route.body().map_or(String::new(), code);
        let answer = match route.answer {
            "text" => "text".to_owned(),
            name => code(name),
        };
        let (request, query) = (route.shown(), route.query());
        let row = format!(
            "| `{request}{query}` | {body} | {answer} | {} |",
            route.meaning
        );
        row.replace("|  |", "| |")
    };
    let rows: Vec<_> = ROUTES.iter().map(row).collect();
    compare_rows(
        "host/docs/operate/admin.md",
        &["| `GET /", "| `POST /"],
        &rows,
    );
}

/// Sends the example of the schema to each route, and compares each answer with the schema.
#[tokio::test]
async fn every_route_answers_its_example_as_the_schema_says() {
    let dead = ["--dead-letter-queue", "local:orders-dead"];
    let world = World::with_token(&dead).await;
    let client = reqwest::Client::new();
    // The one that stops the host is the last.
    let (last, others): (Vec<_>, Vec<_>) = ROUTES
        .iter()
        .partition(|route| route.shown() == "POST /v1/drain");
    for route in others.into_iter().chain(last) {
        let shown = route.shown();
        let path = shown.split(' ').nth(1).unwrap();
        let url = format!("{}{path}", world.url);
        let request = match route.body() {
            None => client.get(url),
            Some(body) => client.post(url).json(&example(body)),
        };
        let (status, answer) = answer(request.bearer_auth(TOKEN)).await;
        // There are no letters here, and no runs: `letters.rs` has both.
        if shown.starts_with("POST /v1/redrive") {
            assert!([400, 409].contains(&status), "{shown}: {status} {answer}");
            let found = mistakes(&schema(), "error", &answer);
            assert!(found.is_empty(), "{shown}: {found:#?}");
            continue;
        }
        assert_eq!(status, 200, "{shown}: {answer}");
        if route.answer != "text" {
            hold(&shown, &answer);
        }
    }
    let (code, _) = world.running.ended().await;
    assert_eq!(code, 0, "a drain ends the host");
}

/// The first example of a body, which is as the schema says.
fn example(body: &str) -> Value {
    let schema = schema();
    let example = schema["$defs"][body]["examples"][0].clone();
    let found = mistakes(&schema, body, &example);
    assert!(found.is_empty(), "the example of `{body}`: {found:#?}");
    example
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
