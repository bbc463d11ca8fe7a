//! Outages of workers under load: no message dies of one, and no attempt is counted that no worker saw. The figures that these print are in `host/docs/contributing/measurements.md`. That a breaker does not make partial trouble longer is tested with a clock that jumps, in the crate `backstop-core`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use backstop_tests::aws::{Queues, config};
use backstop_tests::backstop::{Running, command, read_records};
use backstop_tests::emulator::{fauxqs, ministack};
use backstop_tests::eventually;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function};
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::status;
use tempfile::TempDir;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

type Answer = dyn Fn(&str) -> u16 + Send + Sync;

/// An HTTP worker that can be taken down, its connections with it, and started again at the same address.
struct Shop {
    port: u16,
    /// How often it has seen each body.
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
    answer: Arc<Answer>,
    runtime: Option<Runtime>,
}

impl Shop {
    /// One that is down. Its answer is the status for a body.
    async fn new(answer: impl Fn(&str) -> u16 + Send + Sync + 'static) -> Self {
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            port: free.local_addr().unwrap().port(),
            seen: Arc::default(),
            answer: Arc::new(answer),
            runtime: None,
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    fn up(&mut self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], self.port).into()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (seen, answer) = (Arc::clone(&self.seen), Arc::clone(&self.answer));
        let handle = move |body: String| {
            let code = answer(&body);
            *seen.lock().unwrap().entry(body).or_default() += 1;
            async move { status(code) }
        };
        runtime.spawn(async move {
            let listener = socket.listen(1_024).unwrap();
            let router = Router::new().route("/", post(handle));
            axum::serve(listener, router).await
        });
        self.runtime = Some(runtime);
    }

    fn down(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    fn seen(&self) -> BTreeMap<String, u64> {
        self.seen.lock().unwrap().clone()
    }

    fn attempts(&self) -> u64 {
        self.seen.lock().unwrap().values().sum()
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        self.down();
    }
}

/// A host of one queue, with decision records.
struct World {
    running: Running,
    queues: Queues,
    folder: TempDir,
    /// Counts the requests of the host.
    proxy: Proxy,
}

