//! The flags of `backstop policy replay`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use backstop_core::settings::parse_pair;
use backstop_files::values::parse_number;
use clap::{ArgGroup, Parser};

use crate::policy::charts::Charts;

const EXAMPLES: &str = "\
Examples:
  Which decisions a new policy would change, with a chart of the delays:
    backstop policy replay decisions.jsonl --policy ./mine.wasm --svg delays.svg

  The same policy with another setting:
    backstop policy replay decisions.jsonl --policy full-jitter --set base=5s --set cap=15m

  A changed configuration: each queue's policy with the records of that queue, or of one queue only:
    backstop policy replay decisions.jsonl --config backstop.toml
    backstop policy replay decisions.jsonl --config backstop.toml --queue orders

  In CI, where at most one decision in a hundred may change:
    backstop policy replay d.jsonl --policy ./mine --against oci://ghcr.io/acme/mine:1 --allow 1%

  Compressed records:
    backstop policy replay decisions-*.gz --policy ./mine.wasm

Exits with 0 if no decision differs (or no more than --allow), with 8 if one does, and with 1 if no record could be compared. `backstop run --decisions FILE` writes records. host/docs/replay.md explains how they are compared";

/// Replay recorded decisions to see what another policy would have decided
///
/// Each recorded failure is passed to the policy with the same inputs as when it was decided: the same random number, the same parts of the payload and, without --set, the same settings. The answer is compared with the recorded one, or with the answer of another policy (--against): class, verdict, reason, and delay to the millisecond. Replaying the policy that made the records gives the same decisions on any machine.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["policy", "config"])))]
pub(crate) struct Args {
    /// Files with decision records, or - for standard input
    #[arg(required = true, value_name = "RECORDS")]
    pub(super) records: Vec<PathBuf>,

    /// The policy to replay: a built-in, the path of a .wasm or .wat file, a policy's folder (built first if it changed), s3://bucket/key or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL")]
    pub(super) policy: Option<String>,

    /// Replay the policies of the queues in this configuration, with their settings [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// A setting of the policy, such as base=2s; replaces all recorded settings; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "config")]
    pub(super) settings: Vec<(String, String)>,

    /// Compare with this policy instead of the recorded decisions; it gets the recorded settings
    #[arg(long, value_name = "NAME|PATH|URL")]
    pub(super) against: Option<String>,

    /// Replay only the records of this queue
    #[arg(long, value_name = "NAME")]
    pub(super) queue: Option<String>,

    /// How many samples to show for each kind of difference
    #[arg(long, value_name = "N", default_value = "3", value_parser = parse_number::<usize>)]
    pub(super) samples: usize,

    /// The share of compared records that may differ, such as 1%. A record on which the policy newly breaks is never allowed
    #[arg(long, value_name = "PERCENT", default_value = "0%")]
    pub(super) allow: Share,

    #[command(flatten)]
    pub(super) charts: Charts,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The share of decisions that may differ, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Share(f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse().ok());
        match percent {
            Some(percent) if (0.0..=100.0).contains(&percent) => Ok(Self(percent)),
            _ => Err("expected a percentage from 0% to 100%, such as 1% or 0.5%".to_owned()),
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Share {
    /// Whether `part` of `total` is no more than this share.
    #[expect(clippy::cast_precision_loss, reason = "counts of lines of files")]
    pub(super) fn covers(self, part: usize, total: usize) -> bool {
        part as f64 * 100.0 <= self.0 * total as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_covers_parts_up_to_it() {
        for (share, part, total, expected) in [
            ("0%", 0, 10, true),
            ("0%", 1, 1_000_000, false),
            ("1%", 10, 1_000, true),
            ("1%", 11, 1_000, false),
            ("0.5 %", 5, 1_000, true),
            ("100%", 7, 7, true),
        ] {
            let found = share.parse::<Share>().unwrap().covers(part, total);
            assert_eq!(found, expected, "{part} of {total}");
        }
        for invalid in ["1", "-1%", "101%", "NaN%", "%"] {
            assert!(invalid.parse::<Share>().is_err(), "{invalid}");
        }
    }
}
