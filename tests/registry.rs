//! Policies in a real registry and in S3: pushed, read by other tools, pulled, signed, and refused when they are not what they should be.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that can't go on fails"
)]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use backstop::clock;
use backstop::policy::{
    Bucket, BucketError, Package, Registry as Client, RegistryError, SIGNATURE_SUFFIX, builtin,
};
use backstop_tests::aws;
use backstop_tests::backstop::{command, text};
use backstop_tests::emulator::{Emulator, ministack, moto};
use backstop_tests::policies::{Rule, waits};
use backstop_tests::registry::{PASSWORD, Registry, USER};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use oci_client::secrets::RegistryAuth;
use oci_wasm::WasmClient;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

const LARGEST: usize = 1 << 20;

/// A folder with a policy, `orders.wasm`, and two key pairs, `team` and `other`; commands run in it.
struct Bench(TempDir);

impl Bench {
    async fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        bench.write("orders.wasm", &component());
        for name in ["team", "other"] {
            let made = bench.run(&["keygen", name, "--no-password"]).await;
            assert!(made.status.success(), "{}", text(&made.stderr));
        }
        bench
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// `backstop policy` in the folder, with Docker's configuration in `docker` there.
    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = command(&[&["policy"], arguments].concat());
        command
            .current_dir(self.0.path())
            .env("DOCKER_CONFIG", self.path("docker"))
            .env_remove("SOURCE_DATE_EPOCH")
            .env_remove("BACKSTOP_KEY_PASSWORD")
            .stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    /// What a command that succeeds prints as JSON.
    async fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat()).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// A command fails with this exit code and these words.
    async fn fails(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.run(arguments).await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}\n{told}");
        assert!(told.contains(words), "{words:?} is not in:\n{told}");
    }

    /// Docker's configuration.
    fn log_in(&self, config: &Value) {
        std::fs::create_dir_all(self.path("docker")).unwrap();
        self.write("docker/config.json", config.to_string().as_bytes());
    }
}

/// A policy as a component.
fn component() -> Vec<u8> {
    let module = builtin::bytes("linear").unwrap();
    let mut encoder = wit_component::ComponentEncoder::default();
    encoder.module(module).unwrap().encode().unwrap()
}

/// A policy that waits this long, as a core module written by hand.
fn module(milliseconds: u32) -> Vec<u8> {
    wat::parse_str(waits(milliseconds)).unwrap()
}

fn plain() -> oci_client::Client {
    oci_client::Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    })
}

fn reference(url: &str) -> oci_client::Reference {
    url.trim_start_matches("oci://").parse().unwrap()
}

fn package(file: Vec<u8>) -> Package {
    let created = jiff::Timestamp::UNIX_EPOCH;
    Package::policy(file, BTreeMap::new(), created).unwrap()
}

#[tokio::test]
async fn what_is_pushed_is_pulled_again_byte_for_byte() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1.0.0");
    let pushed = bench.json(&["push", "orders.wasm", &url]).await;
    assert_eq!(pushed["signed-by"], Value::Null);
    let pulled = bench.json(&["pull", &url, "-o", "pulled.wasm"]).await;
    assert_eq!(bench.read("pulled.wasm"), bench.read("orders.wasm"));
    assert_eq!(pulled["pin"], pushed["pin"]);
    assert_eq!(pulled["verified"], false);
    assert!(!bench.path("pulled.wasm.minisig").exists());
    // A core module stays one.
    bench.write("by-hand.wasm", &module(5));
    let hand = registry.url("by-hand");
    bench.json(&["push", "by-hand.wasm", &hand]).await;
    bench.write("by-hand.wasm", b"");
    bench.json(&["pull", &hand]).await;
    assert_eq!(bench.read("by-hand.wasm"), module(5));
    // What was printed last is for the configuration.
    let again = bench
        .run(&["push", "orders.wasm", &registry.url("orders:again")])
        .await;
    let pin = pushed["pin"].as_str().unwrap();
    let line = format!("policy = \"{}@{pin}\"\n", registry.url("orders:again"));
    assert!(
        text(&again.stdout).ends_with(&line),
        "{}",
        text(&again.stdout)
    );
    bench.json(&["pull", &format!("{url}@{pin}")]).await;
}

