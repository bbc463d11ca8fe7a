//! `backstop set`: changes the limits of a queue on running hosts.

use backstop_core::rate::Rate;
use clap::Parser;
use serde_json::{Map, Value};

use super::act;
use super::status::limits;
use crate::error::{Exit, Result};
use crate::hosts::HostArgs;

const EXAMPLES: &str = "\
Examples:
  The provider is slow today: no more than 50 messages a second, 10 at a time:
    backstop set orders rate=50/s max-in-flight=10

  No limit on the rate any more:
    backstop set orders rate=none

  No tenant gets more than 5 messages a second, 2 at a time (the configuration's limit-each says what a tenant is):
    backstop set orders each-rate=5/s each-max-in-flight=2

A change lasts until the host ends, or until the configuration is read again and has another value for that key. Each host has its own limits, so three hosts with rate=50/s receive up to 150 messages a second. `backstop status` shows the limits.";

/// Change a queue's limits on running hosts, until they end
///
/// It reaches all hosts of this machine that serve the queue, or those of --admin.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue, by its name in the configuration
    #[arg(value_name = "QUEUE")]
    queue: String,

    /// The limits: rate=50/s (or /m, /h, or none), max-in-flight=20, and for each key each-rate=5/s, each-max-in-flight=2 (or none)
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = limit)]
    limits: Vec<(String, Value)>,

    #[command(flatten)]
    hosts: HostArgs,
}

fn limit(text: &str) -> Result<(String, Value), String> {
    let expected = || {
        format!(
            "`{text}`: expected rate=50/s, max-in-flight=20, each-rate=5/s or each-max-in-flight=2; none for no limit"
        )
    };
    let (key, value) = text.split_once('=').ok_or_else(expected)?;
    let value = match key {
        "rate" | "each-rate" | "each-max-in-flight" if value == "none" => Value::from(value),
        "rate" | "each-rate" => {
            let checked = value.parse::<Rate>();
            checked.map_err(|error| format!("{error}, or none for no limit"))?;
            Value::from(value)
        }
        "max-in-flight" | "each-max-in-flight" => {
            Value::from(value.parse::<u64>().map_err(|_| expected())?)
        }
        _ => return Err(expected()),
    };
    Ok((key.to_owned(), value))
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let mut body = Map::from_iter([("queue".to_owned(), Value::from(&*args.queue))]);
    for (key, value) in &args.limits {
        if body.insert(key.clone(), value.clone()).is_some() {
            let text = format!("`{key}` is given twice: name each limit once");
            return Err(Exit::Usage.because(text));
        }
    }
    act(&args.hosts, &args.queue, "set", &body.into(), limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_key_and_a_value() {
        assert_eq!(limit("rate=50/s").unwrap().1, Value::from("50/s"));
        assert_eq!(limit("max-in-flight=20").unwrap().1, Value::from(20));
        assert_eq!(limit("each-rate=none").unwrap().1, Value::from("none"));
        assert_eq!(limit("each-max-in-flight=2").unwrap().1, Value::from(2));
        for invalid in [
            "rate",
            "rate=",
            "speed=5",
            "max-in-flight=many",
            "max-in-flight=-1",
            "max-in-flight=none",
            "each-max-in-flight=all",
            "",
        ] {
            assert!(limit(invalid).is_err(), "{invalid}");
        }
    }
}
