//! Text from registries, buckets, queues, hosts, policies and workers: wherever a command writes it, it forges no line and no character of it stays hidden.

use std::process::{Output, Stdio};

use axum::http::{StatusCode, Uri};
use backstop_tests::backstop::{command, read_records, text};
use backstop_tests::policies::Rule;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;

/// Ends lines, controls a terminal in seven and in eight bits, turns the direction around, and hides.
const HOSTILE: &str = "odd\nFORGED line\r\nFORGED\u{85}\u{2028}\u{1b}[2J\u{9b}2J\u{7f}\u{202e}\u{2066}\u{200b}\u{feff}\u{ad}\u{e0041}";

/// A part of `HOSTILE` that XML can hold.
const HOSTILE_XML: &str = "odd\nFORGED line\u{85}\u{2028}\u{9b}2J\u{7f}\u{202e}\u{200b}\u{feff}";

/// Everything that a command has written: no line is forged, and every character shows.
#[track_caller]
fn assert_safe(written: &str) {
    let is_hidden = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
    };
    let hidden = written.chars().find(|c| is_hidden(*c));
    assert_eq!(hidden, None, "{written:?}");
    let forged = written
        .lines()
        .find(|line| line.trim_start().starts_with("FORGED"));
    assert_eq!(forged, None, "{written}");
}

#[track_caller]
fn assert_output_is_safe(output: &Output) {
    assert_safe(&text(&output.stdout));
    assert_safe(&text(&output.stderr));
}

