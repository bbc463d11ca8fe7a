//! The metrics of the retry handler on its standard output, in CloudWatch's embedded metric format.

use std::process::Stdio;
use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_core::clock;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::program;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::runtime_api::RuntimeApi;
use backstop_tests_host::mapping::{Mapping, as_lambda_does};
use backstop_tests_host::retries::record;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::time::timeout;

const FUNCTION: &str = "arn:aws:lambda:us-east-1:000000000000:function:orders";

/// The lines that CloudWatch makes metrics of, until one says that a batch of so many messages has ended.
async fn metrics(stdout: ChildStdout, received: u64) -> Vec<Value> {
    let mut lines = BufReader::new(stdout).lines();
    let (mut found, mut log) = (Vec::new(), String::new());
    loop {
        let line = timeout(Duration::from_secs(60), lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("a minute, and only this:\n{log}"));
        let line = line.unwrap().unwrap_or_else(|| panic!("its end:\n{log}"));
        log += &line;
        let Ok(line) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        if line.get("_aws").is_some() {
            found.push(line);
        }
        let all: u64 = found.iter().filter_map(|it| it["Received"].as_u64()).sum();
        let letters = found.iter().filter(|it| it.get("Class").is_some()).count();
        if all >= received && letters > 0 {
            return found;
        }
    }
}

#[tokio::test]
async fn a_batch_writes_its_metrics_for_cloudwatch_if_that_is_on() {
    for is_on in [true, false] {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "60")]).await;
        queues.redrive_after(1_000).await;
        let (folder, api) = (tempfile::tempdir().unwrap(), RuntimeApi::start().await);
        let mut command = Command::new(program("backstop-lambda"));
        let mut process = as_lambda_does(&mut command, folder.path(), &api)
            .env("AWS_ENDPOINT_URL", &queues.endpoint)
            .env("BACKSTOP_RETRY_QUEUE_URL", &queues.url)
            .env("BACKSTOP_SETTINGS", "base=1h,cap=1h")
            .env("BACKSTOP_METRICS", is_on.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let of =
            |id: &str, code: &str| record(FUNCTION, id, clock::now(), &json!({"order": id}), code);
        queues
            .send([
                of("r-0", "Upstream"),
                of("r-1", "Upstream"),
                of("r-2", "ValidationException"),
            ])
            .await;
        let mapping = Mapping::of(&queues).await;
        eventually("all are handed over", || async {
            mapping.hand_over(&api).await.is_none() && queues.dead().await == 1
        })
        .await;
        let stdout = process.stdout.take().unwrap();
        if !is_on {
            process.kill().await.unwrap();
            let mut lines = BufReader::new(stdout).lines();
            while let Some(line) = lines.next_line().await.unwrap() {
                assert!(!line.contains("_aws"), "{line}");
            }
            continue;
        }
        let lines = metrics(stdout, 3).await;
        let sum = |name: &str| -> u64 {
            let totals = lines.iter().filter(|line| line.get("Class").is_none());
            totals.filter_map(|line| line[name].as_u64()).sum()
        };
        assert_eq!(
            ["Received", "Waiting", "DeadLettered", "Fallbacks"].map(sum),
            [3, 2, 1, 0]
        );
        let values = |name: &str| -> Vec<f64> {
            let lists = lines.iter().filter_map(|line| line[name].as_array());
            lists.flatten().filter_map(Value::as_f64).collect()
        };
        assert_eq!(values("Attempts"), [1.0, 1.0, 1.0]);
        let delays = values("Delay");
        assert!(
            delays.len() == 2 && delays.iter().all(|it| *it <= 3_600.0),
            "{delays:?}"
        );
        assert!(values("Age").iter().all(|age| (0.0..60.0).contains(age)));
        let letter = lines
            .iter()
            .find(|line| line.get("Class").is_some())
            .unwrap();
        assert_eq!(
            (&letter["Class"], &letter["DeadLettered"]),
            (&json!("permanent"), &json!(1))
        );
        assert_eq!(letter["Version"].as_str().unwrap().len(), 12);
        let total = lines
            .iter()
            .find(|line| line.get("Policy").is_some())
            .unwrap();
        assert_eq!(total["Policy"], letter["Version"]);
        let name = queues.url.rsplit('/').next().unwrap();
        let of = |line: &Value| line["_aws"]["CloudWatchMetrics"][0].clone();
        for line in &lines {
            assert_eq!(
                (&line["Queue"], &of(line)["Namespace"]),
                (&json!(name), &json!("Backstop"))
            );
        }
    }
}
