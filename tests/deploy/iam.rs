//! The policy that `backstop doctor --iam` prints is enough for a host, and no action in it is one too many: a proxy in front of the emulator denies every action that is not in it, and notes those that the host asks for.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::idempotency::Records;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function, delete};
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::Worker;
use serde_json::Value;

/// The action of IAM for an operation, as far as they have different names: a batch needs the permission of its entries.
fn action(operation: &str) -> String {
    match operation {
        "Invoke" => "InvokeFunction".to_owned(),
        operation => operation.trim_end_matches("Batch").to_owned(),
    }
}

/// The actions of the policy for a configuration, without their services.
async fn allowed(config: &str) -> BTreeSet<String> {
    let printed = command(&["doctor", "--iam", "--config", config]).output();
    let printed = printed.await.unwrap();
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let policy: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let statements = policy["Statement"].as_array().unwrap().iter();
    let actions = statements.flat_map(|it| it["Action"].as_array().unwrap());
    actions
        .map(|it| it.as_str().unwrap().split_once(':').unwrap().1.to_owned())
        .collect()
}

#[tokio::test]
async fn a_host_needs_every_action_of_the_policy_and_no_other() {
    let endpoint = &ministack().endpoint;
    let (by_visibility, sent_again) = (
        Queues::standard(endpoint, &[]).await,
        Queues::standard(endpoint, &[]).await,
    );
    by_visibility.redrive_after(1000).await;
    let table = Records::create(endpoint).await.table;
    let worker = Worker::by_name().await;
    let function = format!("deploy-iam-{}", std::process::id());
    Function::python(FAILS_WHEN_TOLD)
        .make(endpoint, &function)
        .await;

    let permitted = Arc::new(Mutex::new(None::<BTreeSet<String>>));
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let (rules, noted) = (Arc::clone(&permitted), Arc::clone(&asked));
    let proxy = Proxy::start(endpoint, move |operation, _| {
        let rules = rules.lock().unwrap();
        let Some(rules) = rules.as_ref() else {
            return Fault::None;
        };
        let action = action(operation);
        let is_permitted = rules.contains(&action);
        noted.lock().unwrap().insert(action);
        if is_permitted {
            Fault::None
        } else {
            Fault::Denied
        }
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let configuration = format!(
        r#"
endpoint-url = "{}"

[queues.waits]
url = "{}"
handler = {{ http = "{}" }}
settings = {{ base = "10ms", cap = "1s" }}
max-attempts = 3
hold = "visibility"
grace = "2s"

[queues.again]
url = "{}"
dead-letter-queue = "{}"
handler = {{ lambda = "{function}" }}
settings = {{ base = "10ms", cap = "1s" }}
max-attempts = 2
hold = "resend"
grace = "2s"
idempotency = {{ table = "{table}", key = "/order" }}
"#,
        proxy.endpoint, by_visibility.url, worker.url, sent_again.url, sent_again.dead_letters,
    );
    std::fs::write(&path, configuration).unwrap();
    let config = path.to_str().unwrap();
    let allowed = allowed(config).await;
    *permitted.lock().unwrap() = Some(allowed.clone());

    let host = Running::start_command(command(&["run", "--json", "--config", config])).await;
    let bodies = |bodies: &[&str]| bodies.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    by_visibility
        .send(bodies(&["fine-1", "flaky-1", "wrong-1"]))
        .await;
    sent_again
        .send(bodies(&[
            r#"{"order": 1}"#,
            r#"{"order": 2, "fail": true}"#,
        ]))
        .await;
    eventually("two letters are dead, and all else is done", || async {
        worker.attempts_of("flaky-1") == 3
            && by_visibility.dead().await == 1
            && sent_again.dead().await == 1
    })
    .await;
    let log = host.log();
    let (code, _) = host.stop().await;
    delete(endpoint, &function).await;
    assert_eq!(code, 0, "{log}");
    assert_eq!(*asked.lock().unwrap(), allowed, "{log}");
    assert!(!log.contains("AccessDenied"), "{log}");
}

#[tokio::test]
async fn a_queue_that_can_not_be_read_is_named_since_its_dead_letter_queue_is_unknown() {
    let denied = Proxy::start(&ministack().endpoint, |_, _| Fault::Denied).await;
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/hidden";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("backstop.toml");
    let consumer = format!("[queues.hidden]\nurl = {url:?}\nhandler = {{ exec = [\"true\"] }}\n");
    let retry_handler = format!("[lambda]\nretry-queue = {url:?}\nfunctions = [\"orders\"]\n");
    for configuration in [consumer, retry_handler] {
        let configuration = format!("endpoint-url = {:?}\n{configuration}", denied.endpoint);
        std::fs::write(&path, configuration).unwrap();
        let printed = command(&["doctor", "--iam", "--config", path.to_str().unwrap()]).output();
        let printed = printed.await.unwrap();
        let warnings = text(&printed.stderr);
        assert!(printed.status.success(), "{warnings}");
        let begin = "warning: the permissions for a dead-letter queue are missing";
        assert!(
            warnings.starts_with(begin) && warnings.contains(url),
            "{warnings}"
        );
        let policy = text(&printed.stdout);
        assert!(
            policy.contains("arn:aws:sqs:eu-west-1:123456789012:hidden")
                && policy.contains("sqs:ReceiveMessage"),
            "{policy}"
        );
    }
}
