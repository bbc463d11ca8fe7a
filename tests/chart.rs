//! The chart in `examples/lambda`: when the retries of an event happen that always fails, as the policy itself says.
//!
//! `RENEW=1 cargo test --workspace --test chart` writes it again.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use backstop::decision::Action;
use backstop::failure::{Failure, Milliseconds, random};
use backstop::policy::{Limits, Payload, Policy, Sandbox};
use backstop_tests::failure;

/// As the example is deployed: template.yaml says the same.
const POLICY: &str = "full-jitter";
const SETTINGS: [(&str, &str); 2] = [("base", "30s"), ("cap", "6h")];
const ATTEMPTS: u32 = 12;

/// The chart has the number, too.
const EVENTS: usize = 2_000;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// When each attempt but the first is made, in milliseconds from the first failure. An attempt fails at once.
fn retries(policy: &Policy, id: &str, random: impl Fn(NonZeroU32) -> f64) -> Vec<u64> {
    let payload = Arc::new(Payload::new("{}"));
    let (mut now, mut previous_delay) = (0, None);
    let mut times = Vec::new();
    for attempt in (1..ATTEMPTS).filter_map(NonZeroU32::new) {
        let failure = Failure {
            message_id: id.to_owned(),
            attempt,
            age: Milliseconds(u32::try_from(now).unwrap()),
            previous_delay,
            random: random(attempt),
            ..failure("HTTP 503")
        };
        let Action::Retry { delay } = policy.ask(&failure, &payload).answer.unwrap().action else {
            panic!("no retry after attempt {attempt}");
        };
        now += u64::from(delay.0);
        previous_delay = Some(delay);
        times.push(now);
    }
    times
}

/// One attempt over all events: the 5th percentile of its times, the median and the 95th.
struct Row {
    attempt: u32,
    earliest: u64,
    median: u64,
    latest: u64,
}

fn rows(events: &[Vec<u64>]) -> Vec<Row> {
    (2..=ATTEMPTS)
        .zip(0..)
        .map(|(attempt, column)| {
            let at = |event: &Vec<u64>| *event.get(column).unwrap();
            let mut times: Vec<u64> = events.iter().map(at).collect();
            times.sort_unstable();
            let percentile = |percent| *times.get(times.len() * percent / 100).unwrap();
            Row {
                attempt,
                earliest: percentile(5),
                median: percentile(50),
                latest: percentile(95),
            }
        })
        .collect()
}

