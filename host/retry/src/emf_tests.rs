#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::sync::Arc;
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_core::policy::Linear;

use super::*;
use crate::{Budget, Retrier, TestClock};

/// What was written, line by line.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output {
    fn lines(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

fn retrier(emf: Emf<Output>, clock: &TestClock) -> Retrier {
    let policy = Linear::default().base(Duration::from_secs(1));
    let retrier = Retrier::builder()
        .name("payments")
        .policy(policy.max_attempts(2));
    let budget = Budget::aws_2_1();
    retrier
        .budget(&budget)
        .observe(emf)
        .clock(clock.clone())
        .build()
        .unwrap()
}

#[test]
fn each_attempt_has_a_line_with_its_metrics() {
    let (output, clock) = (Output::default(), TestClock::new());
    let retrier = retrier(Emf::to(output.clone(), "Shop", "charge"), &clock);
    let fails = |_| async { Err::<(), _>(Error::new("HTTP 503", "busy\nand \u{1b}[31m")) };
    clock
        .block_on(retrier.run(fails).id("order-7"))
        .unwrap_err();
    clock
        .block_on(retrier.run(|_| async { Ok::<_, Error>(()) }))
        .unwrap();
    let lines = output.lines();
    let [first, second, success] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    let time = first["_aws"]["Timestamp"].as_u64().unwrap();
    assert_eq!(
        first,
        &json!({
            "_aws": {"Timestamp": time, "CloudWatchMetrics": [{
                "Namespace": "Shop",
                "Dimensions": [["service", "retrier"]],
                "Metrics": [
                    {"Name": "Failures", "Unit": "Count"},
                    {"Name": "Delay", "Unit": "Milliseconds"},
                    {"Name": "BudgetTokens", "Unit": "None"},
                ],
            }]},
            "service": "charge", "retrier": "payments",
            "Failures": 1, "Delay": 1_000, "BudgetTokens": 486.0,
            "attempt": 1, "id": "order-7", "code": "HTTP 503", "class": "transient",
            "level": "INFO", "timestamp": Timestamp(time).rfc3339(),
        })
    );
    let values = |line: &Value| {
        ["Failures", "Attempts", "GaveUp", "Succeeded", "Delay"].map(|name| line[name].as_u64())
    };
    assert_eq!(values(second), [Some(1), Some(2), Some(1), None, None]);
    assert_eq!(second["level"], "WARN");
    assert_eq!(values(success), [None, Some(1), None, Some(1), None]);
}

#[test]
fn successes_at_the_first_attempt_can_be_left_out() {
    let (output, clock) = (Output::default(), TestClock::new());
    let emf = Emf::to(output.clone(), "Shop", "charge").without_first_successes();
    let retrier = retrier(emf, &clock);
    clock
        .block_on(retrier.run(|_| async { Ok::<_, Error>(()) }))
        .unwrap();
    assert_eq!(output.lines(), [] as [Value; 0]);
    let second = |attempt: crate::Attempt| async move {
        if attempt.is_retry() {
            Ok(())
        } else {
            Err(Error::new("HTTP 503", "busy"))
        }
    };
    clock.block_on(retrier.run(second)).unwrap();
    assert_eq!(output.lines().len(), 2);
}

#[test]
fn a_line_stays_within_the_limits_of_cloudwatch_whatever_its_texts() {
    let (output, clock) = (Output::default(), TestClock::new());
    let retrier = retrier(Emf::to(output.clone(), " ", &"é".repeat(5_000)), &clock);
    let fails = |_| async { Err::<(), _>(Error::new("\"\n".repeat(100_000), "x".repeat(1 << 20))) };
    clock
        .block_on(retrier.run(fails).id("i".repeat(1 << 20)))
        .unwrap_err();
    let lines = output.lines();
    assert!(!lines.is_empty());
    for line in lines {
        assert!(line.to_string().len() < 64 << 10);
        assert_eq!(line["service"].as_str().unwrap().len(), NAME_BYTES);
        let directive = &line["_aws"]["CloudWatchMetrics"][0];
        assert_eq!(directive["Namespace"], "default");
        assert_eq!(directive["Dimensions"], json!([["service", "retrier"]]));
        let metrics = directive["Metrics"].as_array().unwrap();
        assert!((1..=100).contains(&metrics.len()));
        for metric in metrics {
            assert!(line[metric["Name"].as_str().unwrap()].is_number());
        }
    }
}
