//! Policies in a real registry: pushed, read by other tools, pulled, and refused if they are invalid.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::routing::get;
use backstop_core::clock;
use backstop_tests::backstop::text;
use backstop_tests::bench::{Bench, component, module};
use backstop_tests::policies::{Rule, waits};
use backstop_tests::registry::{PASSWORD, Registry, USER};
use backstop_versions::{Registry as Client, RegistryError, RegistryOptions};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE};
use oci_client::secrets::RegistryAuth;
use oci_wasm::WasmClient;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::artifact::{package, reference};

const LARGEST: usize = 1 << 20;

fn plain() -> oci_client::Client {
    oci_client::Client::new(ClientConfig {
        protocol: ClientProtocol::Http,
        ..ClientConfig::default()
    })
}

#[tokio::test]
async fn a_pushed_policy_is_pulled_byte_for_byte() {
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
    // The last line of the output is for the configuration.
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
async fn other_tools_can_read_pushed_policies() {
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
async fn artifacts_of_other_tools_can_be_pulled() {
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
async fn the_digest_of_a_tag_follows_pushes() {
    let registry = Registry::start();
    let at = reference(&registry.url("orders:live"));
    let client = Client::new(RegistryOptions::default());
    let first = client.push(&at, &package(module(1)), None).await.unwrap();
    assert_eq!(client.digest(&at).await.unwrap(), first);
    let second = client.push(&at, &package(module(2)), None).await.unwrap();
    assert_ne!(first, second);
    // On another thread, as an update check does.
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
        .fails(&pull, 4, "was changed: expected the digest")
        .await;
    assert!(!bench.path("pulled.wasm").exists());
    let manifest = registry.blob(pin);
    let changed = std::fs::read_to_string(&manifest)
        .unwrap()
        .replace("wasm.config.v0", "wasm.config.v9");
    std::fs::write(&manifest, changed).unwrap();
    let pinned = format!("{url}@{pin}");
    bench
        .fails(&["pull", &pinned], 4, "was changed: expected the digest")
        .await;
    let unknown = format!("{url}@sha256:{}", "0".repeat(64));
    bench.fails(&["pull", &unknown], 5, "there is no").await;
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
async fn an_unreachable_registry_is_reported_at_once_and_used_again_when_it_is_reachable() {
    let (mut registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    bench.json(&["push", "orders.wasm", &url]).await;
    let client = Client::new(RegistryOptions::default());
    let before = client.digest(&reference(&url)).await.unwrap();
    registry.stop();
    let started = clock::instant();
    bench.fails(&["pull", &url], 5, "is unreachable").await;
    let unreachable_error = client.digest(&reference(&url)).await.unwrap_err();
    assert!(unreachable_error.is_unreachable(), "{unreachable_error}");
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
    pulling.env("PATH", format!("{}:{path}", bench.path("").display()));
    assert!(pulling.output().await.unwrap().status.success());
    // A broken one is reported, and does not prevent anonymous access.
    let open = Registry::start();
    for config in [
        json!({"credHelpers": {open.address(): "not-there"}}),
        json!({"auths": {open.address(): {"auth": "?"}}}),
    ] {
        bench.log_in(&config);
        let pushed = bench
            .run(&["push", "orders.wasm", &open.url("orders:1")])
            .await;
        let printed = text(&pushed.stderr);
        assert!(pushed.status.success(), "{printed}");
        assert!(
            printed.contains("no credentials, so requests are anonymous"),
            "{printed}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_too_large_is_refused_before_it_is_fetched() {
    let registry = Registry::start();
    let at = reference(&registry.url("orders:1"));
    let client = Client::new(RegistryOptions::default());
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
    assert!(!refused.is_unreachable());
    let after = registry
        .log()
        .matches("GET /v2/policies/orders/blobs")
        .count();
    assert_eq!(before, after);
}

#[tokio::test]
async fn artifacts_that_are_not_policies_are_refused_with_an_explanation() {
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
        let refused = Client::new(RegistryOptions::default())
            .fetch(&at(tag), true, LARGEST)
            .await;
        let refused = refused.unwrap_err();
        assert!(matches!(refused, RegistryError::Unfit { .. }), "{refused}");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn a_registry_without_tls_is_distinguished_from_an_unreachable_one() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    // Only for localhost and 127.0.0.1, TLS is not used by default.
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
            "does not use TLS: give `--plain-http 127.0.0.2:",
        )
        .await;
    bench
        .json(&["push", "orders.wasm", &url, "--plain-http", "127.0.0.2"])
        .await;
}

/// A registry that issues tokens, as most public ones do, and responds with `answer` to requests with a token.
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
async fn a_token_is_requested_if_the_registry_requires_one() {
    // Opaque, and a JSON Web Token with an expiry time.
    let of_json = "eyJhbGciOiJSUzI1NiJ9.eyJleHAiOjQwMDAwMDAwMDB9.c2lnbmF0dXJl";
    for token in ["opaque", of_json] {
        let address = token_registry(token, StatusCode::OK).await;
        let at = reference(&format!("oci://{address}/policies/orders:1"));
        let digest = Client::new(RegistryOptions::default())
            .digest(&at)
            .await
            .unwrap();
        assert_eq!(digest, format!("sha256:{}", "a".repeat(64)));
    }
    for (status, is_unreachable) in [
        (StatusCode::SERVICE_UNAVAILABLE, true),
        (StatusCode::TOO_MANY_REQUESTS, true),
        (StatusCode::FORBIDDEN, false),
    ] {
        let address = token_registry("opaque", status).await;
        let at = reference(&format!("oci://{address}/policies/orders:1"));
        let refused = Client::new(RegistryOptions::default())
            .digest(&at)
            .await
            .unwrap_err();
        assert_eq!(refused.is_unreachable(), is_unreachable, "{refused}");
    }
}

#[tokio::test]
async fn a_registry_that_stops_in_the_middle_of_a_policy_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let digest = format!("sha256:{}", "a".repeat(64));
    let blob = json!({"mediaType": "application/wasm", "digest": digest, "size": 1_000});
    let manifest = json!({"schemaVersion": 2, "config": blob, "layers": [blob]}).to_string();
    let half = || {
        let sent = [Ok(vec![0_u8; 500]), Err(std::io::Error::other("cut"))];
        Body::from_stream(futures_util::stream::iter(sent))
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
    let client = Client::new(RegistryOptions::default());
    let cut = client.fetch(&at, false, LARGEST).await.unwrap_err();
    assert!(cut.is_unreachable(), "{cut}");
}

/// A body that does not end.
fn endless() -> Body {
    let chunk = bytes::Bytes::from(vec![b' '; 64 << 10]);
    let chunks = futures_util::stream::repeat_with(move || Ok::<_, std::io::Error>(chunk.clone()));
    Body::from_stream(chunks)
}

/// Each is refused at the limit of its kind, long before memory runs out.
#[tokio::test]
async fn nothing_that_a_registry_sends_is_read_without_a_limit() {
    let digest = format!("sha256:{}", "a".repeat(64));
    let blob = json!({"mediaType": "application/wasm", "digest": digest, "size": 1_000});
    let manifest = json!({"schemaVersion": 2, "config": blob, "layers": [blob]}).to_string();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let realm = format!("Bearer realm=\"http://{address}/token\"");
    let router = axum::Router::new()
        .route("/v2/", get(async || ""))
        .route("/v2/endless/manifest/manifests/1", get(async || endless()))
        .route("/v2/endless/blob/manifests/1", get(async move || manifest))
        .route("/v2/endless/blob/blobs/{digest}", get(async || endless()))
        .route(
            "/v2/endless/error/manifests/1",
            get(async || (StatusCode::SERVICE_UNAVAILABLE, endless())),
        );
    tokio::spawn(async move { axum::serve(listener, router).await });
    let wants_tokens = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let with_token = wants_tokens.local_addr().unwrap();
    let realm = realm.replace(&address.to_string(), &with_token.to_string());
    let router = axum::Router::new()
        .route("/token", get(async || endless()))
        .fallback(async move || (StatusCode::UNAUTHORIZED, [("www-authenticate", realm)]));
    tokio::spawn(async move { axum::serve(wants_tokens, router).await });

    let client = Client::new(RegistryOptions::default());
    for (at, expected) in [
        (
            format!("{address}/endless/manifest:1"),
            "the limit is 4194304",
        ),
        (format!("{address}/endless/blob:1"), "the limit is 1048576"),
        (format!("{address}/endless/error:1"), "HTTP 503"),
        (
            format!("{with_token}/endless/token:1"),
            "the limit is 262144",
        ),
    ] {
        let at = reference(&format!("oci://{at}"));
        let refused = client.fetch(&at, true, LARGEST).await.unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
    }
}

/// In a push too: the registry's error, a token, and the content after a success.
#[tokio::test]
async fn nothing_that_a_registry_sends_to_a_push_is_read_without_a_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers = async |method: Method, uri: Uri| {
        let path = uri.path();
        let status = match method {
            Method::POST if path.contains("/begin/") => StatusCode::SERVICE_UNAVAILABLE,
            Method::POST => StatusCode::ACCEPTED,
            Method::PUT if path.contains("/blob/blobs") => StatusCode::BAD_REQUEST,
            Method::PUT if path.contains("/manifest/manifests") => StatusCode::FORBIDDEN,
            Method::PUT if path.contains("/page/manifests") => StatusCode::OK,
            Method::PUT => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        (status, [("location", format!("{path}1"))], endless())
    };
    let router = axum::Router::new().fallback(answers);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let wants_tokens = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let with_token = wants_tokens.local_addr().unwrap();
    let realm = format!("Bearer realm=\"http://{with_token}/token\"");
    let router = axum::Router::new()
        .route("/token", get(async || endless()))
        .fallback(async move || (StatusCode::UNAUTHORIZED, [("www-authenticate", realm)]));
    tokio::spawn(async move { axum::serve(wants_tokens, router).await });

    let client = Client::new(RegistryOptions::default());
    for (at, expected) in [
        (format!("{address}/endless/begin:1"), "HTTP 503"),
        (format!("{address}/endless/blob:1"), "HTTP 400"),
        (format!("{address}/endless/manifest:1"), "HTTP 403"),
        (
            format!("{address}/endless/page:1"),
            "HTTP 200 instead of 201",
        ),
        (
            format!("{with_token}/endless/token:1"),
            "the limit is 262144",
        ),
    ] {
        let at = reference(&format!("oci://{at}"));
        let pushed = client.push(&at, &package(module(1)), None).await;
        let refused = pushed.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let fine = reference(&format!("oci://{address}/endless/fine:1"));
    let package = package(module(1));
    client.push(&fine, &package, Some("signed")).await.unwrap();
}

/// The token is for the registry only: a server to which it redirects uploads does not get it.
#[tokio::test]
async fn a_push_requests_a_token_to_push_and_sends_it_only_to_the_registry() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uploads = format!("http://{}/upload?state=1", elsewhere.local_addr().unwrap());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_uploads = Arc::clone(&seen);
    let router = axum::Router::new().fallback(async move |headers: HeaderMap, uri: Uri| {
        let shown = headers.contains_key("authorization");
        of_uploads.lock().unwrap().push((uri.to_string(), shown));
        StatusCode::CREATED
    });
    tokio::spawn(async move { axum::serve(elsewhere, router).await });

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let realm = format!("Bearer realm=\"http://{address}/token\"");
    let answers = async move |method: Method, uri: Uri, headers: HeaderMap| {
        let is_asked_to_push =
            uri.query() == Some("scope=repository%3Apolicies%2Forders%3Apull%2Cpush");
        let is_known = headers
            .get("authorization")
            .is_some_and(|it| it == "Bearer good");
        let (status, body) = match uri.path() {
            "/token" if is_asked_to_push => (StatusCode::OK, r#"{"token": "good"}"#),
            "/token" => (StatusCode::OK, r#"{"token": "of another scope"}"#),
            _ if !is_known => (StatusCode::UNAUTHORIZED, ""),
            _ if method == Method::POST => (StatusCode::ACCEPTED, ""),
            _ => (StatusCode::CREATED, ""),
        };
        (
            status,
            [("www-authenticate", realm), ("location", uploads)],
            body,
        )
    };
    let router = axum::Router::new().fallback(answers);
    tokio::spawn(async move { axum::serve(listener, router).await });

    let at = reference(&format!("oci://{address}/policies/orders:1"));
    let client = Client::new(RegistryOptions::default());
    client.push(&at, &package(module(1)), None).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    for (uri, shown) in seen.iter() {
        assert!(uri.starts_with("/upload?state=1&digest=sha256%3A"), "{uri}");
        assert!(!shown);
    }
}

#[tokio::test]
async fn a_credential_helper_with_too_much_output_or_no_end_is_killed_and_reported() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    let path = format!(
        "{}:{}",
        bench.path("").display(),
        std::env::var("PATH").unwrap()
    );
    let pushes = [
        (
            "endless",
            "exec yes",
            "`docker-credential-endless get`: it wrote more than 65536 bytes",
        ),
        (
            "asleep",
            "sleep 1000",
            "`docker-credential-asleep get` took more than 10s",
        ),
    ]
    .map(|(name, script, expected)| {
        let helper = bench.path(&format!("docker-credential-{name}"));
        std::fs::write(&helper, format!("#!/bin/sh\n{script}\n")).unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&helper, executable).unwrap();
        std::fs::create_dir_all(bench.path(name)).unwrap();
        let config = json!({"credsStore": name});
        bench.write(
            &format!("{name}/config.json"),
            config.to_string().as_bytes(),
        );
        let mut push = bench.command(&["push", "orders.wasm", &url]);
        push.env("PATH", &path)
            .env("DOCKER_CONFIG", bench.path(name));
        async move {
            let started = clock::instant();
            let output = push.output().await.unwrap();
            let printed = text(&output.stderr);
            assert!(
                printed.contains("no credentials, so requests are anonymous"),
                "{printed}"
            );
            assert!(printed.contains(expected), "{printed}");
            assert!(output.status.success(), "{printed}");
            assert!(started.elapsed() < Duration::from_secs(30));
        }
    });
    futures_util::future::join_all(pushes).await;
}
