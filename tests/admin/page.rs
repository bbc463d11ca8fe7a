//! The page: who may see and do what, that nothing from outside runs in it, that it acts on what was previewed, and that it never shows a part of the fleet as the whole. `browser.rs` drives it in a browser.

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::emulator::{free_port, ministack};
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_SECURITY_POLICY, COOKIE, SET_COOKIE};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::world::{TOKEN, World};

/// A token for those who only look.
const VIEW_TOKEN: &str = "a-token-to-look-0123456789abcdef";

/// A token for those who look and see bodies.
const BODIES_TOKEN: &str = "a-token-for-bodies-0123456789abcdef";

/// Every view, with what it needs to show something.
const VIEWS: [&str; 13] = [
    "/",
    "/?minutes=1440",
    "/waiting",
    "/waiting?queue=orders",
    "/waiting/wake?queue=orders&all=yes",
    "/waiting/reconsider?queue=orders",
    "/dead-letters",
    "/dead-letters?queue=orders",
    "/redrives",
    "/message?id=m-1",
    "/policies",
    "/policies/what-if",
    "/audit",
];

/// Somebody with a browser.
pub(super) struct Person {
    client: reqwest::Client,
    pub(super) url: String,
    pub(super) cookie: String,
}

impl Person {
    pub(super) fn at(url: &str) -> Self {
        Self {
            client: reqwest::Client::new(),
            url: url.to_owned(),
            cookie: String::new(),
        }
    }

    /// Signs in; gives the status.
    pub(super) async fn sign_in(&mut self, name: &str, token: &str) -> StatusCode {
        let body = json!({ "name": name, "token": token });
        let request = self.client.post(format!("{}/page/sign-in", self.url));
        let response = request.json(&body).send().await.unwrap();
        if let Some(cookie) = response.headers().get(SET_COOKIE) {
            let cookie = cookie.to_str().unwrap();
            assert!(
                cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"),
                "{cookie}"
            );
            self.cookie = cookie.split(';').next().unwrap().to_owned();
        }
        response.status()
    }

    /// The status and the text of a view.
    pub(super) async fn see(&self, path: &str) -> (StatusCode, String) {
        let request = self.client.get(format!("{}{path}", self.url));
        let response = request.header(COOKIE, &self.cookie).send().await.unwrap();
        let status = response.status();
        (status, response.text().await.unwrap())
    }

    /// The status and the answer to an action.
    pub(super) async fn act(&self, body: &Value) -> (StatusCode, Value) {
        self.post("/page/act", body).await
    }

    /// The status and the answer to what is sent to this path of the page.
    pub(super) async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = self.client.post(format!("{}{path}", self.url));
        let request = request.header(COOKIE, &self.cookie).json(body);
        let response = request.send().await.unwrap();
        let status = response.status();
        (status, response.json().await.unwrap())
    }
}

/// What tells the hosts at these URLs apart, as the page knows them.
async fn hosts(urls: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for url in urls {
        let request = reqwest::Client::new().get(format!("{url}/v1/status"));
        let status: Value = request
            .bearer_auth(TOKEN)
            .send()
            .await
            .unwrap()
            .json()
            .await
            .unwrap();
        ids.push(status["host"].as_str().unwrap().to_owned());
    }
    ids
}

/// What a button would send.
pub(super) fn button(view: &str) -> Value {
    let start = view.rsplit("data-act=\"").next().unwrap();
    let text = start.split('"').next().unwrap();
    let text = text.replace("&quot;", "\"").replace("&amp;", "&");
    serde_json::from_str(&text).unwrap()
}

/// The button of a view that does this.
pub(super) fn button_with(view: &str, action: &str) -> Value {
    let actions = view.split("data-act=\"").skip(1);
    let actions = actions.map(|rest| button(&format!("data-act=\"{rest}")));
    let mut actions = actions.filter(|it| it["action"] == action);
    let found = actions.next();
    found.unwrap_or_else(|| panic!("no {action} in {view}"))
}

