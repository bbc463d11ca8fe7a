//! Who may send requests: the token, pages of other sites, names that others point at the address.

use std::process::Stdio;
use std::time::Duration;

use backstop_tests::backstop::{command, text};
use backstop_tests::eventually;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::time::{Instant, timeout};

use super::world::{TOKEN, World, status_of};

/// A rollback with these headers.
fn roll_back(headers: &[&str]) -> String {
    let given = headers.iter().filter(|line| !line.is_empty());
    let headers: String = given.map(|line| format!("{line}\r\n")).collect();
    format!("POST /v1/rollback HTTP/1.1\r\n{headers}content-length: 2\r\n\r\n{{}}")
}

#[tokio::test]
async fn a_request_without_the_token_is_refused_except_for_probes() {
    let world = World::with_token(&["-vv"]).await;
    world.swap().await;
    let long = format!("Bearer {}", "x".repeat(10_000));
    let near = format!("Bearer {}", TOKEN.replace("f", "g"));
    let lines = [
        String::new(),
        "authorization:\r\n".to_owned(),
        "authorization: Bearer\r\n".to_owned(),
        format!("authorization: {TOKEN}\r\n"),
        format!("authorization: Basic {TOKEN}\r\n"),
        format!("authorization: {near}\r\n"),
        format!("authorization: Bearer {TOKEN}x\r\n"),
        format!("authorization: {long}\r\n"),
        format!("x-token: {TOKEN}\r\ncookie: token={TOKEN}\r\n"),
    ];
    for line in &lines {
        for request in [
            "GET /v1/status",
            "GET /metrics",
            "GET /",
            "GET /livez/",
            "GET //livez",
        ] {
            let request = format!(
                "{request} HTTP/1.1\r\nhost: {}\r\n{line}\r\n",
                world.address
            );
            let answer = world.raw(request.as_bytes()).await;
            assert_eq!(status_of(&answer), 401, "{request} {answer}");
            assert!(answer.contains("www-authenticate: Bearer"), "{answer}");
            assert!(!answer.contains("orders"), "{answer}");
        }
        let host = format!("host: {}", world.address);
        let json = "content-type: application/json";
        let request = roll_back(&[&host, json, line.trim_end()]);
        let answer = world.raw(request.as_bytes()).await;
        assert_eq!(status_of(&answer), 401, "{line} {answer}");
    }
    // Query parameters are no place for secrets.
    assert_eq!(world.get(&format!("/v1/status?token={TOKEN}")).await.0, 401);
    assert_eq!(world.get("/livez").await.0, 200);
    assert_eq!(world.get("/readyz").await.0, 200);
    assert_eq!(world.get_with_token("/v1/status").await.0, 200);
    assert_eq!(world.rollbacks().await, 0);
    let log = world.running.log();
    assert!(!log.contains(TOKEN), "{log}");
    let metrics = reqwest::Client::new().get(format!("{}/metrics", world.url));
    let metrics = metrics.bearer_auth(TOKEN).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    // Who opens the page at `/` without the header is to sign in, and is not counted.
    let count = lines.len() * 6 + 1 - 2;
    let expected = format!("backstop_admin_refused_total{{reason=\"token\"}} {count}\n");
    assert!(metrics.contains(&expected), "{expected}{metrics}");
    // One line a minute, however many there are.
    let reported = log.matches("requests to the admin interface are refused");
    assert_eq!(reported.count(), 1, "{log}");
    world.running.stop().await;
}

