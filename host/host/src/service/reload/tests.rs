use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::Backstop;
use crate::consumer::Budget;

const ORDERS: &str = "
[queues.orders]
url = \"local:orders\"
handler = { http = \"http://user:secret@127.0.0.1:8080/\" }
";

/// A file that is written and read again.
struct File(tempfile::TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("backstop.toml")
    }

    fn host(&self, text: &str) -> Backstop {
        std::fs::write(self.path(), text).unwrap();
        Backstop::file_by_flags(&self.path()).unwrap()
    }

    fn read(&self, text: &str) -> Reading {
        self.host(text).into_reading().unwrap()
    }
}

/// A host of the queue `orders` that was started with this configuration.
fn started(reading: &Reading) -> Reload {
    let options = &reading.config.queues.first().unwrap().options;
    let controls = Controls::new("orders", Budget::new(100, 1 << 20), options);
    let breaker = Arc::new(Breaker::new("orders", options.breaker.as_ref()));
    let served = Served { controls, breaker };
    Reload::new([("orders".to_owned(), served)].into(), reading)
}

impl Reload {
    fn orders(&self) -> &Controls {
        &self.queues.get("orders").unwrap().controls
    }

    fn rate(&self) -> Option<String> {
        self.orders().serving(None).rate
    }
}

#[tokio::test]
async fn what_changes_at_once_changes_and_the_rest_is_named_without_its_value() {
    let file = File::new();
    let mut reload = started(&file.read(ORDERS));
    let changed = format!(
        "{}rate = \"10/s\"\nmax-in-flight = 7\ngrace = \"3s\"\nidle-poll = \"9s\"\nlinger = \"1s\"\n[queues.bills]\nurl = \"local:bills\"\nhandler = {{ exec = \"true\" }}\nrate = \"5/s\"\n",
        ORDERS.replace("secret", "password")
    );
    let reloaded = reload.take_over(file.read(&changed));
    assert_eq!(
        reloaded.changed,
        [
            "queues.orders.max-in-flight: 100 -> 7",
            "queues.orders.idle-poll: 2s -> 9s",
            "queues.orders.rate: none -> 10/s",
            "queues.orders.grace: 25s -> 3s",
        ]
    );
    assert_eq!(
        reloaded.need_restart,
        [
            "queues.bills",
            "queues.orders.handler.http",
            "queues.orders.linger"
        ]
    );
    let text = format!("{reloaded:?}");
    assert!(
        !text.contains("secret") && !text.contains("password"),
        "{text}"
    );
    let serving = reload.orders().serving(None);
    assert_eq!(
        (serving.max_in_flight, serving.rate.as_deref()),
        (7, Some("10/s"))
    );
    assert_eq!(reload.orders().grace(), Duration::from_secs(3));
    assert_eq!(reload.orders().idle_poll(), Duration::from_secs(9));

    // The same file: what needs a restart still does.
    let reloaded = reload.take_over(file.read(&changed));
    assert_eq!(
        (reloaded.changed.len(), reloaded.need_restart.len()),
        (0, 3)
    );
    // A queue that is not served has nothing to change.
    let reloaded = reload.take_over(file.read(&changed.replace("5/s", "6/s")));
    assert_eq!(
        (reloaded.changed.len(), reloaded.need_restart.len()),
        (0, 3)
    );
    // As it was at the start: nothing needs a restart any more.
    let reloaded = reload.take_over(file.read(ORDERS));
    assert_eq!(
        (reloaded.changed.len(), reloaded.need_restart.len()),
        (4, 0)
    );
    assert_eq!(reload.rate(), None);
}

#[tokio::test]
async fn what_an_operator_has_set_stays_until_its_key_changes() {
    let file = File::new();
    let with = |text: &str| file.read(&format!("{ORDERS}{text}"));
    let mut reload = started(&with("rate = \"50/s\""));
    let limits = NewLimits {
        rate: Some(Some("5/s".parse().unwrap())),
        max_in_flight: Some(3),
        ..NewLimits::default()
    };
    reload.orders().set(limits, "anna");
    let reloaded = reload.take_over(with("rate = \"50/s\"\nmax-in-flight = 9"));
    assert_eq!(reloaded.changed, ["queues.orders.max-in-flight: 100 -> 9"]);
    let serving = reload.orders().serving(None);
    assert_eq!(
        (serving.max_in_flight, serving.rate.as_deref()),
        (9, Some("5/s"))
    );
    reload.take_over(with("rate = \"40/s\"\nmax-in-flight = 9"));
    assert_eq!(reload.rate().as_deref(), Some("40/s"));
}

#[tokio::test]
async fn a_queue_that_comes_back_is_compared_with_what_the_host_has() {
    let file = File::new();
    let bills = "[queues.bills]\nurl = \"local:bills\"\nhandler = { exec = \"true\" }\n";
    let mut reload = started(&file.read(ORDERS));
    let reloaded = reload.take_over(file.read(bills));
    assert_eq!(reloaded.need_restart, ["queues.bills", "queues.orders"]);
    let reloaded = reload.take_over(file.read(&format!("{ORDERS}rate = \"10/s\"")));
    assert_eq!(reloaded.changed, ["queues.orders.rate: none -> 10/s"]);
    assert_eq!(reloaded.need_restart, <[&str; 0]>::default());
    assert_eq!(reload.rate().as_deref(), Some("10/s"));
}