impl World {
    /// A message may fail five times: without a gate or a breaker, an outage of seconds would be the end of all.
    async fn start(queues: Queues, handler: &str, breaker: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let proxy = Proxy::start(&queues.endpoint, |_, _| Fault::None).await;
        let config = format!(
            "endpoint-url = {:?}\n[decisions]\nrecord = \"decisions.jsonl\"\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {handler}\npolicy = \"equal-jitter\"\nsettings = {{ base = \"1s\", cap = \"2s\" }}\nmax-attempts = 6\ngrace = \"2s\"\n{breaker}\n",
            proxy.endpoint, queues.url, queues.dead_letters
        );
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, config).unwrap();
        let run = ["run", "--json", "--config", path.to_str().unwrap()];
        let running = Running::start_command(command(&run)).await;
        Self {
            running,
            queues,
            folder,
            proxy,
        }
    }

    fn records(&self) -> Vec<serde_json::Value> {
        read_records(&self.folder.path().join("decisions.jsonl"))
    }

    async fn emptied(&self) {
        self.emptied_while(|| ()).await;
    }

    /// Waits until the queue is empty, however long a busy machine needs for it; fails if nothing leaves the queue for three minutes: the pause before a probe may take one.
    async fn emptied_while(&self, mut goes_on: impl FnMut()) {
        let (mut least, mut since) = (usize::MAX, Instant::now());
        loop {
            let held = self.queues.held().await;
            if held < least {
                (least, since) = (held, Instant::now());
            }
            match held {
                0 => return,
                _ if since.elapsed() > Duration::from_secs(180) => {
                    panic!("{held} are left:\n{}", self.running.log())
                }
                _ => goes_on(),
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops the host. Nothing has died, every message has succeeded, and no attempt was counted that the worker has not seen.
    async fn ended_well(self, messages: u64, seen: &BTreeMap<String, u64>) {
        let (_, counts) = self.running.stop().await;
        assert_eq!(
            counts[0]["succeeded"].as_u64(),
            Some(messages),
            "{counts:?}"
        );
        assert_eq!(self.queues.dead().await, 0);
        assert_eq!(seen.len() as u64, messages);
        let records = read_records(&self.folder.path().join("decisions.jsonl"));
        // A request that was sent when the connection broke may have been seen or not: nobody knows, so it is an attempt. One that could not be sent is none.
        let codes = records
            .iter()
            .map(|it| it["failure"]["error"]["code"].as_str().unwrap());
        let (broken, answered): (Vec<_>, Vec<_>) = codes.partition(|it| !it.starts_with("HTTP "));
        assert!(
            broken
                .iter()
                .all(|code| ["ECONNRESET", "EPIPE"].contains(code)),
            "{broken:?}"
        );
        let failed: u64 = seen.values().map(|seen| seen - 1).sum();
        assert!(
            answered.len() as u64 <= failed,
            "{answered:?}, {failed} seen"
        );
    }
}

fn http(shop: &Shop) -> String {
    format!("{{ http = {:?} }}", shop.url())
}

async fn send(queues: &Queues, count: usize) {
    let part = |first: usize| {
        (first..count)
            .step_by(10)
            .map(|it| format!("{{\"tenant\":\"t{}\",\"n\":{it}}}", it % 50))
    };
    futures_util::future::join_all((0..10).map(|first| queues.send(part(first)))).await;
}

#[tokio::test]
async fn a_worker_that_is_down_from_the_start_and_dies_under_load_costs_20_000_messages_no_attempt()
{
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let mut shop = Shop::new(|_| 200).await;
    send(&queues, 20_000).await;
    let world = World::start(queues, &http(&shop), "").await;
    world.running.logged("does not answer").await;
    let before = world.proxy.requests();
    sleep(Duration::from_secs(10)).await;
    let down = world.proxy.requests() - before;
    assert!(down < 10, "{down} requests in 10 s");

    shop.up();
    eventually("a quarter is done", async || shop.attempts() >= 5_000).await;
    let (began, done) = (Instant::now(), shop.attempts());
    eventually("a half is done", async || shop.attempts() >= 10_000).await;
    let pace = (shop.attempts() - done) as f64 / began.elapsed().as_secs_f64();
    shop.down();
    world.running.logged("the worker is unavailable").await;
    // What was prefetched returns within two seconds. What the worker had in hand has failed, and waits.
    sleep(Duration::from_secs(2)).await;
    let held = world.queues.invisible().await;
    let failed = world.records().len();
    assert!(held <= failed, "{held} are invisible, {failed} have failed");
    let before = world.proxy.requests();
    sleep(Duration::from_secs(8)).await;
    let down = world.proxy.requests() - before;
    assert!(down < 8, "{down} requests in 8 s");

    let done = shop.attempts();
    let left = 20_000 - done;
    let began = Instant::now();
    shop.up();
    eventually("a probe succeeds", async || shop.attempts() > done).await;
    let pause = began.elapsed().as_secs_f64();
    world.emptied().await;
    let took = began.elapsed().as_secs_f64() - pause;
    println!(
        "after the outage: {left} messages in {took:.1} s, {:.2} of the time at {pace:.0}/s before it; the probe came after {pause:.1} s",
        took * pace / left as f64
    );
    let seen = shop.seen();
    world.ended_well(20_000, &seen).await;
}

/// The seconds for these messages with a worker that goes down and comes up every three seconds.
async fn with_flapping(breaker: &str) -> f64 {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let mut shop = Shop::new(|_| 200).await;
    shop.up();
    let paced = format!("rate = \"200/s\"\n{breaker}");
    let world = World::start(queues, &http(&shop), &paced).await;
    let began = Instant::now();
    send(&world.queues, 2_000).await;
    let mut is_up = true;
    let mut turned = Instant::now();
    let flap = || {
        if turned.elapsed() >= Duration::from_secs(3) {
            turned = Instant::now();
            if is_up {
                shop.down()
            } else {
                shop.up()
            }
            is_up = !is_up;
        }
    };
    world.emptied_while(flap).await;
    let took = began.elapsed().as_secs_f64();
    let seen = shop.seen();
    world.ended_well(2_000, &seen).await;
    took
}

const BREAKER: &str = "[queues.orders.breaker]\nby = \"queue\"";

#[tokio::test]
async fn a_worker_that_flaps_costs_no_message_with_a_breaker_and_without() {
    let (without, with) = tokio::join!(with_flapping(""), with_flapping(BREAKER));
    println!(
        "flapping: {with:.1} s with a breaker, {without:.1} s without: {:.2}",
        with / without
    );
}

/// The seconds for these messages with a worker that answers 503 to every second request.
async fn with_half_broken(breaker: &str) -> f64 {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let turns = AtomicUsize::new(0);
    let seen = Mutex::new(BTreeMap::<String, u32>::new());
    let mut shop = Shop::new(move |body| {
        // No message fails more than three times: it must not die by chance.
        let mut seen = seen.lock().unwrap();
        let times = seen.entry(body.to_owned()).or_default();
        *times += 1;
        match turns.fetch_add(1, Relaxed) % 2 {
            0 if *times <= 3 => 503,
            _ => 200,
        }
    })
    .await;
    shop.up();
    let world = World::start(queues, &http(&shop), breaker).await;
    let began = Instant::now();
    send(&world.queues, 4_000).await;
    world.emptied().await;
    let took = began.elapsed().as_secs_f64();
    assert!(
        !world
            .running
            .log()
            .contains("what is behind the worker is down")
    );
    let seen = shop.seen();
    world.ended_well(4_000, &seen).await;
    took
}

#[tokio::test]
async fn a_worker_that_answers_503_to_half_of_the_requests_opens_no_breaker() {
    let without = with_half_broken("").await;
    let with = with_half_broken(BREAKER).await;
    println!(
        "half broken: {with:.1} s with a breaker, {without:.1} s without: {:.2}",
        with / without
    );
}

#[tokio::test]
async fn one_tenant_of_fifty_that_is_down_keeps_no_other_from_its_work() {
    let queues = Queues::standard(&fauxqs().endpoint, &[]).await;
    let is_down = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let mut shop = Shop::new(move |body| {
        let is_of_tenant = body.contains("\"t7\"");
        if is_of_tenant && down.load(Relaxed) {
            503
        } else {
            200
        }
    })
    .await;
    shop.up();
    let breaker =
        "[queues.orders.breaker]\nby = \"/tenant\"\nafter = \"1s\"\nlongest-pause = \"4s\"";
    let world = World::start(queues, &http(&shop), breaker).await;
    send(&world.queues, 10_000).await;
    let of = |seen: &BTreeMap<String, u64>, is_it: bool| {
        let of = seen
            .iter()
            .filter(|(body, _)| body.contains("\"t7\"") == is_it);
        of.map(|(_, seen)| *seen).collect::<Vec<_>>()
    };
    eventually("the others are done", async || {
        of(&shop.seen(), false).len() == 9_800
    })
    .await;
    world
        .running
        .logged("what is behind the worker is down")
        .await;
    sleep(Duration::from_secs(10)).await;
    let seen = shop.seen();
    assert!(of(&seen, false).iter().all(|seen| *seen == 1));
    let tried: u64 = of(&seen, true).iter().sum();
    // Those that were in flight when it opened, and a probe every few seconds.
    assert!(tried < 320, "{tried} attempts for 200 messages");
    is_down.store(false, Relaxed);
    world.emptied().await;
    let seen = shop.seen();
    world.ended_well(10_000, &seen).await;
}

#[tokio::test]
async fn a_function_that_is_throttled_costs_no_message() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let name = "throttled-under-load";
    let function = Function::python(FAILS_WHEN_TOLD);
    function.make(&queues.endpoint, name).await;
    let client = aws_sdk_lambda::Client::new(&config(&queues.endpoint).await);
    let allow = async |most: i32| {
        let put = client.put_function_concurrency().function_name(name);
        let put = put.reserved_concurrent_executions(most).send().await;
        put.unwrap();
    };
    let world = World::start(queues, &format!("{{ lambda = {name:?} }}"), BREAKER).await;
    allow(0).await;
    world
        .queues
        .send((0..60).map(|n| format!("{{\"fail\": false, \"n\": {n}}}")))
        .await;
    // Nobody has seen the invocation, so it is no attempt.
    world.running.logged("TooManyRequestsException").await;
    // The first probes come after one, two and four seconds.
    sleep(Duration::from_secs(8)).await;
    let before = world.proxy.requests();
    sleep(Duration::from_secs(10)).await;
    let requests = world.proxy.requests() - before;
    assert!(requests < 10, "{requests} requests in 10 s");
    allow(5).await;
    world.emptied().await;
    let throttled = world.records().len();
    let (_, counts) = world.running.stop().await;
    assert_eq!(counts[0]["succeeded"].as_u64(), Some(60));
    assert_eq!((throttled, world.queues.dead().await), (0, 0));
}
