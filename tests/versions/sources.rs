//! Policies from S3 and from registries, reachable and unreachable.

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use backstop_core::clock;
use backstop_engine::{Limits, PolicyDigest, Sandbox};
use backstop_tests::aws::{Queues, config};
use backstop_tests::backstop::{program, read_records};
use backstop_tests::bench::{Bench, module};
use backstop_tests::emulator::ministack;
use backstop_tests::policies::{Rule, waits};
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::registry::Registry;
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests_host::mapping::{Mapping, as_lambda_does};
use backstop_tests_host::retries::record;
use backstop_versions::{
    Catalog, Keys, LivePolicy, NewKeys, PolicySpec, Reload, Remotes, SecretKey, Source, Store,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

/// A bucket for one test, behind a proxy that can be closed and that logs the requests.
struct Bucket {
    client: Client,
    name: String,
    proxy: Proxy,
    shut: Arc<AtomicBool>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Bucket {
    async fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let sdk = config(&ministack().endpoint).await;
        let path_style = aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true);
        let client = Client::from_conf(path_style.build());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("policies-{}-{number}", std::process::id());
        client.create_bucket().bucket(&name).send().await.unwrap();
        let (shut, asked) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (is_shut, write_down) = (Arc::clone(&shut), Arc::clone(&asked));
        let proxy = Proxy::start(&ministack().endpoint, move |operation, _| {
            write_down.lock().unwrap().push(operation.to_owned());
            if is_shut.load(Ordering::Relaxed) {
                Fault::ServerError
            } else {
                Fault::None
            }
        })
        .await;
        Self {
            client,
            name,
            proxy,
            shut,
            asked,
        }
    }

    async fn put(&self, key: &str, text: &str) {
        let body = ByteStream::from(text.as_bytes().to_vec());
        let request = self.client.put_object().bucket(&self.name).key(key);
        request.body(body).send().await.unwrap();
    }

    fn url(&self, key: &str) -> String {
        format!("s3://{}/{key}", self.name)
    }

    fn shut(&self, shut: bool) {
        self.shut.store(shut, Ordering::Relaxed);
    }
}

/// The catalog of a host: a store, and S3 through the bucket's proxy.
async fn catalog(bucket: &Bucket) -> (TempDir, Catalog) {
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let catalog = Catalog {
        remotes: Remotes::with_sdk(config(&bucket.proxy.endpoint).await),
        store: Some(Store::open(&folder.path().join("kept")).unwrap()),
        ..Catalog::from(&sandbox)
    };
    (folder, catalog)
}

fn spec(name: &str) -> PolicySpec {
    Source::parse(name, Path::new("")).unwrap().into()
}

/// Checks for updates on a thread that may block, as a host does.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

async fn start(catalog: &Catalog, name: &str) -> Arc<LivePolicy> {
    let (catalog, spec) = (catalog.clone(), spec(name));
    blocking(move || LivePolicy::load(catalog, spec))
        .await
        .unwrap()
}

async fn check_for_updates(policy: &Arc<LivePolicy>) -> Reload {
    let policy = Arc::clone(policy);
    blocking(move || policy.reload()).await
}