async fn with_all_tokens() -> World {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, token: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, token).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (act, view) = (write("token", TOKEN), write("view-token", VIEW_TOKEN));
    let bodies = write("bodies-token", BODIES_TOKEN);
    let policy = folder.path().join("policy.wat");
    std::fs::write(&policy, backstop_tests::policies::waits(1)).unwrap();
    let config = format!(
        "admin = \"127.0.0.1:0\"\nadmin-token-file = {act:?}\nadmin-view-token-file = {view:?}\nadmin-bodies-token-file = {bodies:?}\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = \"local:orders\"\nhandler = {{ exec = \"true\" }}\npolicy = \"policy.wat\"\n"
    );
    World::of_config(folder, &config).await
}

#[tokio::test]
async fn the_page_is_seen_with_each_token_and_changed_with_one_of_them() {
    let world = with_all_tokens().await;
    let mut ana = Person::at(&world.url);
    for path in VIEWS {
        let (status, text) = ana.see(path).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(
            text.contains("Sign in") && !text.contains("orders"),
            "{path} {text}"
        );
    }
    let pause = json!({ "action": "pause", "queue": "orders", "hosts": hosts(&[&world.url]).await, "for": "5m", "why": "the till" });
    assert_eq!(ana.act(&pause).await.0, StatusCode::UNAUTHORIZED);
    for (name, token) in [("ana", "wrong-0123456789abcdef"), ("ana", ""), (" ", TOKEN)] {
        assert!(
            ana.sign_in(name, token).await.is_client_error(),
            "{name} {token}"
        );
        assert_eq!(ana.cookie, "");
    }

    for (token, role) in [(VIEW_TOKEN, "view"), (BODIES_TOKEN, "bodies")] {
        assert_eq!(ana.sign_in("Ana", token).await, StatusCode::OK);
        for path in VIEWS {
            assert_eq!(ana.see(path).await.0, StatusCode::OK, "{path}");
        }
        let (_, text) = ana.see("/waiting?queue=orders").await;
        assert!(text.contains("You may look only."), "{text}");
        assert!(text.contains(&format!("Ana ({role})")), "{text}");
        let (status, refused) = ana.act(&pause).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{refused}");
        // Nor does the token change anything without the page.
        let request = reqwest::Client::new().post(format!("{}/v1/pause", world.url));
        let request = request.bearer_auth(token);
        let request = request.json(&json!({ "queue": "orders" }));
        let status = request.send().await.unwrap().status();
        assert_eq!(status, StatusCode::FORBIDDEN);
        for other in ["act", "bodies", "view"].iter().filter(|it| **it != role) {
            let mut forged = Person::at(&world.url);
            let as_other = format!(".{other}.");
            forged.cookie = ana.cookie.replace(&format!(".{role}."), &as_other);
            assert_eq!(forged.act(&pause).await.0, StatusCode::UNAUTHORIZED);
            assert_eq!(forged.see("/").await.0, StatusCode::UNAUTHORIZED);
        }
    }

    assert_eq!(ana.sign_in("Ana <b>", TOKEN).await, StatusCode::OK);
    let (status, done) = ana.act(&pause).await;
    assert_eq!(
        (status, &done["summary"]),
        (StatusCode::OK, &json!("Done at 1 of 1 hosts: paused."))
    );
    let (_, text) = ana.see("/").await;
    assert!(
        text.contains("paused for") && text.contains("the till"),
        "{text}"
    );
    let (_, text) = ana.see("/audit").await;
    assert!(
        text.contains("claims to be `Ana &lt;b&gt;`") && text.contains("the till"),
        "{text}"
    );
    let (_, csv) = ana.see("/audit?format=csv&queue=orders").await;
    assert!(
        csv.starts_with("\"at\",\"host\",\"action\"") && csv.contains("/v1/pause"),
        "{csv}"
    );
    let (_, json) = ana.see("/audit?format=json&queue=bills").await;
    assert_eq!(json.trim(), "[]");
    let resume =
        json!({ "action": "resume", "queue": "orders", "hosts": hosts(&[&world.url]).await });
    assert_eq!(ana.act(&resume).await.0, StatusCode::OK);

    // A token that was replaced ends the sessions that it has signed.
    std::fs::write(world.at("token"), "another-token-0123456789abcdef").unwrap();
    eventually("the session has ended", async || {
        ana.see("/").await.0 == StatusCode::UNAUTHORIZED
    })
    .await;
}

