//! `backstop doctor` against an emulator: its findings and its exit codes.

use aws_sdk_lambda::types::RecursiveLoop;
use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::{Queues, config};
use backstop_tests::backstop::{command, run, text};
use backstop_tests::emulator::ministack;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function, map, send_failures};
use serde_json::Value;

const TWO_WEEKS: (Q, &str) = (Q::MessageRetentionPeriod, "1209600");

/// The findings and the exit code.
async fn findings(arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let output = run(&[&["doctor", "--json"], arguments].concat()).await;
    let shown = text(&output.stdout);
    let found = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    (found, output.status.code())
}

/// The texts of the findings with this verdict.
fn texts(found: &[Value], verdict: &str) -> Vec<String> {
    let of_kind = found.iter().filter(|finding| finding["verdict"] == verdict);
    of_kind
        .map(|finding| finding["text"].as_str().unwrap().to_owned())
        .collect()
}

async fn set(queues: &Queues, url: &str, (name, value): (Q, &str)) {
    let change = queues
        .client
        .set_queue_attributes()
        .queue_url(url)
        .attributes(name, value);
    change.send().await.unwrap();
}

#[tokio::test]
async fn a_deployment_is_checked_from_its_queue_to_its_functions() {
    let endpoint = &ministack().endpoint;
    let client = aws_sdk_lambda::Client::new(&config(endpoint).await);
    let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, "360"), TWO_WEEKS]).await;
    let missing = ["--retry-queue", &queues.url, "--function", "no-such"];
    let (found, _) = findings(&[&missing[..], &["--endpoint-url", endpoint]].concat()).await;
    let of_function: Vec<_> = found
        .iter()
        .filter(|finding| finding["subject"] == "function no-such")
        .map(|finding| finding["text"].as_str().unwrap())
        .collect();
    assert_eq!(of_function.len(), 1, "{of_function:?}");
    assert!(of_function[0].starts_with("does not exist: create it"));
    Function::python(FAILS_WHEN_TOLD)
        .make(endpoint, "checked")
        .await;
    Function::python(FAILS_WHEN_TOLD)
        .with("BACKSTOP_FUNCTIONS", "checked")
        .make(endpoint, "checker")
        .await;
    let arguments = [
        "--retry-queue",
        &queues.url,
        "--function",
        "checked",
        "--max-attempts",
        "20",
        "--endpoint-url",
        endpoint,
    ];

    // A deployment with common mistakes.
    let (found, code) = findings(&arguments).await;
    let wrong = texts(&found, "wrong").join("\n");
    for part in [
        "there is none: configure one",
        "nothing receives records",
        "has no event-invoke configuration",
        "--function-name checked --recursive-loop Allow",
    ] {
        assert!(wrong.contains(part), "{part:?} is not in:\n{wrong}");
    }
    assert_eq!(code, Some(6));

    // A correct deployment.
    queues.redrive_after(1_000).await;
    set(&queues, &queues.dead_letters, TWO_WEEKS).await;
    let arn = queues.arn().await;
    send_failures(endpoint, "checked", &arn).await;
    map(endpoint, "checker", &arn).await;
    for function in ["checked", "checker"] {
        let change = client
            .put_function_recursion_config()
            .function_name(function);
        change
            .recursive_loop(RecursiveLoop::Allow)
            .send()
            .await
            .unwrap();
    }
    let (found, code) = findings(&arguments).await;
    let bad: Vec<_> = found
        .iter()
        .filter(|finding| finding["verdict"] != "good")
        .collect();
    assert!(bad.is_empty() && found.len() > 15, "{bad:?}");
    assert_eq!(code, Some(0));

    // Its function leads to the queue, and the queue to its handler; so does the handler.
    for name in ["checked", "checker"] {
        let named = ["--function", name, "--max-attempts", "20"];
        let (by_name, code) = findings(&[&named[..], &["--endpoint-url", endpoint]].concat()).await;
        let subjects = |found: &[Value]| {
            let subjects = found.iter().map(|it| it["subject"].to_string());
            subjects.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(subjects(&by_name), subjects(&found), "{name}");
        assert_eq!(code, Some(0), "{name}: {by_name:?}");
    }
    let named = ["--function", "no-such", "--endpoint-url", endpoint];
    let (by_name, code) = findings(&named).await;
    assert!(
        texts(&by_name, "wrong")[0].starts_with("does not exist"),
        "{by_name:?}"
    );
    assert!(texts(&by_name, "good").is_empty(), "{by_name:?}");
    assert_eq!(code, Some(6));

    // And one with other mistakes.
    set(&queues, &queues.url, (Q::VisibilityTimeout, "40")).await;
    queues.redrive_after(5).await;
    let (found, code) = findings(&arguments).await;
    assert!(texts(&found, "wrong")[0].contains("maxReceiveCount to at least 51"));
    assert!(texts(&found, "warning")[0].contains("VisibilityTimeout to at least 180"));
    assert_eq!(code, Some(6));
}

