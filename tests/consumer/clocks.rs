//! A host whose clock differs from that of SQS: real processes, and a proxy that answers with other times.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{read_records, serve};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::proxy::{Fault, Proxy};
use backstop_tests::worker::Worker;
use tokio::time::Instant;

const DAYS: i64 = 86_400;

#[tokio::test]
async fn a_host_whose_clock_is_wrong_is_neither_late_nor_gives_up_fresh_messages() {
    // Three days ahead of SQS, as after a step, and two hours behind it.
    for shift in [-3 * DAYS, 7_200] {
        let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "5")]).await;
        let proxy = Proxy::start(&queues.endpoint, move |_, _| Fault::Shifted(shift)).await;
        let worker =
            Worker::answering(|attempt| if attempt.receive_count <= 2 { 503 } else { 200 }).await;
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        let began = Instant::now();
        let running = serve(
            &queues.behind(&proxy.endpoint),
            &worker,
            &[
                "--policy",
                "linear",
                "--set",
                "base=1s",
                "--hold",
                "resend",
                "--max-age",
                "1h",
                "--decisions",
                records.to_str().unwrap(),
            ],
        )
        .await;
        queues.send(["1".to_owned()]).await;
        eventually("it has succeeded", || async {
            worker.attempts().len() == 3 && queues.held().await == 0
        })
        .await;
        let log = running.log();
        assert!(began.elapsed() < Duration::from_secs(20), "{log}");
        running.stop().await;
        assert_eq!(queues.dead().await, 0, "{shift}: {log}");
        for record in read_records(&records) {
            let age = record["failure"]["age"].as_u64();
            let age = age.unwrap_or_else(|| panic!("{record}"));
            assert!(age < 20_000, "{shift}: {record}");
        }
    }
}
