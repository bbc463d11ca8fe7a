//! A host in virtual time, with work that is done outside of its runtime, as the packages of other languages do it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use backstop_core::failure::Error;
use backstop_handlers::Handler;
use backstop_host::Backstop;
use backstop_host::trial::{Ended, Trial, TrialMessage, Tried, VirtualTime};
use backstop_queue::{Message, Outgoing};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

type Work = dyn Fn(&Message) -> Result<(), Error> + Send + Sync;

/// A handler whose work is done by threads that the runtime does not know, as a package's is.
struct Outside(Arc<Work>);

backstop_core::shown!(Outside);

#[async_trait]
impl Handler for Outside {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        let (done, outcome) = oneshot::channel();
        let (work, message) = (Arc::clone(&self.0), message.clone());
        thread::spawn(move || drop(done.send(work(&message))));
        outcome.await.unwrap()
    }
}

fn host(
    url: &str,
    work: impl Fn(&Message) -> Result<(), Error> + Send + Sync + 'static,
) -> Backstop {
    Backstop::queue(url).handle_with(Arc::new(Outside(Arc::new(work))))
}

fn trial(seed: u64, bodies: &[&str]) -> Trial {
    let messages = bodies.iter().map(|body| TrialMessage {
        queue: "orders".to_owned(),
        after: Duration::ZERO,
        message: Outgoing::new(*body),
    });
    Trial {
        seed,
        longest: WEEK,
        messages: messages.collect(),
        time: VirtualTime::default(),
    }
}

fn try_out(backstop: Backstop, trial: Trial) -> Tried {
    backstop.try_out(trial, CancellationToken::new()).unwrap()
}

fn busy() -> Error {
    Error::reported("HTTP 503", "busy")
}

/// The whole seconds at which the attempts of a message began.
fn seconds(tried: &Tried, body: &str) -> Vec<u64> {
    let attempts = tried.attempts.iter().filter(|it| &*it.body == body);
    attempts.map(|it| it.at.as_secs()).collect()
}

#[test]
fn hours_of_delays_pass_at_once_and_no_sooner() {
    let began = backstop_core::clock::instant();
    let backstop = host("https://sqs.eu-west-1.amazonaws.com/1/orders", |message| {
        // What takes real time takes no virtual one.
        thread::sleep(Duration::from_millis(20));
        match (&*message.body, message.receive_count.get()) {
            ("piano", ..4) => Err(busy()),
            ("unicorn", _) => Err(Error::permanent("NoSuchArticle", "")),
            _ => Ok(()),
        }
    });
    let backstop = backstop
        .policy("linear")
        .set("base", "1h")
        .max_attempts(9)
        .dead_letter_queue("https://sqs.eu-west-1.amazonaws.com/1/dead")
        .metrics("127.0.0.1:1")
        .admin("127.0.0.1:1");
    let tried = try_out(backstop, trial(1, &["book", "piano", "unicorn"]));
    let summary = tried.summaries.get("orders").unwrap();
    let counts = (summary.succeeded, summary.retried, summary.dead_lettered);
    assert_eq!(counts, (2, 3, 1));
    assert_eq!(seconds(&tried, "book"), [0]);
    assert_eq!(seconds(&tried, "piano"), [0, 3_600, 10_800, 21_600]);
    let numbers = tried.attempts.iter().filter(|it| &*it.body == "piano");
    assert_eq!(
        numbers.map(|it| it.number).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    assert!((6 * HOUR..6 * HOUR + SECOND).contains(&tried.elapsed));
    assert!(tried.attempts.iter().all(|it| it.took.is_zero()));
    let [(queue, letter)] = &*tried.letters else {
        panic!("{:?}", tried.letters)
    };
    assert_eq!((queue.as_str(), &*letter.body), ("dead", "unicorn"));
    assert_eq!(
        letter.attributes["BackstopError"].to_text(),
        "NoSuchArticle"
    );
    assert_eq!(tried.left, 0);
    assert!(began.elapsed() < 60 * SECOND);
}

#[test]
fn the_same_seed_has_the_same_delays() {
    let run = |seed| {
        let backstop = host("local:orders", |message| {
            match message.receive_count.get() {
                ..5 => Err(busy()),
                _ => Ok(()),
            }
        });
        let backstop = backstop.set("base", "1m").max_in_flight(3);
        let tried = try_out(backstop, trial(seed, &["a", "b", "c", "d", "e"]));
        let attempts = tried.attempts.into_iter();
        attempts
            .map(|it| (it.message_id, it.body, it.number, it.at))
            .collect::<Vec<_>>()
    };
    let first = run(7);
    assert_eq!(first.len(), 25);
    assert_eq!(run(7), first);
    assert_ne!(run(8), first);
}

#[test]
fn messages_come_when_they_are_sent() {
    let tried = {
        let mut trial = trial(1, &["first", "later", "last"]);
        trial.messages[1].after = 2 * HOUR;
        trial.messages[2].after = 5 * HOUR;
        try_out(host("local:orders", |_| Ok(())), trial)
    };
    let at = ["first", "later", "last"].map(|body| seconds(&tried, body));
    assert_eq!(at, [vec![0], vec![7_200], vec![18_000]]);
}

#[test]
fn a_handler_that_sleeps_lets_time_pass_and_may_time_out() {
    let trial = trial(1, &["slow", "quick"]);
    let time = trial.time.clone();
    let backstop = host("local:orders", move |message| {
        let slow = &*message.body == "slow" && message.receive_count.get() == 1;
        let sleeps = if slow { HOUR } else { 40 * SECOND };
        let receipt = std::slice::from_ref(&message.receipt_handle);
        assert!(time.sleep(receipt, sleeps));
        Ok(())
    });
    let backstop = backstop
        .attempt_timeout(60 * SECOND)
        .policy("linear")
        .set("base", "10s");
    let tried = try_out(backstop, trial);
    let took = |body: &str| -> Vec<u64> {
        let attempts = tried.attempts.iter().filter(|it| &*it.body == body);
        attempts.map(|it| it.took.as_secs()).collect()
    };
    // Longer than the visibility timeout of 30 s: heartbeats keep it invisible.
    assert_eq!(took("quick"), [40]);
    assert_eq!(took("slow"), [60, 40]);
    let ends = tried.attempts.iter().map(|it| match &it.ended {
        Ended::Failed(record) => record.failure.error.code.as_str(),
        Ended::Succeeded => "",
        Ended::NotCounted(_) => "not counted",
    });
    assert_eq!(ends.collect::<Vec<_>>(), ["", "Timeout", ""]);
}

#[test]
fn a_worker_that_is_unavailable_makes_no_attempt() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    let backstop = host("local:orders", move |_| {
        match counted.fetch_add(1, SeqCst) {
            0 => Err(Error::unavailable("Starting", "not yet")),
            1 => Err(busy()),
            _ => Ok(()),
        }
    });
    let tried = try_out(
        backstop.policy("linear").set("base", "1s"),
        trial(1, &["a"]),
    );
    let numbers: Vec<_> = tried.attempts.iter().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 1, 2]);
    let first = &tried.attempts[0].ended;
    assert!(matches!(first, Ended::NotCounted(Some(error)) if error.code == "Starting"));
}