/// The handler's own start rejects some of these, ignores some, and finds others only when a record arrives.
#[tokio::test]
async fn each_mistake_in_the_environment_of_a_deployed_handler_is_reported() {
    let endpoint = &ministack().endpoint;
    let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, "20"), TWO_WEEKS]).await;
    queues.redrive_after(1_000).await;
    let (old, none) = (
        format!("{}-old", queues.url),
        format!("{}-none", queues.url),
    );
    let dead = format!("permanant={none},default={}", queues.dead_letters);
    Function::python(FAILS_WHEN_TOLD)
        .with("BACKSTOP_RETRY_QUEUE_URL", &old)
        .with("BACKSTOP_DEAD_LETTER_QUEUE_URL", &dead)
        .with("BACKSTOP_POLICY", "linear")
        .with("BACKSTOP_SETTINGS", "bse=2s")
        .with("BACKSTOP_MAX_AGE", "soon")
        .with("BACKSTOP_HOLD", "later")
        .with("BACKSTOP_MAXATTEMPTS", "5")
        .with("BACKSTOP_FUNCTIONS", "no-such")
        .with("BACKSTOP_DECISIONS", "decisions.jsonl")
        .make(endpoint, "hapless")
        .await;
    map(endpoint, "hapless", &queues.arn().await).await;
    let named = ["--function", "hapless", "--endpoint-url", endpoint];
    let (found, code) = findings(&named).await;
    let printed = |verdict| texts(&found, verdict).join("\n");
    let (wrong, warnings) = (printed("wrong"), printed("warning"));
    for part in [
        &format!("BACKSTOP_RETRY_QUEUE_URL is {old}"),
        "does not exist: create it or correct its URL",
        "`bse`",
        "BACKSTOP_MAX_AGE: ",
        "BACKSTOP_HOLD: ",
        "does not exist: create it or correct its name",
        "BACKSTOP_DECISIONS is /var/task/decisions.jsonl",
        "VisibilityTimeout to at least 180",
    ] {
        assert!(wrong.contains(part), "{part:?} is not in:\n{wrong}");
    }
    for part in [
        "ignores the variable BACKSTOP_MAXATTEMPTS: the setting is BACKSTOP_MAX_ATTEMPTS",
        "the class `permanant` (`permanent`?)",
    ] {
        assert!(warnings.contains(part), "{part:?} is not in:\n{warnings}");
    }
    assert_eq!(code, Some(6));

    // Files of the package are not here, and nothing good is said of them.
    Function::python(FAILS_WHEN_TOLD)
        .with("BACKSTOP_POLICY", "./mine.wasm")
        .with("BACKSTOP_CONFIG", "mine.toml")
        .make(endpoint, "packed")
        .await;
    let queues = Queues::standard(endpoint, &[]).await;
    map(endpoint, "packed", &queues.arn().await).await;
    let named = ["--retry-queue", &queues.url, "--endpoint-url", endpoint];
    let (found, _) = findings(&named).await;
    let unknown = texts(&found, "unknown").join("\n");
    for part in [
        "mine.wasm is not here",
        "the file mine.toml of BACKSTOP_CONFIG",
    ] {
        assert!(unknown.contains(part), "{part:?} is not in:\n{unknown}");
    }
    let of_policy = |it: &Value| it["subject"] == "policy" && it["verdict"] == "good";
    assert!(!found.iter().any(of_policy), "{found:?}");
}

