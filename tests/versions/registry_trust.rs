//! Registries that lead elsewhere: to servers without TLS, to those of others, to addresses inside, and to other paths. None of them gets credentials, or anything at all.

use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Method, StatusCode, Uri};
use backstop_tests::backstop::text;
use backstop_tests::bench::Bench;
use backstop_tests::registry::{PASSWORD, Registry, USER};
use backstop_tests::tls::TlsProxy;
use serde_json::json;
use tokio::net::TcpListener;

/// A request, and its authorization.
type Seen = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// `USER:PASSWORD` in base64.
const BASIC: &str = "Basic dGVzdGVyOm9wZW4gc2VzYW1l";

type Answer = (StatusCode, [(&'static str, String); 1], String);

/// A server at this address that answers as `answer` says.
async fn server(
    address: &str,
    answer: impl Fn(&Method, &Uri, Option<&str>) -> Answer + Clone + Send + Sync + 'static,
) -> (String, Seen) {
    let seen = Seen::default();
    let of_server = Arc::clone(&seen);
    let respond = async move |method: Method, uri: Uri, headers: HeaderMap| {
        let shown = headers.get("authorization");
        let shown = shown.map(|it| it.to_str().unwrap().to_owned());
        let answer = answer(&method, &uri, shown.as_deref());
        of_server.lock().unwrap().push((uri.to_string(), shown));
        answer
    };
    let listener = TcpListener::bind((address, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let router = axum::Router::new().fallback(respond);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, seen)
}

fn answer(status: StatusCode, header: (&'static str, &str), body: &str) -> Answer {
    (status, [(header.0, header.1.to_owned())], body.to_owned())
}

/// Gives a token to everybody.
async fn token_server(address: &str) -> (String, Seen) {
    let token = r#"{"token": "good"}"#;
    server(address, move |_, _, _| {
        answer(StatusCode::OK, ("x-token", ""), token)
    })
    .await
}

#[tokio::test]
async fn a_registry_with_tls_does_not_lead_to_a_server_without_it() {
    let bench = Bench::new().await;
    let (elsewhere, seen) = token_server("127.0.0.1").await;
    let realm = format!("Bearer realm=\"http://{elsewhere}/token\"");
    let location = format!("http://{elsewhere}/there");
    let (closed, _) = server("127.0.0.1", move |_, _, _| {
        answer(StatusCode::UNAUTHORIZED, ("www-authenticate", &realm), "")
    })
    .await;
    let (open, _) = server("127.0.0.1", move |method, uri, _| match uri.path() {
        "/v2/" => answer(StatusCode::OK, ("x-open", ""), ""),
        _ if *method == Method::POST => answer(StatusCode::ACCEPTED, ("location", &location), ""),
        _ => answer(StatusCode::TEMPORARY_REDIRECT, ("location", &location), ""),
    })
    .await;
    for (behind, is_open) in [(closed, false), (open, true)] {
        let folder = tempfile::tempdir().unwrap();
        let (host, port) = behind.split_once(':').unwrap();
        // TLS is the default there, unlike at 127.0.0.1.
        let proxy = TlsProxy::start(folder.path(), (host, port), "127.0.0.2").await;
        let address = format!("127.0.0.2:{}", proxy.port);
        bench.log_in(&json!({"auths": {&address: {"username": USER, "password": PASSWORD}}}));
        let url = format!("oci://{address}/policies/orders:1");
        for command in [
            &["pull", &url][..],
            &["push", "orders.wasm", &url],
            &["pull", &url, "--token-server", &elsewhere],
        ] {
            let mut command = bench.command(command);
            command.env("SSL_CERT_FILE", folder.path().join("ca.pem"));
            let output = command.output().await.unwrap();
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(5), "{is_open} {said}");
            let expected = format!(
                "leads to http://{elsewhere}, which is refused: the registry uses TLS, and this server would be contacted without it"
            );
            assert!(said.contains(&expected), "{is_open} {said}");
        }
    }
    assert_eq!(*seen.lock().unwrap(), []);
}

#[tokio::test]
async fn credentials_go_to_a_token_server_elsewhere_only_if_the_operator_names_it() {
    let (bench, content) = (Bench::new().await, Registry::start());
    bench
        .json(&["push", "orders.wasm", &content.url("orders:1")])
        .await;
    let (elsewhere, seen) = token_server("127.0.0.2").await;
    let realm = format!("Bearer realm=\"http://{elsewhere}/token\"");
    let content = format!("http://{}", content.address());
    let (registry, of_registry) = server("127.0.0.1", move |_, uri, shown| match shown {
        Some("Bearer good") => {
            let location = format!("{content}{uri}");
            answer(StatusCode::TEMPORARY_REDIRECT, ("location", &location), "")
        }
        _ => answer(StatusCode::UNAUTHORIZED, ("www-authenticate", &realm), ""),
    })
    .await;
    let url = format!("oci://{registry}/policies/orders:1");
    // Nobody's credentials are at risk.
    bench.json(&["pull", &url]).await;
    assert!(
        seen.lock()
            .unwrap()
            .iter()
            .all(|(_, shown)| shown.is_none())
    );
    seen.lock().unwrap().clear();

    bench.log_in(&json!({"auths": {&registry: {"username": USER, "password": PASSWORD}}}));
    for command in [&["pull", &url][..], &["push", "orders.wasm", &url]] {
        let words = format!(
            "leads to http://{elsewhere}, which is refused: it is not part of the registry, so it gets no credentials; if that is intended, name it with `--token-server 127.0.0.2`"
        );
        bench.fails(command, 5, &words).await;
    }
    assert_eq!(*seen.lock().unwrap(), []);
    bench
        .json(&["pull", &url, "--token-server", "127.0.0.2"])
        .await;
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(
        seen.iter()
            .all(|(_, shown)| shown.as_deref() == Some(BASIC)),
        "{seen:?}"
    );
    let of_registry = of_registry.lock().unwrap();
    assert!(
        of_registry
            .iter()
            .all(|(_, shown)| shown.as_deref() != Some(BASIC))
    );
}

#[tokio::test]
async fn a_registry_leads_neither_to_addresses_inside_nor_to_other_paths() {
    let bench = Bench::new().await;
    let manifest = |digest: &str| {
        let blob = json!({"mediaType": "application/wasm", "digest": digest, "size": 10});
        json!({"schemaVersion": 2, "config": blob, "layers": [blob]}).to_string()
    };
    let escaping = "sha256:../../../../admin?delete=everything#";
    let manifests = [
        manifest(&format!("sha256:{}", "a".repeat(64))),
        manifest(escaping),
    ];
    let (registry, seen) = server("127.0.0.1", move |_, uri, _| {
        let metadata = "http://169.254.169.254/latest/meta-data/";
        match uri.path() {
            "/v2/" => answer(StatusCode::OK, ("x-open", ""), ""),
            "/v2/link/local/manifests/1" => answer(StatusCode::OK, ("x-open", ""), &manifests[0]),
            "/v2/other/path/manifests/1" => answer(StatusCode::OK, ("x-open", ""), &manifests[1]),
            _ => answer(StatusCode::FOUND, ("location", metadata), ""),
        }
    })
    .await;
    let url = format!("oci://{registry}/link/local:1");
    let words = "leads to http://169.254.169.254, which is refused: 169.254.169.254 is a link-local address, and the registry has none of these";
    bench.fails(&["pull", &url], 5, words).await;
    let url = format!("oci://{registry}/other/path:1");
    let words = "its layer has the digest `sha256:../../../../admin?delete=everything#`; expected `sha256:` and 64 hexadecimal digits";
    bench.fails(&["pull", &url], 4, words).await;
    let seen = seen.lock().unwrap().clone();
    assert!(
        !seen.iter().any(|(uri, _)| uri.contains("admin")),
        "{seen:?}"
    );

    let (registry, _) = server("127.0.0.1", |_, _, _| {
        let realm = "Bearer realm=\"http://10.1.2.3/token\"";
        answer(StatusCode::UNAUTHORIZED, ("www-authenticate", realm), "")
    })
    .await;
    let url = format!("oci://{registry}/policies/orders:1");
    let words = "leads to http://10.1.2.3, which is refused: 10.1.2.3 is a private address";
    bench.fails(&["pull", &url], 5, words).await;
}