#[tokio::test]
async fn pages_of_other_sites_get_nowhere() {
    let world = World::start().await;
    world.swap().await;
    let own = format!("host: {}", world.address);
    let json = "content-type: application/json";
    let port = world.address.rsplit(':').next().unwrap();
    let rebound = format!("host: evil.example:{port}");
    let rebound_origin = format!("origin: http://evil.example:{port}");
    let other_port = "origin: http://127.0.0.1:3000";
    for headers in [
        // A form, an image, a script: whatever a page sends without asking.
        [
            own.as_str(),
            "content-type: text/plain",
            "origin: http://evil.example",
        ]
        .as_slice(),
        &[&own, "content-type: text/plain"],
        &[&own, "content-type: application/x-www-form-urlencoded"],
        &[&own],
        &[&own, json, "origin: http://evil.example"],
        &[&own, json, "origin: null"],
        &[&own, json, other_port],
        &[&own, json, "sec-fetch-site: cross-site"],
        &[&own, json, "sec-fetch-site: same-site"],
        // A name of the stranger's own, pointed at this address.
        &[&rebound, json],
        &[
            &rebound,
            json,
            &rebound_origin,
            "sec-fetch-site: same-origin",
        ],
        &["host: backstop.internal", json],
        &[json],
    ] {
        let answer = world.raw(roll_back(headers).as_bytes()).await;
        assert!(
            [400, 403, 415].contains(&status_of(&answer)),
            "{headers:?} {answer}"
        );
        assert!(!answer.contains("access-control"), "{answer}");
        // Reading is refused as well, unless the browser keeps the answer from the page by itself.
        let is_foreign = headers
            .iter()
            .any(|it| it.contains("evil") || it.contains("-site"));
        let get = format!(
            "GET /v1/status HTTP/1.1\r\n{}\r\n\r\n",
            headers.join("\r\n")
        );
        let answer = world.raw(get.as_bytes()).await;
        if is_foreign {
            assert_eq!(status_of(&answer), 403, "{headers:?} {answer}");
            assert!(!answer.contains("orders"), "{answer}");
        }
        assert!(!answer.contains("access-control"), "{answer}");
    }
    // The question that a browser asks before it sends JSON to another site.
    let preflight = format!(
        "OPTIONS /v1/rollback HTTP/1.1\r\n{own}\r\norigin: http://evil.example\r\naccess-control-request-method: POST\r\naccess-control-request-headers: content-type\r\n\r\n"
    );
    let answer = world.raw(preflight.as_bytes()).await;
    assert_eq!(status_of(&answer), 403, "{answer}");
    assert!(!answer.contains("access-control"), "{answer}");
    assert_eq!(world.rollbacks().await, 0);
    // And a page of its own would get everywhere.
    let origin = format!("origin: http://{}", world.address);
    let headers = [&own, json, &origin, "sec-fetch-site: same-origin"];
    let answer = world.raw(roll_back(&headers).as_bytes()).await;
    assert_eq!(status_of(&answer), 200, "{answer}");
    assert_eq!(world.rollbacks().await, 1);
    for header in [
        "cache-control: no-store",
        "x-content-type-options: nosniff",
        "frame-ancestors 'none'",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    world.running.stop().await;
}

#[tokio::test]
async fn the_names_of_the_configuration_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "--admin-hosts",
        "backstop.internal",
        "--admin-hosts",
        "other",
    ];
    let world = World::start_in(folder, &names).await;
    for (host, expected) in [
        ("backstop.internal", 200),
        ("Backstop.Internal:443", 200),
        ("other:1", 200),
        ("another", 403),
        ("x.backstop.internal", 403),
    ] {
        let get = format!("GET /v1/status HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_eq!(
            status_of(&world.raw(get.as_bytes()).await),
            expected,
            "{host}"
        );
    }
    world.running.stop().await;
}

/// `backstop run` with an admin address that does not start: its exit code and errors, and how long it took.
async fn refused(arguments: &[&str], token: Option<&str>) -> (i32, String) {
    let base = [
        "run",
        "--queue-url",
        "local:try",
        "--exec",
        "true",
        "--cache",
        "off",
    ];
    let mut command = command(&[&base, arguments].concat());
    if let Some(token) = token {
        command.env("BACKSTOP_ADMIN_TOKEN", token);
    }
    let started = Instant::now();
    let output = command.stdin(Stdio::null()).output();
    let output = timeout(Duration::from_secs(30), output)
        .await
        .unwrap()
        .unwrap();
    assert!(started.elapsed() < Duration::from_secs(10));
    (output.status.code().unwrap(), text(&output.stderr))
}