const STYLE: &str = "
  .card { fill: #ffffff } .grid { stroke: #d1d9e0 } text { fill: #59636e; font: 13px system-ui, sans-serif }
  .title { fill: #1f2328; font-size: 18px; font-weight: 600 } .strong { fill: #1f2328 } .end { text-anchor: end } .mid { text-anchor: middle }
  .bar { fill: #54aeff; fill-opacity: .45 } .dot { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117 } .grid { stroke: #2f353d } text { fill: #9198a1 }
    .title, .strong { fill: #f0f6fc } .bar { fill: #388bfd; fill-opacity: .5 } .dot { fill: #a5d6ff }
  }
";

/// The plot's edges, and the height of a row.
const LEFT: f64 = 104.0;
const RIGHT: f64 = 712.0;
const TOP: f64 = 116.0;
const ROW: f64 = 28.0;

/// The time axis, from a second to a day.
const AXIS: [(u64, &str); 7] = [
    (SECOND, "1 s"),
    (10 * SECOND, "10 s"),
    (MINUTE, "1 min"),
    (10 * MINUTE, "10 min"),
    (HOUR, "1 h"),
    (6 * HOUR, "6 h"),
    (24 * HOUR, "1 d"),
];

#[expect(clippy::cast_precision_loss, reason = "a place in a picture")]
fn x(time: u64) -> f64 {
    let seconds = (time.max(SECOND) as f64 / SECOND as f64).ln();
    LEFT + (RIGHT - LEFT) * seconds / 86_400_f64.ln()
}

fn drawn(rows: &[Row]) -> Result<String, std::fmt::Error> {
    let bottom = TOP + ROW * f64::from(ATTEMPTS - 1);
    let height = bottom + 78.0;
    let mut svg = String::new();
    let settings = SETTINGS.map(|(name, value)| format!("{name}={value}"));
    let settings = settings.join(", ");
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 820 {height}" role="img" aria-labelledby="title what">"#
    )?;
    writeln!(
        svg,
        r#"<title id="title">When an event that always fails is tried again</title>"#
    )?;
    writeln!(
        svg,
        r#"<desc id="what">For each attempt from the second to the twelfth at an event that always fails, the time since its first failure, on a logarithmic axis.</desc>"#
    )?;
    writeln!(svg, "<style>{STYLE}</style>")?;
    writeln!(
        svg,
        r#"<rect class="card" width="820" height="{height}" rx="8"/>"#
    )?;
    writeln!(
        svg,
        r#"<text class="title" x="32" y="42">When an event that always fails is tried again</text>"#
    )?;
    writeln!(
        svg,
        r#"<text x="32" y="66">{POLICY} with {settings}. Of 2,000 events, the bar holds nine in ten; the dot is the median.</text>"#
    )?;
    let heads = TOP - 14.0;
    writeln!(
        svg,
        r#"<text class="end" x="{}" y="{heads}">attempt</text>"#,
        LEFT - 20.0
    )?;
    writeln!(
        svg,
        r#"<text class="end" x="788" y="{heads}">median</text>"#
    )?;
    for (time, label) in AXIS {
        let x = x(time);
        writeln!(
            svg,
            r#"<path class="grid" d="M{x:.1} {TOP}V{bottom}"/><text class="mid" x="{x:.1}" y="{}">{label}</text>"#,
            bottom + 20.0
        )?;
    }
    for (row, number) in rows.iter().zip(0_u32..) {
        let middle = TOP + ROW * (f64::from(number) + 0.5);
        let (from, to) = (x(row.earliest), x(row.latest));
        writeln!(
            svg,
            r#"<text class="strong end" x="{}" y="{}">{}</text><rect class="bar" x="{from:.1}" y="{}" width="{:.1}" height="12" rx="6"/><circle class="dot" cx="{:.1}" cy="{middle}" r="5"/><text class="strong end" x="788" y="{}">{}</text>"#,
            LEFT - 20.0,
            middle + 4.5,
            row.attempt,
            middle - 6.0,
            to - from,
            x(row.median),
            middle + 4.5,
            rounded(row.median)
        )?;
    }
    writeln!(
        svg,
        r#"<text class="mid" x="{}" y="{}">time since the first attempt failed (logarithmic); what the function itself takes comes on top</text>"#,
        LEFT.midpoint(RIGHT),
        bottom + 50.0
    )?;
    writeln!(svg, "</svg>")?;
    Ok(svg)
}

#[expect(clippy::cast_precision_loss, reason = "hours for people")]
fn hours(time: u64) -> f64 {
    time as f64 / HOUR as f64
}

fn rounded(time: u64) -> String {
    match time {
        ..MINUTE => format!("{} s", (time + SECOND / 2) / SECOND),
        MINUTE..HOUR => format!("{} min", (time + MINUTE / 2) / MINUTE),
        _ => format!("{:.1} h", hours(time)),
    }
}

#[test]
fn the_chart_and_the_sentence_below_it_are_what_the_policy_says() {
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let policy = Policy::load(&sandbox, POLICY, &SETTINGS).unwrap();
    let event = |number: usize| {
        let id = format!("event-{number}");
        retries(&policy, &id, |attempt| random(&id, attempt))
    };
    let events: Vec<_> = (0..EVENTS).map(event).collect();
    let chart = drawn(&rows(&events)).unwrap();

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lambda");
    let path = folder.join("when-retries-happen.svg");
    if std::env::var_os("RENEW").is_some() {
        std::fs::write(&path, &chart).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == chart,
        "{} is not what the policy says now: RENEW=1 cargo test --workspace --test chart",
        path.display()
    );

    let last = |event: &Vec<u64>| hours(*event.last().unwrap());
    #[expect(clippy::cast_precision_loss, reason = "an average for people")]
    let average = events.iter().map(last).sum::<f64>() / EVENTS as f64;
    let most = last(&retries(&policy, "late", |_| 1.0 - f64::EPSILON / 2.0));
    let sentence = format!(
        "spread over about {average:.0} hours on average, and over about {most:.1} at most"
    );
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    assert!(
        readme.contains(&sentence),
        "examples/lambda/README.md does not say: {sentence}"
    );
    let template = std::fs::read_to_string(folder.join("template.yaml")).unwrap();
    let settings = SETTINGS.map(|(name, value)| format!("{name}={value}"));
    for default in [POLICY, &settings.join(","), &ATTEMPTS.to_string()] {
        assert!(
            template.contains(&format!("Default: {default}\n")),
            "examples/lambda/template.yaml has not: {default}"
        );
    }
}
