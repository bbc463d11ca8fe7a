//! What the page costs with much to show: 120,000 messages that wait, 10,000 dead letters, and a queue that goes on. How long each view takes, and whether memory stays flat, of the host and of a browser.
//!
//! `make bench` runs it for a minute; `PAGE_MINUTES=5` for five. The host is a process of its own, with a queue in memory.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

use std::process::{ExitCode, Stdio};
use std::time::Duration;

use backstop_core::clock;
use backstop_core::failure::Error;
use backstop_host::Backstop;
use backstop_host::service::Service;
use backstop_queue::{Attribute, BATCH_ENTRIES, Connections, Outgoing, Queue};
use backstop_tests::documents::top;
use backstop_tests::emulator::free_port;
use backstop_tests::process::resident_memory;
use reqwest::header::{COOKIE, SET_COOKIE};
use serde_json::{Value, json};
use tests_benches::{Better, Chapter, Figure, Table, Unit};
use tokio::process::Command;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

const WAITING: u32 = 120_000;
const LETTERS: u32 = 10_000;

const ABOUT: &str = "A host with many messages that wait and dead letters that were surveyed, both in memory; each view is fetched ten times, when no answer is kept any more.";

/// How often each view is fetched, and how long an answer of a host is kept.
const ROUNDS: usize = 10;
const KEPT: Duration = Duration::from_millis(2_100);

fn main() -> ExitCode {
    backstop_engine::compiler_process().unwrap_or_else(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        match std::env::args().nth(1).as_deref() {
            Some("host") => runtime.block_on(host(std::env::args().nth(2).unwrap())),
            _ => runtime.block_on(measure()),
        }
        ExitCode::SUCCESS
    })
}

/// The host: 120,000 orders fail and wait for a day, then more come for ever, which succeed.
async fn host(address: String) {
    let connections = Connections::default();
    let orders = connections.local.named("orders");
    let dead = connections.local.named("orders-dead");
    let letter = |number: u32| {
        let cause = number % 7;
        let text = |text: String| Attribute::string(text);
        let mut letter = Outgoing::new(json!({ "tenant": number % 50 }).to_string());
        letter.attributes.insert(
            "BackstopReason".to_owned(),
            text(format!("permanent: HTTP 40{cause}")),
        );
        letter.attributes.insert(
            "BackstopError".to_owned(),
            text(format!("HTTP 40{cause}: order {number} is wrong")),
        );
        letter
    };
    for start in (0..LETTERS).step_by(BATCH_ENTRIES) {
        let batch: Vec<_> = (start..start + 10).map(letter).collect();
        dead.send(&batch).await.unwrap();
    }
    let host = Backstop::queue("local:orders")
        .policy("linear")
        .set("base", "6h")
        .set("cap", "6h")
        .dead_letter_queue("local:orders-dead")
        .max_in_flight(100)
        .admin(address)
        .handler(|message| async move {
            let number: u32 = message.body.trim().parse().unwrap_or_default();
            if number >= WAITING {
                return Ok(());
            }
            Err(Error::new(
                format!("HTTP 50{}", number % 9),
                format!("order {number}: busy"),
            )
            .status(503))
        });
    let service = Service::prepare(host.into_config().unwrap(), &connections)
        .await
        .unwrap();
    tokio::spawn(async move {
        let batch = |start: u32| {
            (start..start + 10)
                .map(|it| Outgoing::new(it.to_string()))
                .collect::<Vec<_>>()
        };
        for start in (0..WAITING).step_by(BATCH_ENTRIES) {
            orders.send(&batch(start)).await.unwrap();
        }
        for start in (WAITING..).step_by(BATCH_ENTRIES) {
            orders.send(&batch(start)).await.unwrap();
            sleep(Duration::from_millis(50)).await;
        }
    });
    service.run(CancellationToken::new()).await;
}