/// A server that answers every request like this.
async fn server(status: StatusCode, body: String) -> String {
    let answer = async move |_: Uri| (status, [("content-type", "application/json")], body);
    let router = axum::Router::new().fallback(answer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A command fails, and its error quotes the hostile text.
async fn fails(arguments: &[&str]) {
    let mut command = command(arguments);
    command
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_MAX_ATTEMPTS", "1")
        .env_remove("BACKSTOP_ADMIN_TOKEN")
        .stdin(Stdio::null());
    let output = command.output().await.unwrap();
    assert!(!output.status.success(), "{arguments:?}");
    let said = text(&output.stderr);
    assert!(said.contains("FORGED"), "{arguments:?}: {said}");
    assert_output_is_safe(&output);
}

#[tokio::test]
async fn answers_of_registries_buckets_queues_and_hosts_forge_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pulled = folder.path().join("pulled.wasm");
    let pulled = pulled.to_str().unwrap();
    let oci = json!({"errors": [{"code": "UNSUPPORTED", "message": HOSTILE, "detail": null}]});
    for body in [oci.to_string(), HOSTILE.to_owned()] {
        let registry = server(StatusCode::BAD_REQUEST, body).await;
        let url = format!("oci://{registry}/policies/orders:1");
        fails(&["policy", "pull", &url, "-o", pulled]).await;
        fails(&["policy", "push", "linear", &url]).await;
        fails(&["policy", "inspect", &url]).await;
    }
    let blob = json!({"mediaType": HOSTILE, "digest": HOSTILE, "size": 1});
    let manifest = json!({"schemaVersion": 2, "config": blob, "layers": [blob]});
    let registry = server(StatusCode::OK, manifest.to_string()).await;
    let url = format!("oci://{registry}/policies/orders:1");
    fails(&["policy", "pull", &url, "-o", pulled]).await;

    let error = format!("<Error><Code>Odd</Code><Message>{HOSTILE_XML}</Message></Error>");
    let bucket = server(StatusCode::BAD_REQUEST, error).await;
    let endpoint = format!("http://{bucket}");
    let pull = ["policy", "pull", "s3://bucket/orders.wasm", "-o", pulled];
    fails(&[&pull[..], &["--endpoint-url", &endpoint]].concat()).await;

    let error = json!({"__type": HOSTILE, "message": HOSTILE}).to_string();
    let queue = server(StatusCode::BAD_REQUEST, error).await;
    let endpoint = format!("http://{queue}");
    let url = format!("http://{queue}/000000000000/orders");
    fails(&["dlq", "list", &url, "--endpoint-url", &endpoint]).await;
    fails(&[
        "run",
        "--queue-url",
        &url,
        "--exec",
        "true",
        "--endpoint-url",
        &endpoint,
    ])
    .await;

    let refusal = json!({"version": 1, "error": HOSTILE}).to_string();
    let host = server(StatusCode::BAD_REQUEST, refusal).await;
    let admin = format!("http://{host}");
    for arguments in [
        &["policy", "status"][..],
        &["policy", "rollback", "orders"],
        &["waiting", "orders"],
        &["wake", "orders", "--all"],
        &["policy", "reconsider", "orders"],
    ] {
        fails(&[arguments, &["--admin", &admin]].concat()).await;
    }
}

/// A policy whose texts are hostile, seven bytes long: the reasons of its verdicts, and of its refusal of settings.
fn hostile_policy(folder: &TempDir) -> String {
    let rule = Rule {
        configure: Some(
            "(if (result i32) (local.get 1) (then (i32.const 128)) (else (i32.const 64)))",
        ),
        judge: Some("(i32.const 128)"),
        ..Rule::default()
    };
    // A line break, a bidirectional control, and the start of another line.
    let text = rule.text().replace("because", "\\0a\\e2\\80\\aeFOR");
    let path = folder.path().join("hostile.wat");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn texts_of_policies_messages_and_workers_forge_no_line_of_logs_records_and_reports() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let policy = hostile_policy(&folder);
    let refused = command(&["policy", "run", &policy, "--set", "a=b"])
        .output()
        .await
        .unwrap();
    assert_output_is_safe(&refused);

    std::fs::write(at("body"), HOSTILE).unwrap();
    // The error's text is the last line of stderr, so that line is hostile in itself.
    let line = HOSTILE.replace(['\n', '\r'], "");
    std::fs::write(at("stderr"), &line).unwrap();
    let work = format!("#!/bin/sh\ncat {} >&2\nexit 1\n", at("stderr"));
    std::fs::write(at("work.sh"), work).unwrap();
    std::fs::set_permissions(
        at("work.sh"),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    std::fs::write(at("messages"), "one\n").unwrap();
    for format in ["text", "json"] {
        let records = at(&format!("{format}.jsonl"));
        let run = command(&[
            "run",
            "--queue-url",
            "local:orders",
            "--policy",
            &policy,
            "--exec",
            &at("work.sh"),
            "--messages",
            &at("messages"),
            "--decisions",
            &records,
            "--log-format",
            format,
            "-v",
            "--cache",
            "off",
        ])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
        assert_output_is_safe(&run);
        let log = text(&run.stderr);
        assert!(log.contains("FOR"), "{log}");
        for line in log.lines().filter(|_| format == "json") {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        }
        let written = std::fs::read_to_string(&records).unwrap();
        assert_safe(&written);
        // The decision, and the death.
        assert_eq!(written.lines().count(), 2, "{written}");
        // Nothing is lost: what was written means the same.
        let record = &read_records(records.as_ref())[0];
        assert!(
            record["failure"]["error"]["message"]
                .as_str()
                .unwrap()
                .contains('\u{202e}')
        );
        let id = record["failure"]["message-id"].as_str().unwrap();
        for arguments in [
            &["why", id, &records][..],
            &["why", id, &records, "--json"],
            &["policy", "replay", &records, "--policy", "linear"],
            &["policy", "replay", &records, "--policy", "linear", "--json"],
            &["policy", "run", "linear", "--failure", &records],
            &["policy", "run", "linear", "--failure", &records, "--json"],
        ] {
            let output = command(arguments)
                .stdin(Stdio::null())
                .output()
                .await
                .unwrap();
            assert_output_is_safe(&output);
            if arguments.contains(&"--json") {
                let shown = text(&output.stdout);
                assert!(serde_json::from_str::<Value>(&shown).is_ok(), "{shown}");
            }
        }
    }
}