#[tokio::test]
async fn a_host_without_a_usable_token_does_not_start_at_an_address_of_others() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let (code, error) = refused(&["--admin", address], None).await;
        assert_eq!(code, 3, "{error}");
        assert!(
            error.contains("needs a token") && error.contains("admin-token-file"),
            "{error}"
        );
    }
    let (code, error) = refused(&["--admin", "0.0.0.0:0"], Some("short-secret")).await;
    assert_eq!(code, 3, "{error}");
    assert!(
        error.contains("BACKSTOP_ADMIN_TOKEN: expected a token"),
        "{error}"
    );
    assert!(!error.contains("short-secret"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    std::fs::write(at("long"), "x".repeat(1 << 20)).unwrap();
    std::fs::write(at("empty"), "\n").unwrap();
    std::fs::write(
        at("binary"),
        b"\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff\x00",
    )
    .unwrap();
    for (path, reason) in [
        (at(""), "it is a folder"),
        (at("pipe"), "it is a pipe"),
        ("/dev/zero".to_owned(), "it is a device"),
        (at("long"), "it has more than 4096 bytes"),
        (at("empty"), "expected a token of 16"),
        (at("binary"), "it is not text"),
        (
            at("missing"),
            "can't read a token of the admin interface from",
        ),
        (at("missing"), "(umask 077; openssl rand -hex 32 > "),
    ] {
        // On loopback too: a token that is configured is wanted.
        let arguments = ["--admin", "127.0.0.1:0", "--admin-token-file", &path];
        let (code, error) = refused(&arguments, Some(TOKEN)).await;
        assert_eq!(code, 3, "{error}");
        assert!(error.contains(reason), "{path}: {error}");
    }
    // Whoever has one of two tokens that are the same could do what the other one is for.
    std::fs::write(at("token"), TOKEN).unwrap();
    std::fs::write(at("copy"), format!(" {TOKEN}\n")).unwrap();
    for (keys, expected) in [
        (
            "admin-token-file = \"token\"\nadmin-view-token-file = \"copy\"",
            "the tokens of `admin-token-file` and `admin-view-token-file` are the same",
        ),
        (
            "admin-token-file = \"token\"\nadmin-bodies-token-file = \"copy\"",
            "the tokens of `admin-token-file` and `admin-bodies-token-file` are the same",
        ),
        (
            "admin-bodies-token-file = \"token\"",
            "admin-bodies-token-file: expected `admin-token-file` too",
        ),
        (
            "admin-token-file = \"token\"\nadmin-bodies-token-file = \"empty\"",
            "expected a token of 16",
        ),
    ] {
        let config = format!(
            "admin = \"127.0.0.1:0\"\n{keys}\n[queues.try]\nurl = \"local:try\"\nhandler = {{ exec = \"true\" }}\n[policies]\ncache = \"off\"\n"
        );
        std::fs::write(at("backstop.toml"), config).unwrap();
        let mut command = command(&["run", "--config", &at("backstop.toml")]);
        let output = command.stdin(Stdio::null()).output().await.unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for arguments in [
        ["--admin-token-file", "token"],
        ["--admin-hosts", "x"],
        ["--admin", "9465"],
    ] {
        let (code, error) = refused(&arguments, None).await;
        assert_eq!(code, 3, "{error}");
        assert!(error.contains(&format!("{}: ", arguments[0])), "{error}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, error) = refused(&["--admin", &address], None).await;
    assert_eq!(code, 3, "{error}");
    assert!(
        error.contains("can't serve the admin interface at"),
        "{error}"
    );
}

#[tokio::test]
async fn the_doctor_finds_an_address_without_a_token() {
    for (address, token, code, expected) in [
        ("0.0.0.0:9465", None, 6, "needs a token"),
        ("0.0.0.0:9465", Some("short"), 6, "expected a token of 16"),
        ("0.0.0.0:9465", Some(TOKEN), 0, "requests need a token"),
        ("127.0.0.1:9465", None, 0, "only this machine reaches it"),
    ] {
        let queue = ["doctor", "--queue-url", "local:try", "--exec", "true"];
        let mut command = command(&[&queue[..], &["--admin", address]].concat());
        if let Some(token) = token {
            command.env("BACKSTOP_ADMIN_TOKEN", token);
        }
        let output = command.output().await.unwrap();
        let printed = text(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

#[tokio::test]
async fn the_token_of_the_environment_is_wanted_and_is_not_passed_on_to_commands() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, seen) = (folder.path().join("lines"), folder.path().join("seen"));
    std::fs::write(&lines, "one\n").unwrap();
    let exec = format!("sh -c 'env > {}; sleep 1'", seen.display());
    let arguments = [
        "run",
        "--queue-url",
        "local:try",
        "--exec",
        &exec,
        "--admin",
        "0.0.0.0:0",
        "--messages",
        lines.to_str().unwrap(),
        "--cache",
        "off",
    ];
    let mut command = command(&arguments);
    let output = command
        .env("BACKSTOP_ADMIN_TOKEN", TOKEN)
        .output()
        .await
        .unwrap();
    let log = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert!(
        log.contains("serving the admin interface at http://0.0.0.0:"),
        "{log}"
    );
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(
        seen.contains("BACKSTOP_MESSAGE_ID=") && !seen.contains(TOKEN),
        "{seen}"
    );
    assert!(!log.contains(TOKEN), "{log}");
}

#[tokio::test]
async fn a_token_is_replaced_while_the_host_runs() {
    const NEW: &str = "another-token-0123456789abcdef";
    let world = World::with_token(&[]).await;
    std::fs::write(world.at("token"), NEW).unwrap();
    eventually("the new token is wanted", || async {
        let request = reqwest::Client::new().get(format!("{}/v1/status", world.url));
        super::world::answer(request.bearer_auth(NEW)).await.0 == 200
    })
    .await;
    assert_eq!(world.get_with_token("/v1/status").await.0, 401);
    // A file without a token changes nothing, and is reported.
    std::fs::remove_file(world.at("token")).unwrap();
    eventually("it is reported", || async {
        let log = world.running.log();
        log.contains("the token of the admin interface can't be read again")
    })
    .await;
    let request = reqwest::Client::new().get(format!("{}/v1/status", world.url));
    assert_eq!(super::world::answer(request.bearer_auth(NEW)).await.0, 200);
    world.running.stop().await;
}