fn decides(policy: &LivePolicy, text: &str) -> bool {
    policy.current().digests() == [PolicyDigest::of(text.as_bytes())]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_fetched_only_when_it_has_changed() {
    let bucket = Bucket::new().await;
    let (_folder, catalog) = catalog(&bucket).await;
    bucket.put("orders.wat", &waits(1)).await;
    let policy = start(&catalog, &bucket.url("orders.wat")).await;
    assert!(decides(&policy, &waits(1)));
    for _ in 0..3 {
        assert!(matches!(
            check_for_updates(&policy).await,
            Reload::Unchanged
        ));
    }
    bucket.put("orders.wat", &waits(2)).await;
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Swapped { .. }
    ));
    assert!(decides(&policy, &waits(2)));
    bucket.put("orders.wat", "(module").await;
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Refused { .. }
    ));
    // It is reported and tried once, and not fetched again.
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Unchanged
    ));
    assert!(decides(&policy, &waits(2)));
    let asked = bucket.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|it| it.starts_with("GET ")), "{asked:?}");
    assert_eq!(asked.len(), 7);
    // A start checks the stored version and fetches nothing.
    bucket.put("orders.wat", &waits(2)).await;
    let again = start(&catalog, &bucket.url("orders.wat")).await;
    assert!(decides(&again, &waits(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_s3_away_the_last_good_version_decides_and_a_start_has_it_too() {
    let bucket = Bucket::new().await;
    let (_folder, catalog) = catalog(&bucket).await;
    let name = bucket.url("orders.wat");
    bucket.put("orders.wat", &waits(1)).await;
    let policy = start(&catalog, &name).await;
    bucket.shut(true);
    let Reload::SourceUnreachable { cause, .. } = check_for_updates(&policy).await else {
        panic!("not reported");
    };
    assert!(cause.to_string().contains(&name), "{cause}");
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Unchanged
    ));
    assert!(decides(&policy, &waits(1)));
    drop(policy);

    let policy = start(&catalog, &name).await;
    assert!(decides(&policy, &waits(1)));
    assert!(policy.status().unreachable.is_some());
    bucket.put("orders.wat", &waits(2)).await;
    bucket.shut(false);
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Swapped { .. }
    ));
    assert!(decides(&policy, &waits(2)));

    // Without a stored version, there is none to use.
    bucket.shut(true);
    let bare = Catalog {
        store: None,
        ..catalog.clone()
    };
    let absent = spec(&name);
    let refused = blocking(move || LivePolicy::load(bare, absent)).await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("can't get the policy")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_unsigned_and_wrongly_pinned_objects_are_refused() {
    let bucket = Bucket::new().await;
    let (_folder, mut catalog) = catalog(&bucket).await;
    let refused = async |catalog: &Catalog, name: &str| {
        let (catalog, spec) = (catalog.clone(), spec(name));
        let error = blocking(move || LivePolicy::load(catalog, spec))
            .await
            .unwrap_err();
        format!("{:#}", anyhow::Error::new(error))
    };
    let name = bucket.url("orders.wat");
    let missing = refused(&catalog, &name).await;
    assert!(
        missing.contains("NoSuchKey") || missing.contains("there is no"),
        "{missing}"
    );
    bucket.put("orders.wat", &waits(1)).await;
    let digest = PolicyDigest::of(waits(2).as_bytes());
    let pinned = refused(&catalog, &format!("{name}@{digest}")).await;
    assert!(
        pinned.contains("does not have the digest that it is pinned to"),
        "{pinned}"
    );

    let keys = NewKeys::generate(None).unwrap();
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), &keys.secret).unwrap();
    let key = SecretKey::read(path.path(), || unreachable!()).unwrap();
    catalog.keys = Some(Keys::read(&[keys.line], Path::new("")).unwrap());
    let unsigned = refused(&catalog, &name).await;
    assert!(unsigned.contains("sign"), "{unsigned}");
    let sign = |text: &str| {
        key.sign(text.as_bytes(), "orders.wat", "orders", clock::now())
            .unwrap()
    };
    bucket.put("orders.wat.minisig", &sign(&waits(1))).await;
    let policy = start(&catalog, &name).await;
    // The object first and its signature later, in the wrong order.
    bucket.put("orders.wat", &waits(2)).await;
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Refused { .. }
    ));
    bucket.put("orders.wat.minisig", &sign(&waits(2))).await;
    assert!(matches!(
        check_for_updates(&policy).await,
        Reload::Swapped { .. }
    ));
    assert!(decides(&policy, &waits(2)));
}

/// A server that accepts connections and never answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_does_not_delay_a_start_with_a_stored_version() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let bucket = Bucket::new().await;
    let (_folder, catalog) = catalog(&bucket).await;
    let name = bucket.url("orders.wat");
    bucket.put("orders.wat", &waits(1)).await;
    drop(start(&catalog, &name).await);
    let away = Catalog {
        remotes: Remotes::with_sdk(config(&endpoint).await),
        ..catalog.clone()
    };
    let started = clock::instant();
    let policy = start(&away, &name).await;
    assert!(decides(&policy, &waits(1)));
    assert!(
        policy
            .status()
            .unreachable
            .unwrap()
            .contains("no answer within")
    );
    let bare = Catalog {
        store: None,
        ..away
    };
    let spec = spec(&name);
    let (policy, refused) = blocking(move || LivePolicy::load_or_fall_back(bare, spec, None)).await;
    assert!(refused.is_some() && policy.current().digests().is_empty());
    let took = started.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// A Lambda retry handler as a process, fed with failed events one by one.
struct Function {
    queues: Queues,
    mapping: Mapping,
    api: RuntimeApi,
    folder: TempDir,
    number: u32,
    _process: Child,
}

