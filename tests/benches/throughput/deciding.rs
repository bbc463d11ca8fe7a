//! How many failures a second are decided, each in a fresh instance of its policy, with the decision record written to a file.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use backstop_core::clock;
use backstop_core::decision::Bounds;
use backstop_core::failure::{Error, Failure, Milliseconds, random};
use backstop_decider::Decider;
use backstop_engine::{Limits, Payload, Sandbox};
use backstop_records::Recorder;
use backstop_tests::process::processor_seconds;
use backstop_tests_host::any_delay;
use backstop_versions::{LivePolicy, PolicySpec, Source};
use futures_util::{StreamExt, stream};

const FAILURES: usize = 100_000;

/// Messages whose failures are decided at the same time.
const AT_ONCE: usize = 160;

/// Decides all of them. Prints the rate, and the microseconds of processor time for each.
pub(crate) fn run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.jsonl");
    let recorder = Recorder::to_file(&path).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = PolicySpec::from(Source::builtin("full-jitter"));
    let policy = LivePolicy::load(&sandbox, policy).unwrap();
    let decider = Decider::new("orders", policy, Bounds::default());
    let decider = decider.observed_by(Arc::clone(&recorder) as _);
    let started = clock::instant();
    crate::runtime().block_on(async {
        let decisions = stream::iter(0..FAILURES).map(|number| {
            let decider = decider.clone();
            // A task for each, as a consumer has.
            tokio::spawn(async move {
                let body: Arc<str> = r#"{"order": 7, "customer": "c-1"}"#.into();
                let payload = Arc::new(Payload::new(body));
                let failure = Arc::new(failure(number));
                decider.decide(&failure, payload, any_delay()).await
            })
        });
        let mut decisions = decisions.buffer_unordered(AT_ONCE);
        while let Some(decided) = decisions.next().await {
            let _ = decided.unwrap();
        }
    });
    let took = started.elapsed();
    drop((decider, recorder));
    let processor = processor_seconds(std::process::id());
    let records = BufReader::new(std::fs::File::open(&path).unwrap())
        .lines()
        .count();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let (rate, each) = (
        FAILURES as f64 / took.as_secs_f64(),
        processor * 1e6 / FAILURES as f64,
    );
    assert_eq!(records, FAILURES, "not all decisions are recorded");
    println!("{rate:.0} {each:.1}");
}

fn failure(number: usize) -> Failure {
    let message_id = format!("m-{number}");
    let attempt = std::num::NonZeroU32::MIN;
    Failure {
        random: random(&message_id, attempt),
        message_id,
        source: "arn:aws:sqs:eu-west-1:123456789012:orders".to_owned(),
        attempt,
        failed_at: clock::now(),
        age: Milliseconds(3_000),
        previous_delay: None,
        error: Error::new("ECONNRESET", "connection reset by peer"),
        attributes: vec![("tenant".to_owned(), "a".to_owned())],
    }
}