#[tokio::test]
async fn other_tools_read_what_is_pushed() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1.0.0");
    let source = "org.opencontainers.image.source=https://example.com/?a=b";
    let mut pushing = bench.command(&[
        "push",
        "orders.wasm",
        &url,
        "--annotation",
        source,
        "--json",
    ]);
    let pushed = pushing
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .output()
        .await
        .unwrap();
    let pushed: Value = serde_json::from_slice(&pushed.stdout).unwrap();
    let client = WasmClient::new(plain());
    let anonymous = RegistryAuth::Anonymous;
    let (manifest, config, digest) = client
        .pull_manifest_and_config(&reference(&url), &anonymous)
        .await
        .unwrap();
    assert_eq!(digest, pushed["pin"]);
    assert_eq!(config.os, "wasip2");
    assert_eq!(config.architecture, "wasm");
    assert_eq!(config.created.to_rfc3339(), "2026-01-01T00:00:00+00:00");
    assert_eq!(config.layer_digests, [pushed["digest"].as_str().unwrap()]);
    let described = oci_wasm::Component::from_raw_component(component()).unwrap();
    let component = config.component.unwrap();
    assert_eq!(component.exports, described.exports);
    assert_eq!(component.imports, described.imports);
    assert!(
        component
            .exports
            .contains(&"backstop:policy/backoff@0.1.0".to_owned())
    );
    let annotations = manifest.annotations.unwrap();
    assert_eq!(
        annotations["org.opencontainers.image.source"],
        "https://example.com/?a=b"
    );
    let image = client.pull(&reference(&url), &anonymous).await.unwrap();
    assert_eq!(image.layers[0].data, bench.read("orders.wasm"));
}

#[tokio::test]
async fn what_other_tools_push_is_pulled() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("theirs:1");
    let (config, layer) = oci_wasm::WasmConfig::from_raw_component(component(), None).unwrap();
    WasmClient::new(plain())
        .push(
            &reference(&url),
            &RegistryAuth::Anonymous,
            layer,
            config,
            None,
        )
        .await
        .unwrap();
    bench.json(&["pull", &url]).await;
    assert_eq!(bench.read("theirs.wasm"), component());
}

#[tokio::test]
async fn the_digest_of_a_tag_follows_what_is_pushed_to_it() {
    let registry = Registry::start();
    let at = reference(&registry.url("orders:live"));
    let client = Client::new(Vec::new());
    let first = client.push(&at, &package(module(1)), None).await.unwrap();
    assert_eq!(client.digest(&at).await.unwrap(), first);
    let second = client.push(&at, &package(module(2)), None).await.unwrap();
    assert_ne!(first, second);
    // As a poller does it, on another thread.
    let (poller, polled) = (client.clone(), at.clone());
    let found = tokio::spawn(async move { poller.digest(&polled).await });
    assert_eq!(found.await.unwrap().unwrap(), second);
    let poller = client.clone();
    let fetched = tokio::spawn(async move { poller.fetch(&at, true, LARGEST).await });
    assert_eq!(fetched.await.unwrap().unwrap().file, module(2));
    assert!(
        registry
            .log()
            .contains("HEAD /v2/policies/orders/manifests/live")
    );
}

