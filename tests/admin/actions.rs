//! What is logged of an action: who asked for what, from where, and what it did.

use backstop_tests::backstop::{command, text};
use backstop_tests::eventually;
use serde_json::json;

use super::world::{World, answer};

/// The lines of the log with this text.
async fn logged(world: &World, text: &str) -> String {
    eventually(text, || async { world.running.log().contains(text) }).await;
    let log = world.running.log();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
    lines.join("\n")
}

#[tokio::test]
async fn an_action_on_the_control_socket_is_logged_with_its_user_and_process() {
    let world = World::with_token(&[]).await;
    world.swap().await;
    let cache = world.at("kept");
    let arguments = ["rollback", "orders", "--cache", cache.to_str().unwrap()];
    let (code, _, error) = world.policy(&arguments).await;
    assert_eq!(code, 0, "{error}");
    let line = logged(&world, "an operator's request was carried out").await;
    let uid = rustix::process::getuid().as_raw();
    for part in [
        "/v1/rollback".to_owned(),
        format!("user {uid}, process "),
        "claims to be `ana`".to_owned(),
        "orders".to_owned(),
        "1 of 1 queues rolled back".to_owned(),
    ] {
        assert!(line.contains(&part), "{part}: {line}");
    }
    let line = logged(&world, "the operator rolled back a policy").await;
    assert!(line.contains(&format!("user {uid}, process ")), "{line}");
    world.running.stop().await;
}

#[tokio::test]
async fn every_action_on_waiting_messages_is_logged_with_who_from_where_and_what() {
    let world = World::start().await;
    let time = json!({ "id": "c9b7a3d0", "failed-at": 1, "due": 1 });
    let actions = [
        (
            "/v1/wake",
            json!({ "queue": "orders", "filter": { "code": ["HTTP 503"] }, "dry-run": true }),
            "HTTP 503",
            "dry run: 0 match, 0 come sooner",
        ),
        (
            "/v1/reconsider",
            json!({ "queue": "orders", "spread": 12_345 }),
            "12345",
            "0 of 0 come sooner",
        ),
        (
            "/v1/earlier",
            json!({ "queue": "orders", "messages": [time] }),
            "c9b7a3d0",
            "1 times kept",
        ),
    ];
    for (path, body, asked, result) in &actions {
        let post = reqwest::Client::new().post(format!("{}{path}", world.url));
        let (status, told) = answer(post.header("x-backstop-user", "ana").json(body)).await;
        assert_eq!(status, 200, "{told}");
        let line = logged(&world, &format!("action=\"{path}\"")).await;
        for part in [
            "an operator's request was carried out",
            "by=\"127.0.0.1:",
            "(claims to be `ana`)",
            "\\\"queue\\\":\\\"orders\\\"",
            asked,
            result,
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert_eq!(line.lines().count(), 1, "{line}");
    }

    // The same on the control socket, by the commands that send such requests.
    let cache = world.at("kept");
    let uid = rustix::process::getuid().as_raw();
    for (arguments, path) in [
        (&["wake", "orders", "--all"][..], "/v1/wake"),
        (&["policy", "reconsider", "orders"], "/v1/reconsider"),
    ] {
        let cache = ["--cache", cache.to_str().unwrap()];
        let mut command = command(&[arguments, &cache].concat());
        let output = command.env("USER", "ana").output().await.unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let by = format!("action=\"{path}\" by=\"user {uid}, process ");
        let line = logged(&world, &by).await;
        assert!(line.contains("(claims to be `ana`)"), "{line}");
    }
    // Whatever is refused is logged with the same.
    for (path, _, _, _) in &actions {
        let body = json!({ "queue": "other", "filter": {}, "messages": [] });
        assert_ne!(world.post(path, &body).await.0, 200);
    }
    eventually("the refusals are logged", || async {
        let log = world.running.log();
        let mut refused = log.lines().filter(|it| it.contains("request was refused"));
        actions.iter().all(|(path, _, _, _)| {
            refused
                .clone()
                .any(|line| line.contains(&format!("action=\"{path}\" by=\"127.0.0.1:")))
        }) && refused.all(|line| line.contains("other"))
    })
    .await;
    world.running.stop().await;
}

#[tokio::test]
async fn an_action_at_the_address_is_logged_with_the_claimed_name_and_without_control_characters() {
    let world = World::start().await;
    world.swap().await;
    let url = format!("{}/v1/rollback", world.url);
    let post = |user: &[u8], body: serde_json::Value| {
        let user = reqwest::header::HeaderValue::from_bytes(user).unwrap();
        let request = reqwest::Client::new().post(&url);
        answer(request.header("x-backstop-user", user).json(&body))
    };
    // A name that shall look like the end of the line and another one.
    let forged = "root` by=\"user 0\u{9b}31m\u{2028}".as_bytes();
    let (status, _) = post(forged, json!({})).await;
    assert_eq!(status, 200);
    let line = logged(&world, "an operator's request was carried out").await;
    assert!(
        line.contains("127.0.0.1:") && line.contains("claims to be `root"),
        "{line}"
    );
    assert!(!line.contains(['\u{9b}', '\u{2028}']), "{line}");
    // What is refused is logged too, cut to a bounded length.
    let queues = vec!["no such queue\u{1b}[2J"; 2_000];
    let (status, _) = post(b"", json!({ "queues": queues })).await;
    assert_eq!(status, 404);
    let line = logged(&world, "an operator's request was refused").await;
    assert!(line.contains("this host does not serve a queue"), "{line}");
    assert!(line.len() < 4_000 && !line.contains('\u{1b}'), "{line}");
    // Reading is no action.
    world.get("/v1/status").await;
    assert_eq!(
        world.running.log().matches("an operator's request").count(),
        2
    );
    world.running.stop().await;
}
