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

    /// The limits: rate=50/s (or /m, /h, or none), max-in-flight=20
    #[arg(value_name = "KEY=VALUE", required = true, value_parser = limit)]
    limits: Vec<(String, Value)>,

    #[command(flatten)]
    hosts: HostArgs,
}

fn limit(text: &str) -> Result<(String, Value), String> {
    let expected = || format!("`{text}`: expected rate=50/s, rate=none or max-in-flight=20");
    let (key, value) = text.split_once('=').ok_or_else(expected)?;
    let value = match key {
        "rate" => {
            if value != "none" {
                let checked = value.parse::<Rate>();
                checked.map_err(|error| format!("{error}, or none for no limit"))?;
            }
            Value::from(value)
        }
        "max-in-flight" => Value::from(value.parse::<u64>().map_err(|_| expected())?),
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
        for invalid in [
            "rate",
            "rate=",
            "speed=5",
            "max-in-flight=many",
            "max-in-flight=-1",
            "",
        ] {
            assert!(limit(invalid).is_err(), "{invalid}");
        }
    }
}
