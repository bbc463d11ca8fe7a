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

/// The result of the command.
pub(super) struct Summary<'a> {
    pub(super) counts: Counts,
    pub(super) reasons: &'a Reasons,
    pub(super) took: Duration,
    pub(super) file: &'a Path,
    pub(super) stopped_by: Option<&'a Error>,
}

impl Summary<'_> {
    pub(super) fn print(&self, as_json: bool) {
        if as_json {
            println!("{}", self.json())
        } else {
            self.print_text()
        }
    }

    fn json(&self) -> Value {
        let reason = |((kind, code), (count, sample)): (&(String, String), &(u64, String))| json!({"reason": kind, "code": code, "count": count, "example": sample});
        let reasons: Vec<_> = self.reasons.0.iter().map(reason).collect();
        let undelivered = self.reasons.total();
        json!({
            "delivered": self.counts.delivered,
            "superseded": self.counts.superseded,
            "undelivered": undelivered,
            "possibly-twice": self.counts.possibly_twice,
            "requests": self.counts.requests,
            "retries": self.counts.retries,
            "bytes": self.counts.bytes,
            "seconds": self.took.as_secs_f64(),
            "reasons": reasons,
            "undelivered-file": (undelivered > 0).then_some(self.file),
            "stopped-by": self.stopped_by,
        })
    }

    fn print_text(&self) {
        let counts = self.counts;
        let took = Milliseconds::from_duration(self.took.max(Duration::from_millis(1)));
        println!(
            "{} delivered in {took} ({}/s), {} requests, {} retries",
            count(counts.delivered),
            count(rate(counts.delivered, self.took)),
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
        if self.reasons.total() > 0 {
            println!(
                "{} undelivered, in {}:",
                count(self.reasons.total()),
                one_line(&self.file.display().to_string())
            );
        }
        for ((kind, code), (entries, sample)) in &self.reasons.0 {
            let code = match code.as_str() {
                "" => String::new(),
                code => format!(" {code}"),
            };
            let reason = format!("{kind}{code}, such as {sample}");
            println!("{:>8}  {}", count(*entries), one_line(&reason));
        }
    }
}
