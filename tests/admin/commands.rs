//! `--admin URL` of the commands.

use std::process::Stdio;
use std::time::Duration;

use backstop_tests::backstop::{Running, command, text};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::world::{TOKEN, World};

/// `backstop policy` with the token in the environment.
async fn with_token(arguments: &[&str]) -> (i32, String, String) {
    let output = command(&[&["policy"], arguments].concat())
        .env("BACKSTOP_ADMIN_TOKEN", TOKEN)
        // Neither of them gets the token.
        .env("HTTP_PROXY", "http://127.0.0.1:1")
        .env("ALL_PROXY", "http://127.0.0.1:1")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let code = output.status.code().unwrap();
    (code, text(&output.stdout), text(&output.stderr))
}

#[tokio::test]
async fn a_host_is_queried_and_rolled_back_by_its_url() {
    let world = World::with_token(&[]).await;
    world.swap().await;
    let admin = ["--admin", &world.url];
    let of = |command: &[&'static str]| [command, &admin].concat();
    let (code, printed, error) = with_token(&of(&["status"])).await;
    assert_eq!(code, 0, "{error}");
    assert!(
        printed.contains(&format!("orders  {}", world.url)),
        "{printed}"
    );
    assert!(
        printed.contains("active      ") && printed.contains("previous    "),
        "{printed}"
    );
    let (code, printed, _) = with_token(&of(&["status", "--json"])).await;
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (code, printed["process"].as_u64()),
        (0, Some(world.running.id().into()))
    );

    let (code, _, error) = with_token(&of(&["rollback", "orders", "unknown"])).await;
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("`unknown`"), "{error}");
    assert_eq!(world.rollbacks().await, 0);
    let (code, printed, error) = with_token(&of(&["rollback", "orders"])).await;
    assert_eq!(code, 0, "{error}");
    assert!(printed.contains("rolled back from"), "{printed}");
    let (code, printed, error) = with_token(&of(&["rollback"])).await;
    assert_eq!(code, 4, "{error}");
    assert!(
        printed.contains("rolled back no: there is no version before"),
        "{printed}"
    );

    // The token in a file, and none.
    let file = world.at("token");
    let file = ["--admin-token-file", file.to_str().unwrap()];
    assert_eq!(
        world
            .policy(&[&of(&["status"])[..], &file].concat())
            .await
            .0,
        0
    );
    let (code, _, error) = world.policy(&of(&["status"])).await;
    assert_eq!(code, 5, "{error}");
    assert!(error.contains("BACKSTOP_ADMIN_TOKEN"), "{error}");
    let folder = world.folder.path().to_str().unwrap();
    let (code, _, error) = world
        .policy(&[
            "status",
            "--admin",
            &world.url,
            "--admin-token-file",
            folder,
        ])
        .await;
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("it is a folder"), "{error}");
    world.running.stop().await;
}

#[tokio::test]
async fn a_url_that_is_no_hosts_is_an_error_that_says_so() {
    for url in [
        "127.0.0.1:9465",
        "localhost:9465",
        "ftp://127.0.0.1:9465",
        "http://",
        "http://user:secret@127.0.0.1:9465",
        "http://127.0.0.1:9465/?token=secret",
        "",
    ] {
        let (code, _, error) = with_token(&["status", "--admin", url]).await;
        assert_eq!(code, 2, "{url} {error}");
        assert!(
            error.contains("expected one such as http://127.0.0.1:9465"),
            "{error}"
        );
        assert!(!error.contains(TOKEN), "{error}");
    }
    let (code, _, error) = with_token(&["status", "--admin", "http://127.0.0.1:1"]).await;
    assert_eq!(code, 5, "{error}");
    assert!(
        error.contains("http://127.0.0.1:1 does not answer: check that the host runs"),
        "{error}"
    );
    let both = [
        "status",
        "--admin",
        "http://127.0.0.1:1",
        "--config",
        "backstop.toml",
    ];
    assert_eq!(with_token(&both).await.0, 2);
}

#[tokio::test]
async fn a_host_that_hangs_keeps_no_command_from_the_others() {
    let world = World::start().await;
    let cache = world.at("kept").to_str().unwrap().to_owned();
    let policy = world.at("policy.wat");
    let arguments = [
        "--queue-url",
        "local:invoices",
        "--exec",
        "true",
        "--policy",
        policy.to_str().unwrap(),
        "--cache",
        &cache,
    ];
    let hangs = Running::start(&arguments).await;
    let both = async || {
        let (code, printed, error) = world.policy(&["status", "--cache", &cache]).await;
        assert_eq!(code, 0, "{error}");
        assert!(printed.contains("orders  process "), "{printed}");
        (printed.contains("invoices  process "), error)
    };
    assert!(both().await.0);
    hangs.signal(Signal::STOP);
    let asked = Instant::now();
    let (is_shown, error) = both().await;
    assert!(
        !is_shown && error.contains("a host does not answer"),
        "{error}"
    );
    assert!(asked.elapsed() < Duration::from_secs(20));
    world.swap().await;
    let (code, _, error) = world.policy(&["rollback", "--cache", &cache]).await;
    // The other one is done, and it says that this is a part.
    assert_eq!(code, 10, "{error}");
    assert_eq!(world.rollbacks().await, 1);
    hangs.signal(Signal::CONT);
    assert!(both().await.0);
    hangs.stop().await;
    world.running.stop().await;
}

/// Answers every connection with this, and returns its URL.
async fn answering(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(&answer).await;
        }
    });
    url
}

#[tokio::test]
async fn what_is_no_host_is_not_believed() {
    let with = |head: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
    };
    let elsewhere = answering(with("200 OK", r#"{"version":1,"process":1,"queues":[]}"#)).await;
    let redirect = format!("302 Found\r\nlocation: {elsewhere}/v1/status");
    for (answer, expected) in [
        (with("200 OK", "<html>"), "not of version 1"),
        (with("200 OK", "{}"), "not of version 1"),
        (
            with("200 OK", r#"{"version":2,"process":1,"queues":[]}"#),
            "not of version 1",
        ),
        (
            with("200 OK", r#"{"version":1,"queues":[]}"#),
            "missing field",
        ),
        (
            with("404 Not Found", r#"{"version":1,"error":"\u001b[2Jodd"}"#),
            "odd",
        ),
        (with("500 Oops", r#"{"version":1}"#), "does not say why"),
        (with(&redirect, "{}"), "not of version 1"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n{".to_vec(),
            "does not answer",
        ),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), "does not answer"),
        (Vec::new(), "does not answer"),
    ] {
        let url = answering(answer).await;
        let (code, printed, error) = with_token(&["status", "--admin", &url]).await;
        assert_eq!((code, printed.as_str()), (5, ""), "{error}");
        assert!(
            error.contains(expected) && !error.contains('\u{1b}'),
            "{error}"
        );
    }
}