#[tokio::test]
async fn open_and_delayed_queues_and_misspelt_classes_are_reported() {
    let endpoint = &ministack().endpoint;
    let open = r#"{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}}"#;
    let queues = Queues::standard(endpoint, &[(Q::DelaySeconds, "5"), (Q::Policy, open)]).await;
    set(&queues, &queues.dead_letters, (Q::Policy, open)).await;
    let dead = format!("permanant={}", queues.dead_letters);
    let (found, code) = findings(&[
        "--queue-url",
        &queues.url,
        "--dead-letter-queue",
        &queues.dead_letters,
        "--dead-letter-queue",
        &dead,
        "--exec",
        "cat",
        "--endpoint-url",
        endpoint,
    ])
    .await;
    let warnings = texts(&found, "warning");
    for part in [
        "for 5s (DelaySeconds)",
        "lets everybody send messages to it",
        "its dead-letter queue",
        "(`permanent`?)",
        "Set max-attempts or max-age",
    ] {
        let has = warnings.iter().any(|text| text.contains(part));
        assert!(has, "{part:?} is not in:\n{warnings:#?}");
    }
    assert_eq!((warnings.len(), code), (5, Some(0)));
}

/// The file's own mistake is reported by the command; two URLs whose hosts differ are found by the queue's ARN.
#[tokio::test]
async fn one_queue_under_two_names_is_reported() {
    let endpoint = &ministack().endpoint;
    let queues = Queues::standard(endpoint, &[]).await;
    queues.redrive_after(1_000).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let other = queues.url.replace("127.0.0.1", "localhost");
    assert_ne!(other, queues.url);
    let table = |name: &str, url: &str| {
        format!(
            "[queues.{name}]\nurl = \"{url}\"\nhandler = {{ exec = \"cat\" }}\nmax-attempts = 5\n"
        )
    };
    let tables = table("orders", &queues.url) + &table("invoices", &other);
    std::fs::write(&path, &tables).unwrap();
    let arguments = ["doctor", "--json", "--config", path.to_str().unwrap()];
    let mut doctor = command(&arguments);
    let output = doctor.env("AWS_ENDPOINT_URL", endpoint).output().await;
    let shown = text(&output.unwrap().stdout);
    assert!(shown.contains("is that of `"), "{shown}");

    std::fs::write(&path, format!("endpoint-url = \"{endpoint}\"\n{tables}")).unwrap();
    let output = run(&arguments).await;
    let printed = text(&output.stderr);
    assert!(printed.contains("names the queue of `"), "{printed}");
}

#[tokio::test]
async fn the_queues_of_a_consumer_are_checked_as_at_its_start() {
    let endpoint = &ministack().endpoint;
    let queues = Queues::standard(endpoint, &[]).await;
    queues.redrive_after(3).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let missing = format!("{}-missing", queues.url);
    let text = format!(
        "endpoint-url = \"{endpoint}\"\n[queues.orders]\nurl = \"{}\"\nhandler = {{ exec = \"cat\" }}\n[queues.gone]\nurl = \"{missing}\"\nhandler = {{ exec = \"cat\" }}\n",
        queues.url
    );
    std::fs::write(&path, text).unwrap();
    let (found, code) = findings(&["--config", path.to_str().unwrap()]).await;
    assert!(
        texts(&found, "wrong")[0].contains("does not exist: create it"),
        "{found:?}"
    );
    assert!(
        texts(&found, "warning")[0].contains("Set max-attempts to at most 3"),
        "{found:?}"
    );
    let good = texts(&found, "good");
    assert_eq!((good.len(), code), (2, Some(6)));
    assert!(good[1].contains("visibility holds all of them"), "{good:?}");
}

/// The mean is that of all messages, and the delay is the longest of all.
#[tokio::test]
async fn a_wait_in_all_is_never_shorter_than_one_of_its_delays() {
    let orders = ["--queue-url", "local:orders", "--exec", "true"];
    let policy = ["--set", "base=4s", "--set", "max-attempts=3"];
    let (found, _) = findings(&[&orders[..], &policy].concat()).await;
    let hold = found.iter().find(|it| it["hold"].is_object()).unwrap();
    let [mean, longest, delay] = ["mean-wait", "longest-wait", "longest-delay"]
        .map(|name| hold["hold"][name].as_u64().unwrap());
    assert!(mean < delay && delay <= longest, "{hold}");
    let said = hold["text"].as_str().unwrap();
    let mut rest = said;
    for part in [
        "a message that keeps failing waits for ",
        " in all on average, ",
        " at most, by delays of up to ",
        " each: visibility holds all of them. ",
    ] {
        let split = rest.split_once(part);
        rest = split.unwrap_or_else(|| panic!("{part:?}: {said}")).1;
    }
    let shown = text(
        &run(&[&["doctor"], &orders[..], &policy].concat())
            .await
            .stdout,
    );
    assert!(shown.contains("2 good, 1 warning, 0 unknown"), "{shown}");
}