#[tokio::test]
async fn content_that_was_changed_in_the_registry_is_refused() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    let pushed = bench.json(&["push", "orders.wasm", &url]).await;
    let pin = pushed["pin"].as_str().unwrap();
    let layer = registry.blob(pushed["digest"].as_str().unwrap());
    let mut content = std::fs::read(&layer).unwrap();
    *content.last_mut().unwrap() ^= 1;
    std::fs::write(&layer, content).unwrap();
    let pull = ["pull", &url, "-o", "pulled.wasm"];
    bench
        .fails(&pull, 4, "has been changed: expected the digest")
        .await;
    assert!(!bench.path("pulled.wasm").exists());
    let manifest = registry.blob(pin);
    let changed = std::fs::read_to_string(&manifest)
        .unwrap()
        .replace("wasm.config.v0", "wasm.config.v9");
    std::fs::write(&manifest, changed).unwrap();
    let pinned = format!("{url}@{pin}");
    bench
        .fails(
            &["pull", &pinned],
            4,
            "has been changed: expected the digest",
        )
        .await;
    let unknown = format!("{url}@sha256:{}", "0".repeat(64));
    bench.fails(&["pull", &unknown], 5, "there is no").await;
}

#[tokio::test]
async fn only_what_an_accepted_key_has_signed_is_pulled_where_that_is_required() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    let pull = |key| {
        [
            "pull",
            &url,
            "-o",
            "pulled.wasm",
            "--require-signature",
            key,
        ]
    };
    bench.json(&["push", "orders.wasm", &url]).await;
    bench.fails(&pull("team.pub"), 4, "it is not signed").await;
    bench
        .json(&["push", "orders.wasm", &url, "--sign", "other.key"])
        .await;
    bench
        .fails(&pull("team.pub"), 4, "which is not accepted")
        .await;
    assert!(!bench.path("pulled.wasm").exists());
    let pushed = bench
        .json(&["push", "orders.wasm", &url, "--sign", "team.key"])
        .await;
    let pulled = bench.json(&pull("team.pub")).await;
    assert_eq!(pulled["verified"], true);
    assert_eq!(pulled["signed-by"], pushed["signed-by"]);
    let verify = [
        "verify",
        "pulled.wasm",
        "--key",
        "other.pub",
        "--key",
        "team.pub",
    ];
    assert!(bench.run(&verify).await.status.success());
    // Signatures of another file, and cut short.
    bench.write("by-hand.wasm", &module(5));
    bench
        .run(&["sign", "by-hand.wasm", "--key", "team.key"])
        .await;
    let another = [
        "push",
        "orders.wasm",
        &url,
        "--signature",
        "by-hand.wasm.minisig",
    ];
    bench.json(&another).await;
    bench.fails(&pull("team.pub"), 4, "does not fit").await;
    let whole = text(&bench.read("by-hand.wasm.minisig"));
    let client = Client::new(Vec::new());
    for length in [0, 50, 100, whole.len() - 5] {
        let cut = &whole[..length];
        let at = reference(&url);
        client
            .push(&at, &package(component()), Some(cut))
            .await
            .unwrap();
        bench
            .fails(&pull("team.pub"), 4, "is not one of minisign's")
            .await;
    }
    // Without the requirement it is pulled, and told for what it is.
    let pulled = bench.run(&["pull", &url, "-o", "pulled.wasm"]).await;
    assert!(text(&pulled.stdout).contains("signed     no: "));
}

