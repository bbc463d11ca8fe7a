//! Decision records as a host writes them, of failures of every kind.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use backstop_core::decision::{Bounds, Reach};
use backstop_core::failure::{Error, Failure, Milliseconds, Timestamp, random};
use backstop_decider::{Decider, Journey};
use backstop_engine::Payload;
use backstop_host::assembly::Assembly;
use backstop_host::config::Config;
use backstop_records::Recorder;

/// The most attempts that the queues allow: this bound ends later ones.
pub const MOST_ATTEMPTS: u32 = 10;

/// Codes, statuses, and what the services ask for, in seconds.
const ERRORS: [(&str, Option<u16>, Option<u32>); 7] = [
    ("HTTP 503", Some(503), None),
    ("ThrottlingException", None, Some(90)),
    ("ECONNRESET", None, None),
    ("HTTP 429", Some(429), None),
    ("HTTP 404", Some(404), None),
    ("exit 65", None, None),
    ("CardError", None, None),
];

/// One of the failures: attempts 1 to 12, with and without a delay before, of different errors.
pub fn failure(queue: &str, number: u32) -> Failure {
    let attempt = NonZeroU32::MIN.saturating_add(number % 12);
    let message_id = format!("{queue}-{}", number / 12);
    let (code, status, retry_after) = ERRORS[number as usize % ERRORS.len()];
    let previous = number * 7_919 % 400_000;
    Failure {
        random: random(&message_id, attempt),
        source: format!("arn:aws:sqs:eu-west-1:123456789012:{queue}"),
        attempt,
        age: Milliseconds(number % 12 * 60_000 + number % 977),
        failed_at: Timestamp(1_767_225_600_000 + u64::from(number) * 1_234),
        previous_delay: (attempt.get() > 1).then_some(Milliseconds(previous)),
        error: Error::new(code, "as told: é, \"quoted\"\nand more")
            .status(status)
            .retry_after(retry_after.map(|seconds| Milliseconds(seconds * 1_000)))
            .details([("request-id", format!("r-{number}"))]),
        attributes: vec![("tenant".to_owned(), format!("t-{}", number % 5))],
        message_id,
    }
}

/// The body of a message: two in three have a tenant.
fn body(number: u32) -> String {
    match number % 3 {
        0 => r#"{"order": 1}"#.to_owned(),
        rest => format!(r#"{{"tenant": "t-{rest}", "order": {{"total": {number}.5}}}}"#),
    }
}

/// Decides on this many failures of each queue of a configuration, and appends the records to a file. One delay in ten is cut to the queue's limit.
pub fn write(config: &Path, failures: u32, records: &Path) {
    let config = Config::read(config).unwrap();
    let assembly = Assembly::for_check(&config).unwrap();
    let recorder = Recorder::to_file(records).unwrap();
    for queue in config.queues {
        let policy = assembly.load(&queue.decider.policy).unwrap();
        let bounds = Bounds {
            max_attempts: NonZeroU32::new(MOST_ATTEMPTS + 1),
            ..Bounds::default()
        };
        let decider =
            Decider::new(&queue.name, policy, bounds).observed_by(Arc::clone(&recorder) as _);
        for number in 0..failures {
            let longest = Milliseconds(if number % 10 == 9 { 1_000 } else { 43_140_000 });
            let failure = failure(&queue.name, number);
            let journey = Journey::direct(Reach::visibility(longest, failure.age));
            let payload = Arc::new(Payload::new(body(number)));
            decider.decide_now(&failure, &payload, journey);
        }
        // The recorder's buffer limits how many records may wait to be written.
        recorder.flush(Duration::from_secs(60));
    }
}
