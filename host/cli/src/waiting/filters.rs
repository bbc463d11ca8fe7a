//! Which waiting messages a command concerns.

use std::num::NonZeroU32;

use backstop_core::failure::Timestamp;
use backstop_settle::waiting::Filter;
use clap::Parser;

use crate::dlq::filters::parse_text;
use crate::ids::{Kind, elsewhere};
use crate::time::parse_future;

/// Filters: a message has to match each kind that is given.
#[derive(Debug, Parser)]
pub(crate) struct FilterArgs {
    /// Messages that failed with this error code, such as "HTTP 503" or "HTTP 5*"; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = parse_text)]
    code: Vec<String>,

    /// Messages whose failure has this class: transient, throttled, permanent or one of the policy's own; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = parse_text)]
    class: Vec<String>,

    /// Messages with this number of failed attempts; may be repeated
    #[arg(long, value_name = "NUMBER")]
    attempt: Vec<NonZeroU32>,

    /// The message with this id; may be repeated
    #[arg(long, value_name = "MESSAGE-ID", value_parser = parse_id)]
    id: Vec<String>,

    /// Messages of this group, if the queue's configuration has group-by: this tenant, say; may be repeated
    #[arg(long, value_name = "VALUE", value_parser = parse_text)]
    group: Vec<String>,

    /// Messages that are due later than this: in a time such as 30m, or after one such as 2026-11-22T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_future)]
    due_after: Option<Timestamp>,
}

impl FilterArgs {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            code: self.code.clone(),
            class: self.class.clone(),
            attempt: self.attempt.clone(),
            id: self.id.clone(),
            group: self.group.clone(),
            due_after: self.due_after,
            failed_until: None,
        }
    }

    /// The parameters of `GET /v1/waiting`.
    pub(super) fn query(&self) -> Vec<(&'static str, String)> {
        let texts = |name: &'static str, texts: &[String]| {
            let texts = texts.iter().cloned();
            texts.map(|text| (name, text)).collect::<Vec<_>>()
        };
        let attempts = self.attempt.iter().map(|it| ("attempt", it.to_string()));
        let due = self
            .due_after
            .iter()
            .map(|it| ("due-after", it.0.to_string()));
        [
            texts("code", &self.code),
            texts("class", &self.class),
            texts("id", &self.id),
            texts("group", &self.group),
            attempts.chain(due).collect(),
        ]
        .concat()
    }
}

/// The id of a message: SQS's own, which no run, version or fingerprint has.
fn parse_id(text: &str) -> Result<String, String> {
    match elsewhere(text, &[Kind::Message]) {
        hint if hint.is_empty() => parse_text(text),
        hint => Err(format!("it is not the id of a message{hint}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_run_or_a_version_is_not_one_of_a_message() {
        for id in ["5fea7756-0ea4-451a-a703-a558b933e274", "m-1"] {
            assert_eq!(parse_id(id).as_deref(), Ok(id));
        }
        for (id, command) in [
            ("20261122-032140-f0a6", "dlq runs 20261122-032140-f0a6"),
            ("50c6a2162ddb", "--decided-by 50c6a2162ddb"),
        ] {
            assert!(parse_id(id).unwrap_err().contains(command), "{id}");
        }
        assert!(parse_id("").is_err());
    }
}