#[tokio::test]
async fn the_numbers_of_a_breaker_change_and_the_breaker_itself_needs_a_restart() {
    let file = File::new();
    let with =
        |breaker: &str| file.read(&format!("{ORDERS}breaker = {{ by = \"queue\"{breaker} }}"));
    let mut reload = started(&with(", minimum = 5"));
    let reloaded = reload.take_over(with(", minimum = 6, after = \"1s\""));
    assert_eq!(
        reloaded.changed,
        [
            "queues.orders.breaker.minimum: 5 -> 6",
            "queues.orders.breaker.after: 5s -> 1s"
        ]
    );
    let reloaded = reload.take_over(file.read(ORDERS));
    assert_eq!(reloaded.changed, <[&str; 0]>::default());
    assert_eq!(reloaded.need_restart, ["queues.orders.breaker"]);
}

#[tokio::test]
async fn the_limits_for_each_key_change_and_the_key_itself_needs_a_restart() {
    let file = File::new();
    let with = |text: &str| file.read(&format!("{ORDERS}limit-each = {{ by = {text} }}"));
    let mut reload = started(&with("\"/tenant\", rate = \"5/s\""));
    let reloaded = reload.take_over(with("\"/tenant\", rate = \"9/s\", max-in-flight = 3"));
    assert_eq!(
        reloaded.changed,
        [
            "queues.orders.limit-each.rate: 5/s -> 9/s",
            "queues.orders.limit-each.max-in-flight: none -> 3"
        ]
    );
    let each = reload.orders().serving(None).each.unwrap();
    assert_eq!(
        (each.rate.as_deref(), each.max_in_flight),
        (Some("9/s"), Some(3))
    );
    // What an operator has set stays, unless its own key changes.
    let limits = NewLimits {
        each_max_in_flight: Some(Some(1)),
        ..NewLimits::default()
    };
    reload.orders().set(limits, "anna");
    let reloaded = reload.take_over(with("\"/tenant\", rate = \"8/s\", max-in-flight = 3"));
    assert_eq!(
        reloaded.changed,
        ["queues.orders.limit-each.rate: 9/s -> 8/s"]
    );
    let each = reload.orders().serving(None).each.unwrap();
    assert_eq!(
        (each.rate.as_deref(), each.max_in_flight),
        (Some("8/s"), Some(1))
    );
    let reloaded = reload.take_over(with("\"/account\", max-in-flight = 3"));
    assert_eq!(
        reloaded.changed,
        ["queues.orders.limit-each.rate: 8/s -> none"]
    );
    assert_eq!(reloaded.need_restart, ["queues.orders.limit-each.by"]);
    let each = reload.orders().serving(None).each.unwrap();
    assert_eq!((&*each.by, each.rate), ("/tenant", None));
}

#[tokio::test]
async fn a_flag_overrides_both_files() {
    let file = File::new();
    let read = |text: &str| {
        let host = file.host(&format!("{text}{ORDERS}grace = \"{}s\"", text.len()));
        let host = host.grace(Duration::from_secs(2)).metrics("127.0.0.1:0");
        host.decisions("records").into_reading().unwrap()
    };
    let mut reload = started(&read(""));
    let file = "metrics = \"127.0.0.1:9\"\ndecisions = { record = \"others\" }\n";
    let reloaded = reload.take_over(read(file));
    let expected = ["decisions", "metrics", "queues.orders.grace"];
    assert_eq!(reloaded.overridden, expected);
    assert_eq!(
        (reloaded.changed.len(), reloaded.need_restart.len()),
        (0, 0)
    );
    assert_eq!(reload.orders().grace(), Duration::from_secs(2));
}

#[tokio::test]
async fn a_window_that_is_open_pauses_at_once_and_one_that_has_gone_does_not() {
    let file = File::new();
    let mut reload = started(&file.read(ORDERS));
    // Two windows that fill the whole day together.
    let at = |hour| format!("{{ at = \"0 {hour} * * *\", zone = \"UTC\", for = \"13h\" }}");
    let windows = format!("{ORDERS}pause = [{}, {}]", at(0), at(12));
    assert_eq!(reload.take_over(file.read(&windows)).changed.len(), 1);
    let paused = reload.orders().serving(None).paused.unwrap();
    assert_eq!(paused.by, "the configuration");
    reload.take_over(file.read(ORDERS));
    assert_eq!(reload.orders().serving(None).paused, None);
}

#[tokio::test]
async fn what_others_read_in_the_file_needs_no_restart() {
    let file = File::new();
    let mut reload = started(&file.read(ORDERS));
    let more = "fleet = [\"dns+http://backstop.internal:9465\"]\n[lambda]\nmargin = \"6s\"\n";
    let reloaded = reload.take_over(file.read(&format!("{more}{ORDERS}")));
    assert_eq!(reloaded, Reloaded::default());
    let reloaded = reload.take_over(file.read(&format!("{}{ORDERS}", more.replace('6', "7"))));
    assert_eq!(reloaded, Reloaded::default());
}

#[test]
fn a_line_of_the_log_names_a_bounded_number_of_changes() {
    let many: Vec<_> = (0..60).map(|number| number.to_string()).collect();
    let text = named(&many, ", ");
    assert!(text.ends_with("48, 49, and 10 more"), "{text}");
}
