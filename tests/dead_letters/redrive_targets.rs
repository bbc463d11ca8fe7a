//! `backstop dlq redrive` to functions, through faults, and by SQS itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use backstop_tests::aws::Queues;
use backstop_tests::backstop::text;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::lambda::{Function, invoke, send_failures};
use backstop_tests::proxy::{ALL, Fault, Proxy};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::redrive::{command, letter, redrive, resume, runs};
use crate::world::{Given, World, failed, number, string};

/// A function that writes each event to a file, and fails while another file exists.
const WRITES: &str = r#"
def handle(event, id):
    with open(os.environ["LOG"], "a") as log: log.write(json.dumps(event) + "\n")
    if os.path.exists(os.environ["BROKEN"]): raise Failed("OutOfStock", "none left")
    return {"ok": True}
"#;

#[tokio::test]
async fn a_function_gets_its_events_again_as_they_were() {
    let endpoint = &ministack().endpoint;
    let world = World::standard(endpoint).await;
    let (log, broken) = (world.path("events"), world.path("broken"));
    std::fs::write(&broken, "").unwrap();
    let name = format!("redriven-{}", std::process::id());
    let function = Function::python(WRITES)
        .with("LOG", log.to_str().unwrap())
        .with("BROKEN", broken.to_str().unwrap());
    function.make(endpoint, &name).await;
    // Its failures go to the dead-letter queue.
    let dead = Queues {
        url: world.queues.dead_letters.clone(),
        ..world.queues.clone()
    };
    send_failures(endpoint, &name, &dead.arn().await).await;
    let event = json!({"order": 17, "note": "é \u{1f600}", "price": 1.5});
    invoke(endpoint, &name, &event).await;
    eventually("its record is there", || async {
        world.queues.dead().await == 1
    })
    .await;
    let events = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    assert_eq!(events(), std::slice::from_ref(&event));
    let dry = world.json("redrive", &["--dry-run"]).await;
    let targets: Vec<_> = dry["targets"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    assert!(
        targets.len() == 1 && targets[0].contains(&format!("function:{name}")),
        "{dry}"
    );
    std::fs::remove_file(&broken).unwrap();
    let (code, result) = redrive(&world, &[]).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(1)), "{result}");
    eventually("it runs again", || async { events().len() == 2 }).await;
    assert_eq!(events()[1], event);

    // What Lambda's DeadLetterConfig and SNS write does not name the function.
    let added = vec![
        ("RequestID".to_owned(), string("r-1")),
        ("ErrorCode".to_owned(), number(200)),
        ("ErrorMessage".to_owned(), string("none left")),
    ];
    let notification = json!({"Type": "Notification", "MessageId": "n-1", "TopicArn": "arn:aws:sns:us-east-1:000000000000:orders", "Message": "hello"});
    world
        .put(Given {
            body: r#"{"order": 18}"#,
            attributes: added.clone(),
            group: None,
        })
        .await;
    world
        .put(Given {
            body: &notification.to_string(),
            ..Given::default()
        })
        .await;
    let (code, errors) = failed(&command(&world, &[]).output().await.unwrap());
    assert!(
        code == 2 && errors.contains("2 letters do not say where they come from"),
        "{errors}"
    );
    let (code, result) = redrive(&world, &["--to", &format!("lambda:{name}")]).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(2)), "{result}");
    eventually("both run", || async { events().len() == 4 }).await;
    let last: BTreeSet<_> = events()[2..].iter().map(ToString::to_string).collect();
    let sns = json!({"Records": [{"EventSource": "aws:sns", "EventVersion": "1.0", "Sns": {"Type": "Notification", "MessageId": "n-1", "TopicArn": "arn:aws:sns:us-east-1:000000000000:orders", "Message": "hello", "Subject": null, "MessageAttributes": {}}}]});
    assert_eq!(
        last,
        [json!({"order": 18}).to_string(), sns.to_string()].into()
    );
    assert_eq!(world.queues.dead().await, 0);

    // To a queue they go as they are, without what Lambda has added.
    for (body, attributes) in [
        (notification.to_string(), Vec::new()),
        (r#"{"order": 18}"#.to_owned(), added),
    ] {
        let given = Given {
            body: &body,
            attributes,
            group: None,
        };
        world.put(given).await;
    }
    let (code, _) = redrive(&world, &["--to", &world.queues.url]).await;
    assert_eq!(code, 0);
    let left = world.queues.take_left().await;
    assert_eq!(left.len(), 2);
    for (body, message) in left {
        let body: Value = serde_json::from_str(&body).unwrap();
        assert!(body == notification || body == json!({"order": 18}));
        assert!(message.message_attributes.is_none_or(|it| it.is_empty()));
    }
}

