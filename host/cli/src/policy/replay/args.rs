//! The flags of `backstop policy replay`.

use std::path::PathBuf;

use backstop_core::settings::parse_pair;
use backstop_core::share::Share;
use backstop_files::values::parse_number;
use clap::{ArgGroup, Parser, ValueEnum};

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

  As a comment on a pull request (examples/operate/github-action posts it):
    backstop policy replay decisions.jsonl --policy ./mine --allow 100% --format github

  Compressed records:
    backstop policy replay decisions-*.gz --policy ./mine.wasm

Exits with 0 if no decision differs (or no more than --allow), with 8 if one does, and with 1 if no record could be compared. `backstop run --decisions FILE` writes records. host/docs/policies/replay.md explains how they are compared";

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
    json: bool,

    /// How to print the result
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    pub(super) format: Format,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For a terminal
    Text,
    /// As --json
    Json,
    /// Markdown for a comment on a pull request, with a chart that GitHub draws, and without samples, whose errors are not for everybody
    Github,
}

impl Args {
    /// Whether the result is JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }

    /// Whether the result is for a terminal.
    pub(super) fn is_for_people(&self) -> bool {
        !self.json && self.format == Format::Text
    }
}