#[tokio::test]
async fn other_sites_may_open_the_page_and_do_nothing_on_it() {
    let world = World::start().await;
    let mut ana = Person::at(&world.url);
    assert_eq!(ana.sign_in("Ana", "").await, StatusCode::OK);
    let pause =
        json!({ "action": "pause", "queue": "orders", "hosts": hosts(&[&world.url]).await });
    let own = format!("http://{}", world.address);
    for (headers, act, see) in [
        (
            &[("origin", own.as_str()), ("sec-fetch-site", "same-origin")][..],
            200,
            200,
        ),
        (&[("origin", "http://evil.example")], 403, 403),
        (&[("sec-fetch-site", "cross-site")], 403, 403),
        (&[("sec-fetch-site", "same-site")], 403, 403),
        (
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            403,
            200,
        ),
        (
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
            403,
            403,
        ),
        (
            &[
                ("origin", "null"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            403,
            403,
        ),
        (
            &[
                ("host", "evil.example"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            403,
            403,
        ),
    ] {
        let with = |mut request: reqwest::RequestBuilder| {
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            request.header(COOKIE, &ana.cookie)
        };
        let client = reqwest::Client::new();
        let posted = with(client.post(format!("{}/page/act", world.url)).json(&pause));
        assert_eq!(posted.send().await.unwrap().status(), act, "{headers:?}");
        let seen = with(client.get(format!("{}/waiting", world.url)));
        assert_eq!(seen.send().await.unwrap().status(), see, "{headers:?}");
    }
    // No link has all hosts count.
    for path in ["wake?queue=orders&all=yes", "reconsider?queue=orders"] {
        let preview = reqwest::Client::new().get(format!("{}/waiting/{path}", world.url));
        let preview = preview.header("sec-fetch-site", "cross-site");
        let preview = preview
            .header("sec-fetch-mode", "navigate")
            .header("sec-fetch-dest", "document");
        assert_eq!(preview.send().await.unwrap().status(), 403, "{path}");
    }
    // A form of another site can't send JSON.
    let form = reqwest::Client::new().post(format!("{}/page/act", world.url));
    let form = form
        .header(COOKIE, &ana.cookie)
        .header("content-type", "text/plain");
    let form = form.body(pause.to_string()).send().await.unwrap();
    assert_eq!(form.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

/// A host whose worker fails with what somebody else wrote.
struct Hostile {
    running: Running,
    queues: Queues,
    url: String,
    /// Of its queue.
    name: String,
    _folder: TempDir,
}

async fn hostile(error: &str) -> Hostile {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
    let script = format!("cat >&2 <<'X'\n{error}\nX\nexit 7");
    let arguments = [
        "--exec",
        "sh",
        "--policy",
        "linear",
        "--set",
        "base=1h",
        "--admin",
        "127.0.0.1:0",
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("work.sh");
    std::fs::write(&path, script).unwrap();
    let exec = format!("sh {}", path.display());
    let mut arguments = arguments.map(str::to_owned);
    arguments[1] = exec;
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let running = Running::start(&[&queues.arguments()[..], &arguments].concat()).await;
    Hostile {
        name: queues.url.rsplit('/').next().unwrap().to_owned(),
        url: running.admin(),
        queues,
        running,
        _folder: folder,
    }
}

impl Hostile {
    /// Waits until the page at a URL shows that so many of its messages wait. Gives the view.
    async fn waits(&self, person: &Person, count: usize) -> String {
        let text = format!("<strong>{count}</strong> messages wait");
        let path = format!("/waiting?queue={}", self.name);
        eventually("they wait", async || {
            person.see(&path).await.1.contains(&text)
        })
        .await;
        person.see(&path).await.1
    }
}

/// The first id of a message in a view.
fn id_in(view: &str) -> String {
    let id = view.split("/message?id=").nth(1).unwrap();
    id.split('"').next().unwrap().to_owned()
}

#[tokio::test]
async fn text_from_outside_does_nothing_in_the_page() {
    let text = "<script>alert(1)</script>\" onload=alert(1) <img src=x onerror=alert(1)> \u{202e}txt.exe \u{200b}";
    let host = hostile(text).await;
    let url = &host.url;
    let body = "<script>alert(2)</script>".to_owned();
    host.queues.send([body]).await;
    let ana = Person::at(url);
    let waiting = format!("/waiting?queue={}", host.name);
    let id = id_in(&host.waits(&ana, 1).await);
    let paths = [
        "/".to_owned(),
        waiting,
        format!("/message?id={id}"),
        "/message?id=%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%27".to_owned(),
        "/waiting?queue=%22%3E%3Cscript%3E&code=%22%20autofocus%20onfocus%3Dalert(1)&id=%3Cb%3E"
            .to_owned(),
        "/policies".to_owned(),
        "/audit?queue=%22%3E%3Cscript%3Ealert(1)".to_owned(),
        "/nothing-here".to_owned(),
    ];
    for path in paths {
        let response = reqwest::get(format!("{url}{path}")).await.unwrap();
        if path == "/nothing-here" {
            assert_eq!(response.status(), StatusCode::NOT_FOUND);
            continue;
        }
        let headers = response.headers();
        let policy = headers[CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        let view = response.text().await.unwrap();
        for mark in [
            "<script>",
            "<img",
            " onload=",
            " onfocus=",
            " onerror=",
            " style=",
            "<b>",
            "\u{202e}",
            "\u{200b}",
        ] {
            let quoted = view
                .replace("&quot; onload=", "")
                .replace("x onerror=", "")
                .replace("&quot; autofocus onfocus=", "");
            assert!(!quoted.contains(mark), "{path}: {mark} in {view}");
        }
    }
    let (_, message) = ana.see(&format!("/message?id={id}")).await;
    assert!(
        message.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && message.contains("\\u{202e}"),
        "{message}"
    );
}

#[tokio::test]
async fn a_wake_reaches_the_messages_of_its_preview_and_no_others() {
    let host = hostile("busy").await;
    let (queues, name) = (&host.queues, &host.name);
    let mut ana = Person::at(&host.url);
    ana.sign_in("Ana", "").await;
    queues.send(["1", "2", "3"].map(str::to_owned)).await;
    host.waits(&ana, 3).await;
    // Nothing chooses nothing.
    for path in [
        format!("/waiting/wake?queue={name}"),
        "/waiting/wake?all=yes".to_owned(),
    ] {
        let (_, text) = ana.see(&path).await;
        assert!(
            text.contains("Nothing is chosen") && !text.contains("data-act"),
            "{text}"
        );
    }
    let (_, preview) = ana
        .see(&format!("/waiting/wake?queue={name}&code=exit+7&spread=0"))
        .await;
    assert!(
        preview.contains("<strong>3</strong> messages match"),
        "{preview}"
    );
    queues.send(["4", "5"].map(str::to_owned)).await;
    host.waits(&ana, 5).await;

    let act = button(&preview);
    // A choice that is none, of whatever type, chooses nothing; `all` and a filter are two choices.
    for (name, value) in [
        ("filter", Value::Null),
        ("filter", json!({})),
        ("filter", json!("x")),
        ("filter", json!([])),
        ("all", json!(true)),
        ("as-of", json!({})),
    ] {
        let mut wrong = act.clone();
        wrong[name] = value.clone();
        let (status, refused) = ana.act(&wrong).await;
        assert!(
            status.is_client_error(),
            "{name} {value}: {status} {refused}"
        );
    }
    let (_, text) = ana
        .see(&format!("/waiting/wake?queue={name}&attempt=0"))
        .await;
    assert!(text.contains("Nothing is chosen"), "{text}");
    let (_, json) = ana.see("/audit?format=json").await;
    assert_eq!(json.trim(), "[]", "a preview is no action");
    // The fleet has changed since, as far as the page knows.
    let mut other = act.clone();
    other["as-of"] = json!({ "0123456789abcdef": 1 });
    let (status, refused) = ana.act(&other).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    let (status, done) = ana.act(&act).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert_eq!(done["summary"], "Done at 1 of 1 hosts: 3 messages woken.");
    let (_, csv) = ana.see("/audit?format=csv").await;
    assert!(
        csv.contains("claims to be `Ana`") && csv.contains("3 match, 3 come sooner"),
        "{csv}"
    );
}

/// The version with which the preview at a host was made.
fn digest(act: &Value) -> String {
    let hosts = act["hosts"].as_object().unwrap();
    let (_, previewed) = hosts.iter().next().unwrap();
    previewed["digests"][0].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_reconsideration_is_made_with_the_version_of_its_preview_and_no_other() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
    let name = queues.url.rsplit('/').next().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.wat");
    let version = |seconds: u32| std::fs::write(&policy, waits(seconds * 1_000)).unwrap();
    version(3_600);
    let arguments = [
        "--exec",
        "sh -c 'exit 7'",
        "--policy",
        policy.to_str().unwrap(),
        "--admin",
        "127.0.0.1:0",
    ];
    let running = Running::start(&[&queues.arguments()[..], &arguments].concat()).await;
    let mut ana = Person::at(&running.admin());
    ana.sign_in("Ana", "").await;
    queues.send(["1", "2", "3"].map(str::to_owned)).await;
    eventually("they wait", async || {
        let (_, view) = ana.see(&format!("/waiting?queue={name}")).await;
        view.contains("<strong>3</strong> messages wait")
    })
    .await;
    let path = format!("/waiting/reconsider?queue={name}&spread=0");
    let (_, preview) = ana.see(&path).await;
    assert!(
        preview.contains("None of them would come sooner."),
        "{preview}"
    );
    let previewed = async |seconds: u32, before: &str| {
        version(seconds);
        eventually("the version is active", async || {
            let (_, preview) = ana.see(&path).await;
            preview.contains("<strong>3</strong> of them would come sooner")
                && digest(&button(&preview)) != before
        })
        .await;
        let (_, preview) = ana.see(&path).await;
        button(&preview)
    };
    let first = previewed(1_800, "").await;
    let second = previewed(900, &digest(&first)).await;
    // Another version is active than that of the first preview.
    let (status, refused) = ana.act(&first).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    for (name, value) in [
        ("hosts", json!({})),
        (
            "hosts",
            json!({ "0123456789abcdef": { "as-of": 1, "digests": [] } }),
        ),
        ("hosts", Value::Null),
        ("queue", json!("other")),
    ] {
        let mut wrong = second.clone();
        wrong[name] = value;
        let (status, refused) = ana.act(&wrong).await;
        assert!(status.is_client_error(), "{name}: {status} {refused}");
    }
    let id = second["hosts"].as_object().unwrap().keys().next().unwrap();
    for (field, value) in [("as-of", Value::Null), ("digests", Value::Null)] {
        let mut wrong = second.clone();
        wrong["hosts"][id][field] = value;
        assert!(ana.act(&wrong).await.0.is_client_error(), "{field}");
    }
    let (_, json) = ana.see("/audit?format=json").await;
    assert_eq!(json.trim(), "[]", "nothing was done");
    let (status, done) = ana.act(&second).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert_eq!(
        done["summary"],
        "Done at 1 of 1 hosts: 3 messages come sooner."
    );
    let audit = reqwest::get(format!("{}/v1/audit", ana.url)).await.unwrap();
    let audit = audit.text().await.unwrap();
    assert!(
        audit.contains("/v1/reconsider") && audit.contains("claims to be `Ana`"),
        "{audit}"
    );
    running.stop().await;
}

/// A host at an address, which names both in its `fleet`.
async fn host(own: &str, fleet: &[&str]) -> (Running, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), TOKEN).unwrap();
    let urls: Vec<_> = fleet.iter().map(|it| format!("http://{it}")).collect();
    let config = format!(
        "admin = \"{own}\"\nadmin-token-file = \"token\"\nfleet = {urls:?}\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = \"local:orders\"\nhandler = {{ exec = \"true\" }}\npolicy = \"full-jitter\"\ngrace = \"1s\"\n"
    );
    let path = folder.path().join("backstop.toml");
    std::fs::write(&path, config).unwrap();
    let arguments = ["run", "--json", "--config", path.to_str().unwrap()];
    (Running::start_command(command(&arguments)).await, folder)
}

#[tokio::test]
async fn the_page_of_one_host_shows_the_fleet_and_says_when_it_is_not_all() {
    let addresses = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    let (one, _one) = host(addresses[0], &addresses).await;
    let (other, _other) = host(addresses[1], &addresses).await;
    let mut ana = Person::at(&one.admin());
    ana.sign_in("Ana", TOKEN).await;
    // A session is good at every host with the token.
    let bob = Person {
        cookie: ana.cookie.clone(),
        ..Person::at(&other.admin())
    };
    for person in [&ana, &bob] {
        eventually("both are shown", async || {
            let (_, text) = person.see("/").await;
            text.contains("polled (2 of 2 hosts)") && !text.contains("This is not all")
        })
        .await;
    }
    let ids = hosts(&[&ana.url, &bob.url]).await;
    for wrong in [
        json!([]),
        json!([ids[0]]),
        json!([ids[0], "0123456789abcdef"]),
    ] {
        let pause = json!({ "action": "pause", "queue": "orders", "hosts": wrong });
        let (status, refused) = ana.act(&pause).await;
        assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    }
    let pause = json!({ "action": "pause", "queue": "orders", "hosts": [ids[0]] });
    let (status, refused) = ana.act(&pause).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    let pause = json!({ "action": "pause", "queue": "orders", "hosts": ids, "why": "the till" });
    let (status, done) = ana.act(&pause).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(done["summary"], "Done at 2 of 2 hosts: paused.", "{done}");
    eventually("both have logged it", async || {
        let (_, text) = bob.see("/audit").await;
        text.matches("claims to be").count() == 2
    })
    .await;

    // One that does not answer is missing, and what all should do is not done by a part.
    other.signal(Signal::STOP);
    let (status, text) = ana.see("/").await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        text.contains("This is not all: ") && text.contains(addresses[1]),
        "{text}"
    );
    for path in ["/audit?format=csv", "/waiting?format=json"] {
        let (status, text) = ana.see(path).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    }
    let resume = json!({ "action": "resume", "queue": "orders", "hosts": [ids[0]] });
    let (status, refused) = ana.act(&resume).await;
    assert_eq!(status, StatusCode::CONFLICT, "{refused}");
    assert!(
        refused["error"].as_str().unwrap().contains(addresses[1]),
        "{refused}"
    );
    other.signal(Signal::CONT);
}

#[tokio::test]
async fn a_message_that_waits_at_another_host_is_found_by_its_id() {
    let other = hostile("busy").await;
    let url = &other.url;
    other.queues.send(["1".to_owned()]).await;
    let folder = tempfile::tempdir().unwrap();
    let config = format!(
        "admin = \"127.0.0.1:0\"\nfleet = [{url:?}]\n[policies]\ncache = \"cache\"\n[queues.bills]\nurl = \"local:bills\"\nhandler = {{ exec = \"true\" }}\npolicy = \"linear\"\n"
    );
    let world = World::of_config(folder, &config).await;
    let ana = Person::at(&world.url);
    let view = other.waits(&ana, 1).await;
    // The host that does not serve the queue is not missing.
    assert!(!view.contains("This is not all"), "{view}");
    let id = id_in(&view);
    assert!(id.contains('-'));
    let (_, message) = ana.see(&format!("/message?id={id}")).await;
    assert!(
        message.contains("Decided by") && message.contains(url.as_str()),
        "{message}"
    );
    other.running.stop().await;
}