#[tokio::test]
async fn a_letter_whose_body_is_no_event_is_refused() {
    let world = World::standard(&ministack().endpoint).await;
    world.put(letter("no JSON")).await;
    let (code, result) = redrive(&world, &["--to", "lambda:nobody"]).await;
    assert_eq!((code, result["refused"].as_u64()), (9, Some(1)), "{result}");
    world.put(letter("{}")).await;
    // The function does not exist: nothing can be sent to it.
    let output = command(&world, &["--to", "lambda:nobody"]).output().await;
    let (code, errors) = failed(&output.unwrap());
    assert_eq!(code, 5, "{errors}");
    assert!(
        errors.contains("lambda:nobody accepts no letters"),
        "{errors}"
    );
    assert_eq!(world.queues.dead().await, 2);
}

#[tokio::test]
async fn a_letter_that_lambda_refuses_stays_and_the_others_go_on() {
    let world = World::standard(&ministack().endpoint).await;
    let log = world.path("events");
    let name = format!("picky-{}", std::process::id());
    let function = Function::python(WRITES)
        .with("LOG", log.to_str().unwrap())
        .with("BROKEN", "/nowhere");
    function.make(&world.queues.endpoint, &name).await;
    for number in 0..3 {
        world
            .put(letter(&format!(r#"{{"number": {number}}}"#)))
            .await;
    }
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let proxy = Proxy::start(&world.queues.endpoint, move |operation, _| {
        let is_first = || refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        if operation == "Invoke" && is_first() {
            Fault::refused(413, "RequestTooLargeException")
        } else {
            Fault::None
        }
    })
    .await;
    let world = World {
        queues: world.queues.behind(&proxy.endpoint),
        folder: world.folder,
    };
    let (code, result) = redrive(&world, &["--to", &format!("lambda:{name}")]).await;
    let counts = ["moved", "refused", "uncertain"].map(|it| result[it].as_u64().unwrap());
    assert_eq!((code, counts), (9, [2, 1, 0]), "{result}");
    assert_eq!(world.queues.dead().await, 1);
    eventually("the others have arrived", || async {
        std::fs::read_to_string(&log).is_ok_and(|it| it.lines().count() == 2)
    })
    .await;
}

#[tokio::test]
async fn no_fault_of_the_network_loses_a_letter_or_sends_one_twice_unreported() {
    for fault in ALL {
        let world = World::standard(&ministack().endpoint).await;
        let mut ids = std::collections::HashMap::new();
        for number in 0..60 {
            let body = format!("{number:02}");
            ids.insert(world.put(letter(&body)).await, body);
        }
        let proxy = Proxy::start(&world.queues.endpoint, move |operation, number| {
            // Every fourth request, so that no batch meets the fault again and again.
            let is_hit = (number.wrapping_mul(2_654_435_761) >> 7).is_multiple_of(4);
            match operation {
                "SendMessageBatch" | "DeleteMessageBatch" if is_hit => fault,
                _ => Fault::None,
            }
        })
        .await;
        let world = World {
            queues: world.queues.behind(&proxy.endpoint),
            folder: world.folder,
        };
        let arguments = ["--to", &world.queues.url, "--visibility-timeout", "10s"];
        let (code, result) = redrive(&world, &arguments).await;
        assert_eq!(
            (code, result["outcome"].as_str()),
            (0, Some("done")),
            "{fault:?}: {result}"
        );
        assert_eq!(result["moved"].as_u64(), Some(60), "{fault:?}: {result}");
        let run = result["run"].as_str().unwrap();
        let detail = runs(&world, &[run]).await.remove(0);
        let uncertain: BTreeSet<_> = detail["uncertain-ids"]
            .as_array()
            .unwrap()
            .iter()
            .map(|id| &ids[id.as_str().unwrap()])
            .collect();
        let mut arrived = std::collections::BTreeMap::<String, usize>::new();
        while let Some(messages) = crate::redrive::receive(&world.queues).await {
            for message in messages {
                *arrived.entry(message.body.unwrap()).or_default() += 1;
            }
        }
        assert_eq!(arrived.len(), 60, "{fault:?}");
        for (body, count) in arrived.iter().filter(|(_, count)| **count > 1) {
            assert!(
                uncertain.contains(body),
                "{fault:?}: {body} arrived {count} times"
            );
        }
        assert_eq!(world.queues.dead().await, 0, "{fault:?}");
    }
}

#[tokio::test]
async fn a_target_that_denies_access_stops_the_run_and_keeps_the_letters() {
    let world = World::standard(&ministack().endpoint).await;
    for number in 0..20 {
        world.put(letter(&format!("{number:02}"))).await;
    }
    let denied = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let is_denied = Arc::clone(&denied);
    let proxy = Proxy::start(&world.queues.endpoint, move |operation, _| {
        let denied = is_denied.load(std::sync::atomic::Ordering::Relaxed);
        if operation == "SendMessageBatch" && denied {
            Fault::Denied
        } else {
            Fault::None
        }
    })
    .await;
    let world = World {
        queues: world.queues.behind(&proxy.endpoint),
        folder: world.folder,
    };
    let output = command(&world, &["--to", &world.queues.url]).output().await;
    let (code, errors) = failed(&output.unwrap());
    assert_eq!(code, 5);
    assert!(
        errors.contains("accepts no letters: SendMessageBatch failed: AccessDenied"),
        "{errors}"
    );
    let run = runs(&world, &[]).await.remove(0);
    let counts = ["moved", "uncertain", "refused", "in-doubt"].map(|it| run[it].as_u64().unwrap());
    assert_eq!(
        (&run["outcome"], counts),
        (&json!("failed"), [0; 4]),
        "{run}"
    );
    denied.store(false, std::sync::atomic::Ordering::Relaxed);
    let (code, result) = resume(&world, run["run"].as_str().unwrap()).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(20)), "{result}");
}

#[tokio::test]
async fn a_dead_letter_queue_with_a_redrive_policy_is_refused() {
    let world = World::standard(&ministack().endpoint).await;
    // The queue itself has one, and is named as if it had dead letters.
    world.queues.redrive_after(5).await;
    let state = world.path("runs");
    let arguments = [
        "dlq",
        "redrive",
        &world.queues.url,
        "--endpoint-url",
        &world.queues.endpoint,
        "--to",
        &world.queues.dead_letters,
        "--state",
        state.to_str().unwrap(),
    ];
    let (code, errors) = failed(&world.plain(&arguments).output().await.unwrap());
    assert_eq!(code, 5);
    assert!(
        errors.contains("has a redrive policy of its own"),
        "{errors}"
    );
}

/// What a fake SQS has been asked, and how many tasks it goes on with.
#[derive(Default)]
struct Asked {
    requests: Vec<(String, Value)>,
    cancelled: bool,
    endless: bool,
}

/// The part of SQS that moves messages itself. No emulator here has it.
async fn fake_sqs(asked: Arc<Mutex<Asked>>) -> String {
    async fn answer(
        State(asked): State<Arc<Mutex<Asked>>>,
        headers: HeaderMap,
        body: Bytes,
    ) -> (StatusCode, String) {
        let operation = headers["x-amz-target"]
            .to_str()
            .unwrap()
            .rsplit('.')
            .next()
            .unwrap()
            .to_owned();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let mut asked = asked.lock().unwrap();
        asked.requests.push((operation.clone(), body.clone()));
        let listed = asked
            .requests
            .iter()
            .filter(|it| it.0 == "ListMessageMoveTasks")
            .count();
        let answer = match operation.as_str() {
            "GetQueueAttributes" => {
                let name = body["QueueUrl"]
                    .as_str()
                    .unwrap()
                    .rsplit('/')
                    .next()
                    .unwrap()
                    .to_owned();
                json!({"Attributes": {"QueueArn": format!("arn:aws:sqs:us-east-1:000000000000:{name}")}})
            }
            "StartMessageMoveTask" => json!({"TaskHandle": "task-1"}),
            "CancelMessageMoveTask" => {
                asked.cancelled = true;
                json!({"ApproximateNumberOfMessagesMoved": 40})
            }
            _ if asked.cancelled => {
                json!({"Results": [{"Status": "CANCELLED", "ApproximateNumberOfMessagesMoved": 40}]})
            }
            _ if listed < 2 || asked.endless => {
                json!({"Results": [{"Status": "RUNNING", "TaskHandle": "task-1", "ApproximateNumberOfMessagesMoved": 40, "ApproximateNumberOfMessagesToMove": 90}]})
            }
            _ => {
                json!({"Results": [{"Status": "COMPLETED", "ApproximateNumberOfMessagesMoved": 90}]})
            }
        };
        (StatusCode::OK, answer.to_string())
    }
    let router = Router::new().fallback(answer).with_state(asked);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    endpoint
}

#[tokio::test]
async fn sqs_moves_the_letters_itself_if_it_is_asked_to() {
    let asked = Arc::<Mutex<Asked>>::default();
    let endpoint = fake_sqs(Arc::clone(&asked)).await;
    let mut world = World::standard(&ministack().endpoint).await;
    world.queues.endpoint = endpoint.clone();
    world.queues.dead_letters = format!("{endpoint}/000000000000/dead");
    let to = format!("{endpoint}/000000000000/orders");
    let arguments = [
        "--native",
        "--to",
        &to,
        "--rate",
        "100/s",
        "--why",
        "all of them",
    ];
    let (code, result) = redrive(&world, &arguments).await;
    assert_eq!((code, result["moved"].as_u64()), (0, Some(90)), "{result}");
    let start = |asked: &Asked| {
        let requests = asked.requests.iter();
        requests
            .filter(|it| it.0 == "StartMessageMoveTask")
            .map(|it| it.1.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        start(&asked.lock().unwrap()),
        [json!({
            "SourceArn": "arn:aws:sqs:us-east-1:000000000000:dead",
            "DestinationArn": "arn:aws:sqs:us-east-1:000000000000:orders",
            "MaxNumberOfMessagesPerSecond": 100,
        })]
    );
    let run = runs(&world, &[]).await.remove(0);
    assert_eq!(
        (run["moved"].as_u64(), &run["why"]),
        (Some(90), &json!("all of them"))
    );

    // Ctrl-C cancels the task.
    *asked.lock().unwrap() = Asked {
        endless: true,
        ..Asked::default()
    };
    let running = command(&world, &["--native"]).spawn().unwrap();
    eventually("it runs", || async {
        asked
            .lock()
            .unwrap()
            .requests
            .iter()
            .any(|it| it.0 == "ListMessageMoveTasks")
    })
    .await;
    let id = i32::try_from(running.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::INT).unwrap();
    let output = running.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(9), "{}", text(&output.stderr));
    let result: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert_eq!(
        (&result["outcome"], result["moved"].as_u64()),
        (&json!("interrupted"), Some(40))
    );
    assert!(asked.lock().unwrap().cancelled);
    let (code, errors) = failed(
        &command(&world, &["--native", "--rate", "501/s"])
            .output()
            .await
            .unwrap(),
    );
    assert!(
        code == 2 && errors.contains("from 1/s to 500/s"),
        "{errors}"
    );
}
