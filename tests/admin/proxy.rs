//! An authenticating proxy: Debian's Caddy in front of a host, which signs people in and names them in a header. Nobody else is believed.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;

use backstop_tests::backstop::{command, text};
use backstop_tests::documents::top;
use backstop_tests::emulator::free_port;
use backstop_tests::eventually;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use super::page::button;
use super::world::{TOKEN, World, status_of};

/// The password `right` of both people, as Caddy keeps it.
const HASH: &str = "$2b$04$abcdefghijklmnopqrstuuFmEfrkTQnczNzw475xE2VhDrK1uwJiC";

/// A host with a token that believes `127.0.0.1`, and nobody at another address of this machine.
async fn world(token: bool, more: &str) -> World {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let policy = folder.path().join("policy.wat");
    std::fs::write(&policy, backstop_tests::policies::waits(1)).unwrap();
    let token = if token {
        "admin-token-file = \"token\"\n"
    } else {
        ""
    };
    let config = format!(
        "admin = \"127.0.0.1:0\"\nadmin-hosts = [\"backstop.internal\"]\n{token}[admin-proxy]\nheader = \"x-forwarded-user\"\nfrom = [\"127.0.0.1\"]\n{more}\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = \"local:orders\"\nhandler = {{ exec = \"true\" }}\npolicy = \"policy.wat\"\n"
    );
    World::of_config(folder, &config).await
}

/// Caddy in front of a host: it asks for a password, and replaces the header.
async fn caddy(world: &World) -> (Child, String) {
    let port = free_port();
    let file = format!(
        "{{\n  admin off\n  auto_https off\n}}\nhttp://backstop.internal:{port} {{\n  bind 127.0.0.1\n  basicauth {{\n    ana {HASH}\n    bob {HASH}\n  }}\n  map {{http.auth.user.id}} {{groups}} {{\n    ana \"all,sre\"\n    default \"all\"\n  }}\n  reverse_proxy {} {{\n    header_up X-Forwarded-User {{http.auth.user.id}}\n    header_up X-Forwarded-Groups {{groups}}\n    header_up -Authorization\n  }}\n}}\n",
        world.address
    );
    let path = world.at("Caddyfile");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new(top().join(".services/caddy/caddy"));
    command.args(["run", "--adapter", "caddyfile", "--config"]);
    let command = command.arg(&path).env("HOME", world.folder.path());
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    let caddy = command.stderr(Stdio::null()).kill_on_drop(true);
    let caddy = caddy.spawn().unwrap();
    let url = format!("http://backstop.internal:{port}");
    eventually("Caddy listens", async || {
        client(None).get(&url).send().await.is_ok()
    })
    .await;
    (caddy, url)
}

/// A browser that finds the proxy, from an address of this machine.
fn client(from: Option<[u8; 4]>) -> reqwest::Client {
    let address = from.map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    let builder = reqwest::Client::builder().local_address(address);
    let builder = builder.resolve("backstop.internal", ([127, 0, 0, 1], 0).into());
    builder.no_proxy().build().unwrap()
}

/// The status and the text of an answer.
async fn read(request: reqwest::RequestBuilder) -> (StatusCode, String) {
    let response = request.send().await.unwrap();
    let status = response.status();
    (status, response.text().await.unwrap())
}

/// What the page's button to pause would send.
async fn pause(world: &World, client: &reqwest::Client) -> Value {
    let status = client.get(format!("{}/v1/status", world.url));
    let (_, text) = read(status.bearer_auth(TOKEN)).await;
    let status: Value = serde_json::from_str(&text).unwrap();
    json!({ "action": "pause", "queue": "orders", "hosts": [status["host"]], "for": "5m", "why": "the till" })
}

