//! The records of a program's retrier, read by `backstop policy replay`.

use std::path::Path;
use std::time::Duration;

use backstop_retry::{Budget, BudgetSettings, Error, FullJitter, Recorder, Retrier, TestClock};
use backstop_tests::backstop::{read_records, run, text};

/// Writes the records of a program: calls that end in each of the four ways.
fn write(path: &Path) {
    let clock = TestClock::new();
    let recorder = Recorder::to_file(path).unwrap();
    let policy = FullJitter::default()
        .base(Duration::from_millis(40))
        .cap(Duration::from_secs(2))
        .max_attempts(6);
    let small = BudgetSettings::AWS_2_0.capacity(30).floor_per_second(0.0);
    let retrier = |name: &str, budget| {
        let builder = Retrier::builder().name(name).policy(policy.clone()).seed(7);
        let builder = builder.clock(clock.clone()).record(&recorder);
        builder.budget(&budget).build().unwrap()
    };
    let plenty = small.capacity(100_000);
    let articles = retrier("articles", Budget::new("articles", plenty));
    let orders = retrier("orders", Budget::new("orders", small));
    for number in 0..40_u32 {
        let retrier = if number % 10 == 9 { &orders } else { &articles };
        let call = retrier.run(|attempt| async move {
            Err::<(), _>(match (number % 4, attempt.number()) {
                (0, 3) => Error::new("ValidationException", "no such field"),
                (1, _) => Error::new("ThrottlingException", "slow down"),
                _ => Error::new("HTTP 503", "busy"),
            })
        });
        let call = call.id(format!("{}-{number}", retrier.name()));
        let call = call.attribute("tenant", "t-1");
        let ended = match number % 5 {
            0 => clock.block_on(call.deadline(Duration::from_millis(100))),
            _ => clock.block_on(call),
        };
        ended.unwrap_err();
    }
    recorder.flush(Duration::from_secs(10));
}

#[tokio::test]
async fn the_component_decides_as_the_program_did() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.jsonl");
    write(&path);
    let records = read_records(&path);
    assert!(records.len() > 100, "{}", records.len());
    let ends = |end: &str| records.iter().filter(|it| it["end"] == end).count();
    for end in [
        "deadline-exceeded",
        "budget-exhausted",
        "permanent",
        "gave-up",
    ] {
        assert!(ends(end) > 0, "{end}");
    }
    let first = &records[0];
    assert_eq!(first["queue"], "articles");
    assert_eq!(first["failure"]["source"], "retrier:articles");
    assert_eq!(first["policy"][0]["name"], "full-jitter");

    let path = path.to_str().unwrap();
    let output = run(&["policy", "replay", path, "--policy", "full-jitter"]).await;
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}");
    let all = format!("{0} the same, none different", records.len());
    assert!(shown.contains(&all), "{shown}");

    // Another policy: the difference is found.
    let other = ["--policy", "equal-jitter", "--set", "base=40ms"];
    let arguments = [
        &["policy", "replay", path, "--queue", "articles"],
        &other[..],
    ]
    .concat();
    let output = run(&arguments).await;
    assert_eq!(output.status.code(), Some(8), "{}", text(&output.stdout));
}