#[tokio::test]
async fn signatures_are_those_of_minisign_both_ways() {
    let bench = Bench::new().await;
    // Ours, verified by minisign's library.
    bench
        .run(&["sign", "orders.wasm", "--key", "team.key"])
        .await;
    let key = minisign::PublicKey::from_file(bench.path("team.pub")).unwrap();
    let signature = minisign::SignatureBox::from_file(bench.path("orders.wasm.minisig")).unwrap();
    minisign::verify(
        &key,
        &signature,
        Cursor::new(component()),
        true,
        false,
        false,
    )
    .unwrap();
    assert!(
        signature
            .trusted_comment()
            .unwrap()
            .contains("file:orders.wasm")
    );
    // Its own, with an encrypted key, verified by us.
    let password = Some("correct horse".to_owned());
    let pair = minisign::KeyPair::generate_encrypted_keypair(password.clone()).unwrap();
    bench.write("theirs.key", &pair.sk.to_box(None).unwrap().to_bytes());
    bench.write("theirs.pub", &pair.pk.to_box().unwrap().to_bytes());
    let secret = minisign::SecretKey::from_file(bench.path("theirs.key"), password).unwrap();
    let signature = minisign::sign(None, &secret, Cursor::new(component()), None, None).unwrap();
    bench.write("orders.wasm.minisig", &signature.to_bytes());
    let verify = ["verify", "orders.wasm", "--key", "theirs.pub"];
    assert!(bench.run(&verify).await.status.success());
    // Its key, used by us.
    let sign = ["sign", "orders.wasm", "--key", "theirs.key"];
    bench.fails(&sign, 3, "can't ask for the password").await;
    for (password, code) in [("battery", 3), ("correct horse", 0)] {
        let mut signing = bench.command(&sign);
        let output = signing
            .env("BACKSTOP_KEY_PASSWORD", password)
            .output()
            .await;
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    assert!(bench.run(&verify).await.status.success());
}

#[tokio::test]
async fn keys_are_made_once_and_kept_to_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new().await;
    let made = std::fs::metadata(bench.path("team.key")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    bench
        .fails(&["keygen", "team", "--no-password"], 2, "never replaced")
        .await;
    bench
        .fails(&["keygen", "new"], 3, "set BACKSTOP_KEY_PASSWORD")
        .await;
    bench
        .fails(
            &["verify", "orders.wasm", "--key", "new.pub"],
            3,
            "can't read the public key",
        )
        .await;
    bench
        .fails(
            &["sign", "orders.wasm", "--key", "team.pub"],
            3,
            "is not a secret key",
        )
        .await;
    bench
        .fails(&["sign", "linear", "--key", "team.key"], 2, "is built in")
        .await;
}

#[tokio::test]
async fn a_policy_that_a_host_would_refuse_is_not_pushed() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let endless = Rule {
        delay: Some(Rule::LOOP),
        ..Rule::default()
    };
    bench.write("endless.wasm", &wat::parse_str(endless.text()).unwrap());
    bench.write("text.wat", waits(1).as_bytes());
    let url = registry.url("orders:1");
    bench
        .fails(&["push", "endless.wasm", &url], 4, "is refused")
        .await;
    bench
        .fails(&["push", "text.wat", &url], 4, "assemble text first")
        .await;
    let pinned = format!("{url}@sha256:{}", "0".repeat(64));
    bench
        .fails(&["push", "orders.wasm", &pinned], 2, "pinned to a digest")
        .await;
    assert!(!registry.log().contains("POST"), "{}", registry.log());
}