impl Function {
    /// A function with a policy from there, with an update check every second.
    async fn start(policy: &str, more: &[(&str, &str)]) -> Self {
        let endpoint = &ministack().endpoint;
        let queues = Queues::standard(endpoint, &[]).await;
        queues.redrive_after(1_000).await;
        let (folder, api) = (tempfile::tempdir().unwrap(), RuntimeApi::start().await);
        let mut command = Command::new(program("backstop-lambda"));
        as_lambda_does(&mut command, folder.path(), &api)
            .env("AWS_ENDPOINT_URL", endpoint)
            .env("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
            .env("BACKSTOP_POLICY", policy)
            .env("BACKSTOP_REFRESH", "1s")
            .env("BACKSTOP_CACHE", folder.path().join("cache"))
            .env("BACKSTOP_DECISIONS", folder.path().join("decisions.jsonl"))
            .envs(more.iter().copied());
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // It complains when the Runtime API ends before it does.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        api.first_asked().await;
        Self {
            mapping: Mapping::of(&queues).await,
            queues,
            api,
            folder,
            number: 0,
            _process: process,
        }
    }

    /// Handles one more event, which does not fail the invocation. Returns the policy's delay.
    async fn handle(&mut self) -> u64 {
        self.number += 1;
        let function = "arn:aws:lambda:us-east-1:000000000000:function:orders:$LATEST";
        let id = format!("10000000-0000-4000-8000-{:012}", self.number);
        let event = record(function, &id, clock::now(), &json!({}), "Upstream");
        self.queues.send([event]).await;
        // Delayed, so the response names it.
        let held = self.mapping.hand_over(&self.api).await;
        assert_eq!(held, Some(1), "event {}", self.number);
        let records = read_records(&self.folder.path().join("decisions.jsonl"));
        let last = records.last().unwrap();
        assert_eq!(last["by"], "policy", "{last}");
        last["delay"].as_u64().unwrap()
    }

    /// Handles events until their delay is this long.
    async fn until(&mut self, expected: u64) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let delay = self.handle().await;
            if delay == expected {
                return;
            }
            assert!(Instant::now() < end, "{delay}, not {expected}");
            sleep(Duration::from_millis(200)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_checks_at_most_once_each_refresh_time_and_a_bad_version_fails_no_event() {
    let bucket = Bucket::new().await;
    // Long delays, so that every message is delayed.
    let (one, two, three) = (waits(3_600_001), waits(3_600_002), waits(3_600_003));
    bucket.put("orders.wat", &one).await;
    let endpoint = ("AWS_ENDPOINT_URL_S3", bucket.proxy.endpoint.as_str());
    let mut function = Function::start(&bucket.url("orders.wat"), &[endpoint]).await;
    assert_eq!(function.handle().await, 3_600_001);
    let checks = || bucket.asked.lock().unwrap().len();
    let (at_once, started) = (checks(), Instant::now());
    for _ in 0..5 {
        function.handle().await;
    }
    // One for each refresh time, which jitter reduces to nine tenths.
    let due = started.elapsed().as_millis() / 900 + 1;
    let made = u128::try_from(checks() - at_once).unwrap();
    assert!(made <= due, "{made} checks where {due} were due");

    // The check runs during one event; the new version is active from the next.
    bucket.put("orders.wat", &two).await;
    function.until(3_600_002).await;
    let hostile = Rule {
        delay: Some(Rule::LOOP),
        ..Rule::default()
    };
    let half = &three[..three.len() / 2];
    for bad in [hostile.text().as_str(), half, ""] {
        bucket.put("orders.wat", bad).await;
        sleep(Duration::from_millis(1_200)).await;
        for _ in 0..2 {
            assert_eq!(function.handle().await, 3_600_002);
        }
    }
    bucket.shut(true);
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(function.handle().await, 3_600_002);
    bucket.shut(false);
    bucket.put("orders.wat", &three).await;
    function.until(3_600_003).await;
}

/// Pushes a policy that waits this long.
async fn push(bench: &Bench, url: &str, wait: u32) {
    bench.write("orders.wasm", &module(wait));
    bench.json(&["push", "orders.wasm", url]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_follows_the_tag_of_a_registry_and_survives_its_outage() {
    let (mut registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:live");
    push(&bench, &url, 3_600_001).await;
    let mut function = Function::start(&url, &[]).await;
    assert_eq!(function.handle().await, 3_600_001);
    push(&bench, &url, 3_600_002).await;
    function.until(3_600_002).await;
    registry.stop();
    sleep(Duration::from_millis(1_200)).await;
    for _ in 0..2 {
        assert_eq!(function.handle().await, 3_600_002);
    }
    registry.restart();
    push(&bench, &url, 3_600_003).await;
    function.until(3_600_003).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tag_is_followed_and_a_pinned_manifest_is_not() {
    let (mut registry, bench) = (Registry::start(), Bench::new().await);
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let catalog = Catalog {
        store: Some(Store::open(&folder.path().join("kept")).unwrap()),
        ..Catalog::from(&sandbox)
    };
    let url = registry.url("orders:live");
    let is_of =
        |policy: &LivePolicy, wait| policy.current().digests() == [PolicyDigest::of(&module(wait))];
    bench.write("orders.wasm", &module(1));
    let pushed = bench.json(&["push", "orders.wasm", &url]).await;
    let pinned = pushed["pinned"].as_str().unwrap();
    let (live, settled) = (start(&catalog, &url).await, start(&catalog, pinned).await);
    assert!(matches!(check_for_updates(&live).await, Reload::Unchanged));
    push(&bench, &url, 2).await;
    assert!(matches!(
        check_for_updates(&live).await,
        Reload::Swapped { .. }
    ));
    assert!(matches!(
        check_for_updates(&settled).await,
        Reload::Unchanged
    ));
    assert!(is_of(&live, 2) && is_of(&settled, 1) && settled.is_settled());
    registry.stop();
    assert!(matches!(
        check_for_updates(&live).await,
        Reload::SourceUnreachable { .. }
    ));
    // A start has both, the pinned one without a request.
    let again = start(&catalog, &url).await;
    assert!(is_of(&again, 2) && again.status().unreachable.is_some());
    let again = start(&catalog, pinned).await;
    assert!(is_of(&again, 1) && again.status().unreachable.is_none());
    registry.restart();
    assert!(matches!(
        check_for_updates(&live).await,
        Reload::SourceRecovered { .. }
    ));
}