#[test]
fn a_group_keeps_its_order() {
    let backstop = host("local:orders.fifo", |message| {
        match message.receive_count.get() {
            1 if &*message.body == "1" => Err(busy()),
            _ => Ok(()),
        }
    });
    let mut trial = trial(1, &["1", "2", "2"]);
    for message in &mut trial.messages {
        message.queue = "orders.fifo".to_owned();
    }
    let tried = try_out(backstop.policy("linear").set("base", "1m"), trial);
    let bodies: Vec<_> = tried.attempts.iter().map(|it| &*it.body).collect();
    assert_eq!(bodies, ["1", "1", "2", "2"]);
}

#[test]
fn a_trial_ends_when_its_time_is_over() {
    let backstop = host("local:orders", |_| Err(busy()));
    let backstop = backstop.policy("linear").set("base", "1h");
    let mut trial = trial(1, &["a"]);
    trial.longest = 5 * HOUR;
    let tried = try_out(backstop, trial);
    assert_eq!((tried.left, tried.elapsed), (1, 5 * HOUR));
    assert_eq!(seconds(&tried, "a"), [0, 3_600, 10_800]);
}

#[test]
fn a_handler_that_hangs_does_not_keep_a_trial_from_stopping() {
    let (begun, begins) = std::sync::mpsc::channel();
    let backstop = host("local:orders", move |_| {
        begun.send(()).unwrap();
        thread::park();
        Ok(())
    });
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    thread::spawn(move || {
        begins.recv().unwrap();
        stopping.cancel();
    });
    let tried = backstop.try_out(trial(1, &["a"]), stop).unwrap();
    assert_eq!(tried.left, 1);
    assert!(matches!(tried.attempts[0].ended, Ended::NotCounted(None)));
}

#[test]
fn mistakes_are_reported() {
    let of = |backstop: Backstop, trial: Trial| {
        let error = backstop.try_out(trial, CancellationToken::new());
        backstop_core::text::chain(&error.unwrap_err())
    };
    let fine = || host("local:orders", |_| Ok(()));
    assert_eq!(
        of(
            Backstop::queue("local:orders").exec(["true"]),
            trial(1, &[])
        ),
        "queue `orders`: expected a function as its handler: the time of other programs does not jump"
    );
    let mut other = trial(1, &["a"]);
    other.messages[0].queue = "invoices".to_owned();
    assert_eq!(of(fine(), other), "messages: there is no queue `invoices`");
    let unknown = of(fine().policy("fulljitter"), trial(1, &[]));
    assert!(unknown.contains("full-jitter"), "{unknown}");
    let empty = of(fine(), trial(1, &[""]));
    assert!(
        empty.starts_with("messages: queue `orders` rejects one"),
        "{empty}"
    );
}