#[tokio::test]
async fn a_registry_that_is_away_is_told_at_once_and_used_again_when_it_is_back() {
    let (mut registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    bench.json(&["push", "orders.wasm", &url]).await;
    let client = Client::new(Vec::new());
    let before = client.digest(&reference(&url)).await.unwrap();
    registry.stop();
    let started = clock::instant();
    bench.fails(&["pull", &url], 5, "is away").await;
    let away = client.digest(&reference(&url)).await.unwrap_err();
    assert!(away.is_away(), "{away}");
    assert!(started.elapsed() < Duration::from_secs(10));
    registry.restart();
    assert_eq!(client.digest(&reference(&url)).await.unwrap(), before);
    bench.json(&["pull", &url]).await;
}

#[tokio::test]
async fn credentials_are_those_of_docker() {
    let (registry, bench) = (Registry::start_with_login(), Bench::new().await);
    let url = registry.url("orders:1");
    let push = ["push", "orders.wasm", &url];
    bench
        .fails(&push, 5, "log in with `docker login 127.0.0.1")
        .await;
    let login = |password: &str| json!({"auths": {registry.address(): {"username": USER, "password": password}}});
    bench.log_in(&login("wrong"));
    bench
        .fails(&push, 5, "log in with `docker login 127.0.0.1")
        .await;
    bench.log_in(&login(PASSWORD));
    bench.json(&push).await;
    bench.json(&["pull", &url]).await;
    // Out of a helper, which Docker runs by this name.
    let helper = format!(
        "#!/bin/sh\ncat >/dev/null\necho '{}'\n",
        json!({"Username": USER, "Secret": PASSWORD})
    );
    bench.write("docker-credential-ours", helper.as_bytes());
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.path("docker-credential-ours"), executable).unwrap();
    bench.log_in(&json!({"credHelpers": {registry.address(): "ours"}}));
    let path = std::env::var("PATH").unwrap();
    let mut pulling = bench.command(&["pull", &url]);
    pulling.env("PATH", format!("{}:{path}", bench.0.path().display()));
    assert!(pulling.output().await.unwrap().status.success());
    // One that is broken is told, and does not keep from what anybody may have.
    let open = Registry::start();
    for config in [
        json!({"credHelpers": {open.address(): "not-there"}}),
        json!({"auths": {open.address(): {"auth": "?"}}}),
    ] {
        bench.log_in(&config);
        let pushed = bench
            .run(&["push", "orders.wasm", &open.url("orders:1")])
            .await;
        let told = text(&pushed.stderr);
        assert!(pushed.status.success(), "{told}");
        assert!(told.contains("no credentials, going on without"), "{told}");
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_fetched() {
    let registry = Registry::start();
    let at = reference(&registry.url("orders:1"));
    let client = Client::new(Vec::new());
    let file = module(1);
    client
        .push(&at, &package(file.clone()), None)
        .await
        .unwrap();
    let most = file.len();
    assert!(client.fetch(&at, false, most).await.is_ok());
    let before = registry
        .log()
        .matches("GET /v2/policies/orders/blobs")
        .count();
    let refused = client.fetch(&at, false, most - 1).await.unwrap_err();
    assert!(
        matches!(refused, RegistryError::TooLarge { .. }),
        "{refused}"
    );
    assert!(!refused.is_away());
    let after = registry
        .log()
        .matches("GET /v2/policies/orders/blobs")
        .count();
    assert_eq!(before, after);
}

#[tokio::test]
async fn what_is_not_a_policy_is_refused_for_what_it_is() {
    let registry = Registry::start();
    let client = plain();
    let at = |tag: &str| reference(&registry.url(&format!("odd:{tag}")));
    client
        .store_auth_if_needed(&registry.address(), &RegistryAuth::Anonymous)
        .await;
    let digest = "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    client
        .push_blob(&at("blob"), b"{}".to_vec(), digest)
        .await
        .unwrap();
    let blob = |media_type: &str| json!({"mediaType": media_type, "digest": digest, "size": 2});
    let image = |layers: Value| json!({"schemaVersion": 2, "mediaType": OCI_IMAGE_MEDIA_TYPE, "config": blob("application/vnd.oci.image.config.v1+json"), "layers": layers});
    let layer = "application/vnd.oci.image.layer.v1.tar+gzip";
    let manifests = [
        (
            "image",
            OCI_IMAGE_MEDIA_TYPE,
            image(json!([blob(layer)])),
            "its layer is of the type",
        ),
        (
            "two",
            OCI_IMAGE_MEDIA_TYPE,
            image(json!([blob("application/wasm"), blob("application/wasm")])),
            "it has 2 layers",
        ),
        (
            "none",
            OCI_IMAGE_MEDIA_TYPE,
            image(json!([])),
            "it has 0 layers",
        ),
        (
            "index",
            OCI_IMAGE_INDEX_MEDIA_TYPE,
            json!({"schemaVersion": 2, "mediaType": OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": []}),
            "it is an index of images",
        ),
    ];
    for (tag, media_type, manifest, expected) in manifests {
        let media_type = reqwest::header::HeaderValue::from_static(media_type);
        client
            .push_manifest_raw(&at(tag), manifest.to_string(), media_type)
            .await
            .unwrap();
        let refused = Client::new(Vec::new()).fetch(&at(tag), true, LARGEST).await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, RegistryError::Unfit { .. }), "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn a_registry_without_tls_is_told_from_one_that_is_away() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    // Only localhost and 127.0.0.1 are spoken to without TLS unasked.
    let listener = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let elsewhere = listener.local_addr().unwrap();
    let address = registry.address();
    tokio::spawn(async move {
        loop {
            let (mut inward, _) = listener.accept().await.unwrap();
            let mut outward = TcpStream::connect(&address).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut inward, &mut outward).await;
            });
        }
    });
    let url = format!("oci://{elsewhere}/policies/orders:1");
    bench
        .fails(
            &["pull", &url],
            5,
            "does not speak TLS: give `--plain-http 127.0.0.2:",
        )
        .await;
    bench
        .json(&["push", "orders.wasm", &url, "--plain-http", "127.0.0.2"])
        .await;
}

/// A registry that hands out tokens, as most public ones do, and says `answer` to whoever has one.
async fn token_registry(token: &'static str, answer: StatusCode) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let realm = format!("Bearer realm=\"http://{address}/token\",service=\"tests\"");
    let router = axum::Router::new()
        .route(
            "/token",
            get(move || async move { json!({"token": token}).to_string() }),
        )
        .fallback(async move |headers: HeaderMap| {
            let bearer = headers
                .get("authorization")
                .map(|it| it.to_str().unwrap().to_owned());
            let status = match bearer {
                Some(bearer) if bearer == format!("Bearer {token}") => answer,
                _ => StatusCode::UNAUTHORIZED,
            };
            let digest = format!("sha256:{}", "a".repeat(64));
            (
                status,
                [
                    ("www-authenticate", realm.clone()),
                    ("docker-content-digest", digest),
                ],
            )
        });
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

#[tokio::test]
async fn a_token_is_asked_for_where_the_registry_wants_one() {
    // Opaque, and a JSON Web Token that says when it ends.
    let of_json = "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjQwMDAwMDAwMDB9.c2lnbmF0dXJl";
    for token in ["opaque", of_json] {
        let address = token_registry(token, StatusCode::OK).await;
        let at = reference(&format!("oci://{address}/policies/orders:1"));
        let digest = Client::new(Vec::new()).digest(&at).await.unwrap();
        assert_eq!(digest, format!("sha256:{}", "a".repeat(64)));
    }
    for (status, is_away) in [
        (StatusCode::SERVICE_UNAVAILABLE, true),
        (StatusCode::TOO_MANY_REQUESTS, true),
        (StatusCode::FORBIDDEN, false),
    ] {
        let address = token_registry("opaque", status).await;
        let at = reference(&format!("oci://{address}/policies/orders:1"));
        let refused = Client::new(Vec::new()).digest(&at).await.unwrap_err();
        assert_eq!(refused.is_away(), is_away, "{refused}");
    }
}

#[tokio::test]
async fn a_registry_that_stops_in_the_middle_of_a_policy_is_away() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let digest = format!("sha256:{}", "a".repeat(64));
    let blob = json!({"mediaType": "application/wasm", "digest": digest, "size": 1_000});
    let manifest = json!({"schemaVersion": 2, "config": blob, "layers": [blob]}).to_string();
    let half = || {
        let sent = [Ok(vec![0_u8; 500]), Err(std::io::Error::other("cut"))];
        Body::from_stream(futures::stream::iter(sent))
    };
    let router = axum::Router::new()
        .route("/v2/", get(async || ""))
        .route(
            "/v2/policies/orders/manifests/1",
            get(async move || manifest),
        )
        .fallback(async move || ([("content-length", "1000")], half()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let at = reference(&format!("oci://{address}/policies/orders:1"));
    let client = Client::new(Vec::new());
    let cut = client.fetch(&at, false, LARGEST).await.unwrap_err();
    assert!(cut.is_away(), "{cut}");
}

async fn in_s3(emulator: &Emulator) {
    let bench = Bench::new().await;
    let sdk = aws::config(&emulator.endpoint).await;
    let name = format!("policies-{}", std::process::id());
    let s3 = aws_sdk_s3::Client::from_conf(
        aws_sdk_s3::config::Builder::from(&sdk)
            .force_path_style(true)
            .build(),
    );
    s3.create_bucket().bucket(&name).send().await.unwrap();
    let url = format!("s3://{name}/team/orders.wasm");
    let endpoint = ["--endpoint-url", &emulator.endpoint];
    let push = [
        &["push", "orders.wasm", &url, "--sign", "team.key"][..],
        &endpoint,
    ]
    .concat();
    let pushed = bench.json(&push).await;
    let pinned = pushed["pinned"].as_str().unwrap();
    let pull = |url, key| {
        [
            &["pull", url, "-o", "pulled.wasm", "--require-signature", key][..],
            &endpoint,
        ]
        .concat()
    };
    let pulled = bench.json(&pull(pinned, "team.pub")).await;
    assert_eq!(pulled["pin"], pushed["digest"]);
    assert_eq!(bench.read("pulled.wasm"), bench.read("orders.wasm"));
    assert!(
        bench
            .path(&format!("pulled.wasm{SIGNATURE_SUFFIX}"))
            .exists()
    );
    bench
        .fails(&pull(&url, "other.pub"), 4, "which is not accepted")
        .await;
    let elsewhere = url.replace("orders", "none");
    bench
        .fails(&pull(&elsewhere, "team.pub"), 5, "there is no s3://")
        .await;
    let wrong = format!("{url}@sha256:{}", "0".repeat(64));
    bench
        .fails(&pull(&wrong, "team.pub"), 4, "what is there has the digest")
        .await;
    // As a poller reads it.
    let bucket = Bucket::new(&sdk, true);
    let key = "team/orders.wasm";
    let first = bucket
        .get(&name, key, None, LARGEST)
        .await
        .unwrap()
        .unwrap();
    let etag = first.etag.as_deref();
    assert!(etag.is_some());
    assert_eq!(bucket.get(&name, key, etag, LARGEST).await.unwrap(), None);
    bucket.put(&name, key, module(2)).await.unwrap();
    let second = bucket
        .get(&name, key, etag, LARGEST)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(second.file, module(2));
    let large = bucket.get(&name, key, None, module(2).len() - 1).await;
    assert!(
        matches!(large, Err(BucketError::TooLarge { .. })),
        "{large:?}"
    );
    assert!(bucket.signature(&name, key).await.unwrap().is_some());
    assert_eq!(
        bucket.signature(&name, "team/none.wasm").await.unwrap(),
        None
    );
    let missing = bucket.get("no-such-bucket-here", key, None, LARGEST).await;
    assert!(
        matches!(missing, Err(BucketError::NotFound { .. })),
        "{missing:?}"
    );
}

#[tokio::test]
async fn a_bucket_of_ministack_is_a_place_too() {
    in_s3(ministack()).await;
}

#[tokio::test]
async fn a_bucket_of_moto_is_a_place_too() {
    in_s3(moto()).await;
}

#[tokio::test]
async fn a_bucket_that_is_away_is_told() {
    let sdk = aws::config("http://127.0.0.1:1").await;
    let away = Bucket::new(&sdk, true)
        .get("b", "k", None, 1)
        .await
        .unwrap_err();
    assert!(away.is_away(), "{away}");
    assert!(
        away.to_string().starts_with("can't reach s3://b/k"),
        "{away}"
    );
    let mut regionless = sdk.into_builder();
    regionless.set_region(None::<aws_config::Region>);
    let unready = Bucket::new(&regionless.build(), true)
        .get("b", "k", None, 1)
        .await;
    assert!(unready.is_err_and(|error| !error.is_away()));
    let bench = Bench::new().await;
    let mistaken = ["pull", Path::new("orders.wasm").to_str().unwrap()];
    bench
        .fails(&mistaken, 2, "expected oci://REGISTRY/REPOSITORY:TAG")
        .await;
}
