//! What is logged of an action: who asked for what, from where, and what it did.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

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
