//! `backstop dlq`: what died on a queue, and what to do about it.
//!
//! Each command has a module of its own, with its flags (`Args`) and a `run`. The others hold what several commands share: which queue ([`queue`]), which of its letters ([`filters`]), how they are read ([`reading`]), and what is known of them as JSON ([`letter`]).

mod active;
mod archive;
pub(super) mod filters;
mod groups;
mod letter;
mod list;
pub(super) mod queue;
pub(super) mod reading;
mod redrive;
mod restore;
pub(super) mod runs;
mod s3;
mod show;
mod stop;
mod triage;

pub(super) use redrive::state::OwnRuns;

use clap::Parser;

use crate::commands::commands;
use crate::error::Result;

const EXAMPLES: &str = "\
The usual way, for the queue `orders` of backstop.toml:
  What died, and since when:
    backstop dlq list orders

  One of them, with its body:
    backstop dlq show orders 5fea7756-0ea4-451a-a703-a558b933e274

  What a corrected policy would do with them:
    backstop dlq triage orders --policy ./new.wasm --save ids.jsonl

  These back to where they come from, in steps that stop if they fail again:
    backstop dlq redrive orders --ids ids.jsonl --ramp 10,100,all --stop-at 5%

  They fail again: stop the run, whoever has started it:
    backstop dlq stop orders

  What can't succeed any more, out of the queue and into a file:
    backstop dlq archive orders --class permanent --to invalid.jsonl

There is no command that deletes letters without keeping them.";

/// List, show, triage, move back and keep dead letters
///
/// The letters of Backstop, of SQS's own redrive policies, of Lambda's destinations and DeadLetterConfig, and of SNS. Reading a queue is receiving from it: letters are invisible to others while a command reads, and visible again when it ends, also after Ctrl-C. A queue whose own redrive policy could move letters because they are read is refused. host/docs/operate/dead-letters.md explains more.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

commands! {
    List = asynchronous list;
    Show = asynchronous show;
    Triage = asynchronous triage;
    Redrive = asynchronous redrive;
    Stop = asynchronous stop;
    Runs = asynchronous runs;
    Archive = asynchronous archive;
    Restore = asynchronous restore;
}

/// Runs the command.
pub(super) async fn run(args: Args) -> Result<()> {
    args.command.run().await
}