/// A setting that the policy does not know is no fault of the policy.
#[tokio::test]
async fn wrong_settings_do_not_make_the_policy_refused() {
    let orders = ["--queue-url", "local:orders", "--exec", "true"];
    let output = run(&[&["doctor"], &orders[..], &["--set", "bas=4s"]].concat()).await;
    let shown = text(&output.stdout).replace("\n          ", " ");
    let why = "can't be used: it refuses its settings: unknown setting `bas`";
    assert!(shown.contains(why), "{shown}");
    assert!(text(&output.stderr).contains("1 of 1 finding is wrong: "));
}

#[tokio::test]
async fn one_queue_is_checked_with_the_flags_of_run_and_all_problems_are_found_at_once() {
    let endpoint = &ministack().endpoint;
    let queues = Queues::standard(endpoint, &[(Q::VisibilityTimeout, "1")]).await;
    set(
        &queues,
        &queues.dead_letters,
        (Q::MessageRetentionPeriod, "3600"),
    )
    .await;
    queues.redrive_after(3).await;
    let nobody = format!(
        "http://127.0.0.1:{}/",
        backstop_tests::emulator::free_port()
    );
    let queue = ["--queue-url", &queues.url, "--endpoint-url", endpoint];

    // Warnings: it may work.
    let thoughtless = [
        "--http",
        &nobody,
        "--max-attempts",
        "3",
        "--set",
        "max-age=10d",
        "--hold",
        "visibility",
        "--decisions",
        "-",
    ];
    let arguments = [&queue[..], &thoughtless].concat();
    let (found, code) = findings(&arguments).await;
    let warnings = texts(&found, "warning").join("\n");
    for part in [
        "does not answer: ECONNREFUSED",
        &format!(" at {nobody}. Start it, or correct its URL"),
        "keeps a message for 1h only",
        "lower the policy's max-age",
        "visibility timeout of",
    ] {
        assert!(warnings.contains(part), "{part:?} is not in:\n{warnings}");
    }
    assert_eq!((texts(&found, "wrong").len(), code), (0, Some(0)));
    let (_, code) = findings(&[&arguments[..], &["--strict"]].concat()).await;
    assert_eq!(code, Some(6));

    // All of it is wrong.
    let wrong = ["--exec", "./no-such-program", "--max-attempts", "4"];
    let (found, code) =
        findings(&[&queue[..], &wrong, &["--policy", "./none.wasm"]].concat()).await;
    let printed = texts(&found, "wrong").join("\n");
    for part in ["./no-such-program", "./none.wasm"] {
        assert!(printed.contains(part), "{part:?} is not in:\n{printed}");
    }
    // A policy that cannot be read gets no findings about its behaviour.
    let of_discards = |finding: &Value| finding["text"].to_string().contains("discard");
    assert!(!found.iter().any(of_discards), "{found:?}");
    assert_eq!(code, Some(6));
    let (found, code) = findings(&[&queue[..], &wrong].concat()).await;
    let printed = texts(&found, "wrong").join("\n");
    for part in ["./no-such-program", "maxReceiveCount to at least 4"] {
        assert!(printed.contains(part), "{part:?} is not in:\n{printed}");
    }
    assert_eq!(code, Some(6));
}

/// The only finding with numbers about how the messages of a local queue wait, with `linear`, whose delays are the base times the attempt.
async fn forecast(queue: &str, base: &str, more: &[&str]) -> (Value, Option<i32>) {
    let (url, base) = (format!("local:{queue}"), format!("base={base}"));
    let arguments = ["--queue-url", &url, "--exec", "cat", "--policy", "linear"];
    let settings = [
        "--set",
        &base,
        "--set",
        "cap=13h",
        "--set",
        "max-attempts=4",
        "--max-attempts",
        "12",
    ];
    let (found, code) = findings(&[&arguments[..], &settings, more].concat()).await;
    let mut found = found.into_iter().filter(|it| it["hold"].is_object());
    let forecast = found.next().unwrap();
    assert!(found.next().is_none());
    (forecast, code)
}