#[tokio::test]
async fn people_sign_in_at_the_proxy_and_act_under_the_name_that_it_proves() {
    let groups =
        "groups-header = \"x-forwarded-groups\"\ngroups = { sre = \"act\" }\nrole = \"view\"";
    let world = world(true, groups).await;
    let (_caddy, url) = caddy(&world).await;
    let client = client(None);
    // Nobody passes the proxy without signing in, whatever they claim.
    let claimed = client.get(&url).header("x-forwarded-user", "ana");
    assert_eq!(read(claimed).await.0, StatusCode::UNAUTHORIZED);
    let see = |user: &'static str, path: &str| {
        let request = client.get(format!("{url}{path}"));
        // What the browser sends in place of the proxy's headers is replaced.
        let request = request.header("x-forwarded-user", "root");
        let request = request.header("x-forwarded-groups", "sre");
        request.basic_auth(user, Some("right"))
    };
    let (status, text) = read(see("ana", "/waiting?queue=orders")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(
        text.contains("ana (act, by proxy)") && !text.contains("Sign out"),
        "{text}"
    );
    assert_eq!(button(&text)["action"], "resume");
    let (status, text) = read(see("bob", "/waiting?queue=orders")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(
        text.contains("bob (view, by proxy)") && text.contains("You may look only."),
        "{text}"
    );
    // There is nothing to sign in.
    let (status, text) = read(see("bob", "/page/sign-in")).await;
    assert!(
        status == StatusCode::NOT_FOUND && !text.contains("name=\"token\""),
        "{text}"
    );
    let sign_in = client.post(format!("{url}/page/sign-in"));
    let sign_in = sign_in.json(&json!({ "name": "root", "token": TOKEN }));
    let (status, _) = read(sign_in.basic_auth("bob", Some("right"))).await;
    assert_eq!(status, StatusCode::CONFLICT);

    let body = pause(&world, &client).await;
    let act = |user: &'static str, headers: &[(&'static str, &str)]| {
        let mut request = client.post(format!("{url}/page/act")).json(&body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.basic_auth(user, Some("right"))
    };
    let own = [("origin", url.as_str()), ("sec-fetch-site", "same-origin")];
    let (status, text) = read(act("bob", &own)).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    // The proxy's cookie goes with the requests of every page that the browser shows.
    for other in [
        [
            ("origin", "http://evil.example"),
            ("sec-fetch-site", "cross-site"),
        ],
        [
            ("origin", "http://other.internal"),
            ("sec-fetch-site", "same-site"),
        ],
        [("origin", "null"), ("sec-fetch-site", "none")],
    ] {
        let (status, text) = read(act("ana", &other)).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{other:?} {text}");
    }
    let form = client
        .post(format!("{url}/page/act"))
        .body(body.to_string());
    let form = form.header("content-type", "text/plain");
    let (status, _) = read(form.basic_auth("ana", Some("right"))).await;
    assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let (status, text) = read(act("ana", &own)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let (_, csv) = read(see("bob", "/audit?format=csv")).await;
    assert!(
        csv.contains("(`ana`, by proxy)") && !csv.contains("claims"),
        "{csv}"
    );
    let log = world.running.log();
    assert!(log.contains("(`ana`, by proxy)"), "{log}");
    // The same for programs.
    let request = client.post(format!("{url}/v1/resume"));
    let request = request.json(&json!({ "queue": "orders" }));
    let request = request.header("x-backstop-user", "root");
    let refused = request.try_clone().unwrap();
    let (status, text) = read(refused.basic_auth("bob", Some("right"))).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    let (status, text) = read(request.basic_auth("ana", Some("right"))).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let (_, csv) = read(see("bob", "/audit?format=csv")).await;
    assert!(!csv.contains("root"), "{csv}");
    world.running.stop().await;
}

#[tokio::test]
async fn the_header_of_anybody_but_the_proxy_gives_nothing() {
    let world = world(true, "role = \"act\"").await;
    let [proxy, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|from| client(Some(from)));
    let body = pause(&world, &other).await;
    let ana = ("x-forwarded-user", "ana");
    for path in ["/", "/v1/status", "/audit"] {
        for (client, expected) in [(&proxy, StatusCode::OK), (&other, StatusCode::UNAUTHORIZED)] {
            let request = client.get(format!("{}{path}", world.url));
            let (status, text) = read(request.header(ana.0, ana.1)).await;
            assert_eq!(status, expected, "{path} {text}");
        }
    }
    for (path, body) in [
        ("/page/act", &body),
        ("/v1/pause", &json!({ "queue": "orders" })),
    ] {
        let request = other.post(format!("{}{path}", world.url)).json(body);
        let (status, text) = read(request.header(ana.0, ana.1)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path} {text}");
    }
    // With the token, the header is no name: the address and what the client claims are logged.
    let request = other.post(format!("{}/v1/pause", world.url));
    let request = request
        .json(&json!({ "queue": "orders" }))
        .bearer_auth(TOKEN);
    let (status, text) = read(request.header(ana.0, ana.1)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    let audit = proxy.get(format!("{}/v1/audit", world.url));
    let (_, audit) = read(audit.header(ana.0, ana.1)).await;
    assert!(
        audit.contains("\"by\":\"127.0.0.2:") && !audit.contains("ana"),
        "{audit}"
    );
    // A name that came twice, or is none, is nobody.
    let host = &world.address;
    for lines in [
        "x-forwarded-user: ana\r\nx-forwarded-user: ana\r\n",
        "x-forwarded-user: ana\r\nX-Forwarded-User: bob\r\n",
        &format!("x-forwarded-user: {}\r\n", "x".repeat(257)),
    ] {
        for path in ["/", "/v1/status"] {
            let get = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n");
            let answer = world.raw(get.as_bytes()).await;
            assert_eq!(status_of(&answer), 400, "{answer}");
        }
    }
    for lines in ["", "x-forwarded-user:\r\n", "x_forwarded_user: ana\r\n"] {
        for path in ["/", "/v1/status"] {
            let get = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{lines}\r\n");
            let answer = world.raw(get.as_bytes()).await;
            assert_eq!(status_of(&answer), 401, "{answer}");
            assert!(!answer.contains("orders"), "{answer}");
        }
    }
    world.running.stop().await;
}

#[tokio::test]
async fn a_proxy_without_tokens_does_not_make_everybody_who_passes_it_an_operator() {
    let world = world(false, "role = \"view\"").await;
    let [proxy, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(|from| client(Some(from)));
    let get = |client: &reqwest::Client, path: &str| client.get(format!("{}{path}", world.url));
    for path in ["/", "/v1/status", "/page/sign-in", "/audit"] {
        let (status, text) = read(get(&proxy, path)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(text.contains("x-forwarded-user"), "{text}");
    }
    // Whoever is on this machine needs no token, as without a proxy, and signs in with a name.
    assert_eq!(read(get(&other, "/")).await.0, StatusCode::OK);
    let sign_in = |client: &reqwest::Client| {
        let request = client.post(format!("{}/page/sign-in", world.url));
        request.json(&json!({ "name": "root" }))
    };
    assert_eq!(read(sign_in(&proxy)).await.0, StatusCode::UNAUTHORIZED);
    let response = sign_in(&other).send().await.unwrap();
    let cookie = response.headers()["set-cookie"].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let body = pause(&world, &other).await;
    // That session is none at the proxy, and no more than its role with a name.
    for (name, expected) in [
        (None, StatusCode::UNAUTHORIZED),
        (Some("ana"), StatusCode::FORBIDDEN),
    ] {
        let request = proxy.post(format!("{}/page/act", world.url)).json(&body);
        let mut request = request.header("cookie", &cookie);
        if let Some(name) = name {
            request = request.header("x-forwarded-user", name);
        }
        let (status, text) = read(request).await;
        assert_eq!(status, expected, "{text}");
    }
    let request = other.post(format!("{}/page/act", world.url)).json(&body);
    let (status, text) = read(request.header("cookie", &cookie)).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    world.running.stop().await;
}

#[tokio::test]
async fn a_host_without_tokens_that_its_proxy_can_not_reach_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let config = "admin = \"127.0.0.1:0\"\n[admin-proxy]\nheader = \"x-forwarded-user\"\nfrom = [\"10.0.0.5\"]\nrole = \"view\"\n[queues.orders]\nurl = \"local:orders\"\nhandler = { exec = \"true\" }\n";
    std::fs::write(&path, config).unwrap();
    let mut host = command(&["run", "--config", path.to_str().unwrap()]);
    let output = host.output().await.unwrap();
    let errors = text(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("name it in `from`"),
        "{errors}"
    );
}
