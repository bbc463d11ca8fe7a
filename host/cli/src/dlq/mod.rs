//! `backstop dlq`: what died on a queue, and what to do about it.
//!
//! Each command has a module of its own, with its flags (`Args`) and a `run`. The others hold what several commands share: which queue ([`queue`]), which of its letters ([`filters`]), how they are read ([`reading`]), and how text from letters is shown ([`shown`]).

pub(super) mod filters;
mod list;
pub(super) mod queue;
pub(super) mod reading;
mod show;
pub(super) mod shown;
mod time;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// List, show, judge and keep dead letters
///
/// The letters of Backstop, of SQS's own redrive policies, of Lambda's destinations and DeadLetterConfig, and of SNS. Reading a queue is receiving from it: letters are invisible to others while a command reads, and visible again when it ends, also after Ctrl-C. A queue whose own redrive policy could move letters because they are read is refused. host/docs/dead-letters.md explains more.
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(Box<list::Args>),
    Show(Box<show::Args>),
}

pub(super) async fn run(args: Args) -> Result<()> {
    match args.command {
        Command::List(args) => list::run(*args).await,
        Command::Show(args) => show::run(*args).await,
    }
}