#[tokio::test]
async fn the_number_of_waiting_messages_is_the_rate_times_their_delays() {
    // 10 s + 20 s + 30 s = 60 s.
    let (found, code) = forecast("orders", "10s", &["--rate", "200/s"]).await;
    let hold = &found["hold"];
    let expected = serde_json::json!({
        "mode": "auto", "hold": "visibility", "visibility-suffices": true, "simulated": 400,
        "longest-delay": 30_000, "mean-wait": 60_000, "longest-wait": 60_000,
        "rate": "200/s", "waiting": 12_000, "visibility-up-to": "1666/s",
    });
    assert_eq!((hold, code), (&expected, Some(0)));
    assert_eq!(found["verdict"], "good");
    for (rate, waiting, hold) in [
        ("30/m", 30, "visibility"),
        ("60/h", 1, "visibility"),
        ("1667/s", 100_020, "resend"),
    ] {
        let (found, _) = forecast("orders", "10s", &["--rate", rate]).await;
        assert_eq!(found["hold"]["waiting"], waiting, "{rate}");
        assert_eq!(found["hold"]["hold"], hold, "{rate}");
    }
}

#[tokio::test]
async fn a_hold_that_does_not_suffice_is_reported_with_what_to_change() {
    // 5 h + 10 h + 13 h = 28 h, with a cap.
    let visibility = ["--hold", "visibility"];
    let (found, code) = forecast("orders", "5h", &visibility).await;
    let printed = found["text"].as_str().unwrap();
    assert_eq!((&found["verdict"], code), (&"warning".into(), Some(0)));
    for part in [
        "1d4h in all",
        "up to 13h",
        "invisible for 12h",
        "Set hold = \"auto\"",
    ] {
        assert!(printed.contains(part), "{part:?}: {printed}");
    }
    let strict = [&visibility[..], &["--strict"]].concat();
    assert_eq!(forecast("orders", "5h", &strict).await.1, Some(6));

    // What `auto` and `resend` send again needs a permission.
    for mode in ["auto", "resend"] {
        let flags = ["--hold", mode, "--strict"];
        let (found, code) = forecast("orders", "5h", &flags).await;
        let printed = found["text"].as_str().unwrap();
        assert!(printed.contains("sqs:SendMessage"), "{printed}");
        assert_eq!((&found["verdict"], code), (&"unknown".into(), Some(0)));
        assert_eq!(found["hold"]["hold"], "resend");
    }

    // A FIFO queue has visibility only, and waits for 60 s.
    let (found, _) = forecast("orders.fifo", "10s", &["--rate", "1999/s"]).await;
    assert_eq!(found["hold"]["mode"], "visibility");
    assert_eq!(
        (&found["verdict"], &found["hold"]["waiting"]),
        (&"good".into(), &119_940.into())
    );
    let (found, _) = forecast("orders.fifo", "10s", &["--rate", "2000/s"]).await;
    assert_eq!(found["verdict"], "warning");
    assert!(
        found["text"]
            .as_str()
            .unwrap()
            .contains("use a standard queue")
    );
}

#[tokio::test]
async fn the_retry_queue_of_a_lambda_handler_has_a_forecast_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let lambda = "[lambda]\npolicy = \"linear\"\nsettings = { base = \"10s\" }\nmax-attempts = 4\n";
    std::fs::write(&path, lambda).unwrap();
    let (found, _) = findings(&["--config", path.to_str().unwrap(), "--rate", "6/m"]).await;
    let found = found.iter().find(|it| it["hold"].is_object()).unwrap();
    assert_eq!(found["subject"], "retry queue");
    assert_eq!(found["hold"]["waiting"], 6);
}

#[tokio::test]
async fn an_invalid_rate_is_rejected_with_examples() {
    for rate in ["200", "0/s", "1.5/s", "5/d"] {
        let output = run(&["doctor", "--config", "none.toml", "--rate", rate]).await;
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains("such as 200/s, 50/m or 10/h"), "{printed}");
    }
}

#[tokio::test]
async fn its_output_is_readable() {
    let output = run(&[
        "doctor",
        "--retry-queue",
        "http://127.0.0.1:9/1/retries",
        "--endpoint-url",
        "http://127.0.0.1:9",
    ])
    .await;
    let shown = text(&output.stdout);
    assert!(
        shown.contains("unknown   policy: not checked: the handler's settings are not known"),
        "{shown}"
    );
    assert!(shown.contains("wrong     retry queue retries: "), "{shown}");
    assert!(
        shown.contains("nothing listens at the endpoint http://127.0.0.1:9: check --endpoint-url"),
        "{shown}"
    );
    assert!(text(&output.stderr).contains("1 of 2 findings is wrong"));
    assert!(!shown.contains('\u{1b}'));
}
