//! What a delivery did, for people and for programs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use backstop_core::failure::{Error, Milliseconds};
use backstop_core::text::one_line;
use backstop_deliver::Counts;
use serde_json::{Value, json};

use crate::terminal::{count, println, rate};

/// The most reasons that are counted separately. The others are counted together.
const MOST: usize = 20;

/// Why entries are undelivered: how many for each reason, and one of them as an example.
#[derive(Debug, Default)]
pub(super) struct Reasons(BTreeMap<(String, String), (u64, String)>);

impl Reasons {
    pub(super) fn add(&mut self, kind: &str, code: &str, sample: &str) {
        let key = (kind.to_owned(), code.to_owned());
        let key = if self.0.len() < MOST || self.0.contains_key(&key) {
            key
        } else {
            ("other".to_owned(), String::new())
        };
        let (count, _) = self.0.entry(key).or_insert_with(|| (0, sample.to_owned()));
        *count += 1;
    }

    pub(super) fn add_rest(&mut self, count: u64) {
        if count > 0 {
            let key = ("not-sent".to_owned(), String::new());
            self.0
                .insert(key, (count, "the delivery was stopped first".to_owned()));
        }
    }

    /// How many entries there are, with those of every reason.
    pub(super) fn total(&self) -> u64 {
        self.0.values().map(|(count, _)| count).sum()
    }
}

/// The result of the command, for programs.
pub(super) fn as_json(
    counts: Counts,
    reasons: &Reasons,
    took: Duration,
    file: &Path,
    stopped_by: Option<&Error>,
) -> Value {
    let reason = |((kind, code), (count, sample)): (&(String, String), &(u64, String))| json!({"reason": kind, "code": code, "count": count, "example": sample});
    let undelivered = reasons.total();
    let reasons: Vec<_> = reasons.0.iter().map(reason).collect();
    json!({
        "delivered": counts.delivered,
        "superseded": counts.superseded,
        "undelivered": undelivered,
        "possibly-twice": counts.possibly_twice,
        "requests": counts.requests,
        "retries": counts.retries,
        "bytes": counts.bytes,
        "seconds": took.as_secs_f64(),
        "reasons": reasons,
        "undelivered-file": (undelivered > 0).then_some(file),
        "stopped-by": stopped_by,
    })
}

/// The same for people.
pub(super) fn print(counts: Counts, reasons: &Reasons, took: Duration, file: &Path) {
    let time = Milliseconds::from_duration(took.max(Duration::from_millis(1)));
    println!(
        "{} delivered in {time} ({}/s), {} requests, {} retries",
        count(counts.delivered),
        count(rate(counts.delivered, took)),
        count(counts.requests),
        count(counts.retries),
    );
    if counts.superseded > 0 {
        println!("{} superseded by a later entry", count(counts.superseded));
    }
    if counts.possibly_twice > 0 {
        println!(
            "{} possibly delivered twice: the result of an earlier request is unknown",
            count(counts.possibly_twice)
        );
    }
    if reasons.total() > 0 {
        println!(
            "{} undelivered, in {}:",
            count(reasons.total()),
            one_line(&file.display().to_string())
        );
    }
    for ((kind, code), (entries, sample)) in &reasons.0 {
        let code = match code.as_str() {
            "" => String::new(),
            code => format!(" {code}"),
        };
        let reason = format!("{kind}{code}, such as {sample}");
        println!("{:>8}  {}", count(*entries), one_line(&reason));
    }
}
