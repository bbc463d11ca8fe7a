//! `backstop dlq triage`: what another policy would do with what died.

use backstop_tests::backstop::{Running, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::policies::{AT_WORK, Rule, waits};
use backstop_tests::worker::{Worker, numbered};
use serde_json::{Value, json};

use crate::world::{Given, World, failed, number, of_backstop, string};

fn verdicts(judged: &Value) -> Value {
    judged["queues"][0]["verdicts"].clone()
}

#[tokio::test]
async fn what_a_policy_would_retry_is_counted_and_saved() {
    let world = World::standard(&ministack().endpoint).await;
    let mut retried = Vec::new();
    for number in 0..20 {
        let body = number.to_string();
        let given = match number % 4 {
            0 => of_backstop(&body, "permanent: HTTP 404", "permanent", "HTTP 404: gone"),
            _ => of_backstop(&body, "after 3 attempts", "transient", "HTTP 503: busy"),
        };
        let id = world.put(given).await;
        if number % 4 != 0 {
            retried.push(id);
        }
    }
    world
        .put(Given {
            body: "nobody's",
            ..Given::default()
        })
        .await;
    let policy = ["--policy", "full-jitter", "--set", "base=2s"];
    let judged = world
        .json("triage", &[&policy[..], &["--save", "ids.jsonl"]].concat())
        .await;
    let expected = json!({"retry": 15, "dead-letter": 5, "not classified": 1});
    assert_eq!(verdicts(&judged), expected, "{judged}");
    let unknown = &judged["queues"][0]["unknown"];
    assert_eq!(
        unknown["the delay before the last attempt: none is assumed"],
        20
    );
    let saved = std::fs::read_to_string(world.path("ids.jsonl")).unwrap();
    let mut saved: Vec<_> = saved
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    saved.sort_by_key(ToString::to_string);
    retried.sort();
    assert_eq!(json!(saved), json!(retried));

    // A limit that the third attempt has reached, and a new life.
    let limit = [&policy[..], &["--set", "max-attempts=3"]].concat();
    let judged = world.json("triage", &limit).await;
    assert_eq!(
        verdicts(&judged),
        json!({"dead-letter": 20, "not classified": 1})
    );
    let judged = world
        .json("triage", &[&limit[..], &["--reset-attempts"]].concat())
        .await;
    assert_eq!(verdicts(&judged), expected);
    // An error is assumed only where somebody says which.
    let assumed = [&policy[..], &["--assume-code", "HTTP 503"]].concat();
    let judged = world.json("triage", &assumed).await;
    assert_eq!(verdicts(&judged), json!({"retry": 16, "dead-letter": 5}));
    let shown = world.run("triage", &policy).await;
    for expected in [
        "15  would be retried",
        "5  would be dead-lettered again",
        "1  not classified",
        "such as ",
        "The letters do not say",
    ] {
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(world.visible().await, 21);
}

#[tokio::test]
async fn a_policy_that_breaks_retries_nothing() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..3 {
        world
            .put(of_backstop(
                &number.to_string(),
                "r",
                "transient",
                "HTTP 503: busy",
            ))
            .await;
    }
    let rule = Rule {
        // The probe passes.
        delay: Some(&format!(
            "(if (result i32) {AT_WORK} (then (loop $l (br $l)) (unreachable)) (else (i32.const 5)))"
        )),
        ..Rule::default()
    };
    std::fs::write(world.path("loop.wat"), rule.text()).unwrap();
    let flags = ["--policy", "loop.wat", "--save", "ids.jsonl"];
    let judged = world.json("triage", &flags).await;
    assert_eq!(verdicts(&judged), json!({"broken": 3}), "{judged}");
    assert_eq!(std::fs::read(world.path("ids.jsonl")).unwrap(), b"");
    let output = world.command("triage", &[]).output().await.unwrap();
    let (code, said) = failed(&output);
    assert!(code == 2 && said.contains("which policy?"), "{said}");
}

#[tokio::test]
async fn the_event_of_a_destination_record_is_judged_with_its_own_error() {
    let world = World::standard(&ministack().endpoint).await;
    for (name, attributes) in [("Sandbox.Timedout", 3), ("ValidationException", 1)] {
        let record = json!({
            "requestContext": {"requestId": "r-1", "functionArn": "arn:aws:lambda:us-east-1:1:function:ship:$LATEST", "condition": "RetriesExhausted", "approximateInvokeCount": attributes},
            "requestPayload": {"order": 8},
            "responseContext": {"statusCode": 200, "functionError": "Unhandled"},
            "responsePayload": {"errorMessage": "because", "errorType": name},
        });
        let attributes = vec![("tenant".to_owned(), string("t-1"))];
        world
            .put(Given {
                body: &record.to_string(),
                attributes,
                group: None,
            })
            .await;
    }
    let judged = world.json("triage", &["--policy", "full-jitter"]).await;
    assert_eq!(
        verdicts(&judged),
        json!({"retry": 1, "dead-letter": 1}),
        "{judged}"
    );
}

#[tokio::test]
async fn the_policy_that_decided_decides_the_same_again() {
    let world = World::standard(&ministack().endpoint).await;
    let worker = Worker::by_name().await;
    let bodies = [numbered("wrong", 6), numbered("broken", 6)].concat();
    world.queues.send(bodies).await;
    let flags = [
        "--policy",
        "full-jitter",
        "--set",
        "base=10ms",
        "--set",
        "cap=20ms",
        "--set",
        "max-attempts=2",
    ];
    let host = serve(&world.queues, &worker, &flags).await;
    eventually("all are dead", || async { world.queues.dead().await == 12 }).await;
    host.stop().await;
    let listing = world
        .json("list", &["--by", "source", "--by", "class"])
        .await;
    let arn = world.queues.arn().await;
    for group in listing["queues"][0]["groups"].as_array().unwrap() {
        assert_eq!(group["by"]["source"], json!(arn), "{listing}");
        assert_eq!(group["count"], 6);
    }
    let policy = ["--policy", "full-jitter", "--set", "max-attempts=2"];
    let judged = world.json("triage", &policy).await;
    assert_eq!(verdicts(&judged), json!({"dead-letter": 12}), "{judged}");
    // By the name of the queue in a configuration: its policy, and its limits.
    let config = format!(
        "endpoint-url = \"{}\"\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ http = \"{}\" }}\npolicy = \"full-jitter\"\n",
        world.queues.endpoint, world.queues.url, world.queues.dead_letters, worker.url
    );
    std::fs::write(world.path("backstop.toml"), config).unwrap();
    let output = world
        .plain(&["dlq", "triage", "orders", "--json"])
        .output()
        .await
        .unwrap();
    let judged: Value = serde_json::from_str(&crate::world::succeeded(&output)).unwrap();
    assert_eq!(
        verdicts(&judged),
        json!({"dead-letter": 6, "retry": 6}),
        "{judged}"
    );
    let output = world
        .plain(&["dlq", "list", "invoices"])
        .output()
        .await
        .unwrap();
    let (code, said) = failed(&output);
    assert!(
        code == 2 && said.contains("has no queue `invoices`, only orders"),
        "{said}"
    );
}

#[tokio::test]
async fn the_policy_gets_the_status_that_it_saw_although_the_code_does_not_say_it() {
    let world = World::standard(&ministack().endpoint).await;
    let worker = Worker::start(|_| {
        let answer = axum::http::Response::builder().status(422);
        let body = r#"{"errorType": "OutOfStock", "errorMessage": "none left"}"#;
        answer.body(body.into()).unwrap()
    })
    .await;
    world.queues.send(numbered("order", 3)).await;
    let policy = ["--policy", "full-jitter"];
    let host = serve(&world.queues, &worker, &policy).await;
    eventually("all are dead", || async { world.queues.dead().await == 3 }).await;
    host.stop().await;
    // Two of an earlier version, and one whose policy had a rule of its own.
    let old = || {
        of_backstop(
            "old",
            "permanent: none left",
            "permanent",
            "OutOfStock: none",
        )
    };
    world.put(old()).await;
    world.put(old()).await;
    let mut own = old();
    own.attributes
        .push(("BackstopStatus".to_owned(), number(0)));
    world.put(own).await;

    let judged = world.json("triage", &policy).await;
    let expected = json!({"dead-letter": 5, "retry": 1});
    assert_eq!(verdicts(&judged), expected, "{judged}");
    let groups = judged["queues"][0]["groups"].as_array().unwrap();
    let died_of: Vec<_> = groups
        .iter()
        .map(|group| (group["verdict"].as_str().unwrap(), &group["died-of"]))
        .collect();
    let none = &Value::Null;
    let another = json!("permanent");
    assert_eq!(died_of, [("dead-letter", none), ("retry", &another)]);
    let assumed = "the error's status: one of the class that it died of is assumed";
    assert_eq!(judged["queues"][0]["unknown"][assumed], 2, "{judged}");
    let shown = world.run("triage", &policy).await;
    assert!(
        shown.contains("died of another class: permanent"),
        "{shown}"
    );
}

#[tokio::test]
async fn after_a_rollback_the_version_that_hosts_have_active_is_asked() {
    let world = World::standard(&ministack().endpoint).await;
    let worker = Worker::by_name().await;
    for number in 0..3 {
        let body = number.to_string();
        let reason = "after 3 attempts";
        world
            .put(of_backstop(&body, reason, "transient", "HTTP 503: busy"))
            .await;
    }
    let policy = world.path("orders.wat");
    std::fs::write(&policy, waits(60_000)).unwrap();
    let config = format!(
        "endpoint-url = \"{}\"\n[policies]\ncache = \"kept\"\n[queues.orders]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ http = \"{}\" }}\npolicy = \"orders.wat\"\n",
        world.queues.endpoint, world.queues.url, world.queues.dead_letters, worker.url
    );
    std::fs::write(world.path("backstop.toml"), config).unwrap();
    let config = world.path("backstop.toml");
    let config = config.to_str().unwrap();
    let run = ["run", "--json", "--config", config, "--grace", "2s"];
    let host = Running::start_command(world.plain(&run)).await;
    std::fs::write(&policy, waits(120_000)).unwrap();
    host.logged("a new version of the policy is active").await;

    let triage = async |config: &str| {
        let triage = ["dlq", "triage", "orders", "--config", config];
        let output = world.plain(&[&triage[..], &["--json"]].concat()).output();
        let judged = crate::world::succeeded(&output.await.unwrap());
        let judged: Value = serde_json::from_str(&judged).unwrap();
        let delay = judged["queues"][0]["groups"][0]["shortest-delay"].clone();
        let text = world.plain(&triage).output().await.unwrap();
        (
            judged["hosts"].clone(),
            delay,
            crate::world::succeeded(&text),
        )
    };
    let (hosts, delay, text) = triage(config).await;
    assert_eq!((hosts, delay), (json!(1), json!(120_000)));
    assert!(text.contains("active on 1 host\n"), "{text}");

    let roll_back = ["policy", "rollback", "orders", "--config", config];
    let output = world.plain(&roll_back).output().await.unwrap();
    crate::world::succeeded(&output);
    let (hosts, delay, text) = triage(config).await;
    assert_eq!((hosts, delay), (json!(1), json!(60_000)), "{text}");
    let expected = "active on 1 host; its source has another version now, or none";
    assert!(text.contains(expected), "{text}");

    // A queue of the same name in another environment is another one.
    let production = std::fs::read_to_string(config).unwrap();
    let other = format!("url = \"{}\"", world.queues.dead_letters);
    let production = production.replace(&format!("url = \"{}\"", world.queues.url), &other);
    std::fs::write(world.path("production.toml"), production).unwrap();
    let path = world.path("production.toml");
    let (hosts, delay, _) = triage(path.to_str().unwrap()).await;
    assert_eq!((hosts, delay), (json!(0), json!(120_000)));

    // Without a host, the source counts.
    host.stop().await;
    let (hosts, delay, text) = triage(config).await;
    assert_eq!((hosts, delay), (json!(0), json!(120_000)), "{text}");
}