async fn measure() {
    let address = format!("127.0.0.1:{}", free_port());
    let itself = std::env::current_exe().unwrap();
    let mut host = Command::new(itself);
    let host = host.args(["host", &address]).env("BACKSTOP_CACHE", "off");
    let host = host
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let url = format!("http://{address}");
    let client = reqwest::Client::new();
    let signed = loop {
        let sent = client
            .post(format!("{url}/page/sign-in"))
            .json(&json!({ "name": "Ana" }))
            .send()
            .await;
        match sent {
            Ok(response) if response.status().is_success() => break response,
            _ => sleep(Duration::from_millis(200)).await,
        }
    };
    let cookie = signed.headers()[SET_COOKIE].to_str().unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let get = async |path: &str| {
        let began = clock::instant();
        let response = client
            .get(format!("{url}{path}"))
            .header(COOKIE, &cookie)
            .send()
            .await
            .unwrap();
        let text = response.text().await.unwrap();
        (began.elapsed(), text)
    };
    let waiting = loop {
        let (_, text) = get("/v1/waiting").await;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let waiting = answer["queues"][0]["waiting"].as_u64().unwrap_or_default();
        if waiting >= u64::from(WAITING) - 1_000 {
            break waiting;
        }
        sleep(Duration::from_secs(1)).await;
    };
    let status: Value = serde_json::from_str(&get("/v1/status").await.1).unwrap();
    let act = json!({ "action": "survey", "queue": "orders", "host": status["host"], "pointer": "/tenant" });
    let act = client
        .post(format!("{url}/page/act"))
        .header(COOKIE, &cookie)
        .json(&act)
        .send()
        .await
        .unwrap();
    assert!(act.status().is_success());
    let letters = loop {
        let (_, text) = get("/v1/dead-letters").await;
        let answer: Value = serde_json::from_str(&text).unwrap();
        let letters = answer["queues"][0]["found"]["letters"].as_u64();
        match letters {
            Some(letters) => break letters,
            None => sleep(Duration::from_secs(1)).await,
        }
    };
    let mut chapter = Chapter::new("page", "The page", ABOUT);
    let mut table = Table::new(&format!(
        "A view that nobody has just looked at: {waiting} messages wait, {letters} dead letters were surveyed"
    ))
    .column("time", Unit::Milliseconds, Better::Less)
    .column("longest", Unit::Milliseconds, Better::Less)
    .not_drawn();
    for path in [
        "/",
        "/?minutes=1440",
        "/waiting",
        "/waiting?queue=orders&code=HTTP+503",
        "/waiting/wake?queue=orders&all=yes&spread=0",
        "/dead-letters",
        "/dead-letters?queue=orders&grouped-by=cause",
        "/dead-letters?queue=orders&grouped-by=fingerprint",
        "/dead-letters?queue=orders&grouped-by=value",
        "/redrives",
        "/policies",
        "/audit",
    ] {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            sleep(KEPT).await;
            times.push(get(path).await.0);
        }
        let ms = times.iter().map(|time: &Duration| time.as_secs_f64() * 1e3);
        let longest = ms.clone().fold(0.0, f64::max);
        table.ours(path, [Figure::of(ms), Figure::exact(longest)]);
    }
    chapter.add(table);
    let minutes: u64 = std::env::var("PAGE_MINUTES").map_or(1, |it| it.parse().unwrap());
    chapter.add(flat(&url, &cookie, host.id().unwrap(), minutes).await);
    chapter.write();
}

/// The memory of the host and of a browser while people look at the overview.
async fn flat(url: &str, cookie: &str, host: u32, minutes: u64) -> Table {
    let services = top().join(".services");
    let mut browser = Command::new(services.join("node_modules/.bin/node"));
    browser.arg(top().join("tests/services/memory.mjs"));
    browser.args([
        services.to_str().unwrap(),
        url,
        cookie,
        &minutes.to_string(),
    ]);
    let browser = browser.stdin(Stdio::null()).output();
    let (url, cookie) = (url.to_owned(), cookie.to_owned());
    let people = tokio::spawn(async move {
        let client = reqwest::Client::new();
        loop {
            for _ in 0..4 {
                let view = client.get(format!("{url}/")).header(COOKIE, &cookie);
                view.send().await.unwrap().bytes().await.unwrap();
            }
            sleep(Duration::from_secs(3)).await;
        }
    });
    let memory = async {
        let mut of_minutes = Vec::new();
        for minute in 0..=minutes {
            if minute > 0 {
                sleep(Duration::from_secs(60)).await;
            }
            of_minutes.push(resident_memory(host));
        }
        of_minutes
    };
    let (browser, of_minutes) = tokio::join!(browser, memory);
    people.abort();
    print!("{}", String::from_utf8_lossy(&browser.unwrap().stdout));
    let mut table = Table::new("Under load: 200 messages a second, a browser and 4 people who look at the overview every 3 s")
        .column("resident memory of the host", Unit::Mebibytes, Better::Less)
        .not_drawn();
    for (minute, memory) in of_minutes.into_iter().enumerate() {
        table.ours(format!("minute {minute}"), [Figure::exact(memory)]);
    }
    table
}
