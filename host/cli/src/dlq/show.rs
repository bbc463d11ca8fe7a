//! `backstop dlq show`: everything about some letters.

use std::collections::HashSet;
use std::io::IsTerminal;
use std::sync::Arc;

use backstop_core::clock;
use backstop_core::failure::{Timestamp, bounded_id};
use backstop_core::text::one_line;
use backstop_dead_letters::{Filters, Letter, read};
use backstop_queue::{Attribute, Queue};
use clap::Parser;
use tokio_util::sync::CancellationToken;

use super::letter;
use super::queue::QueueArgs;
use super::reading::{ReadingArgs, STOPPING, summary};
use crate::error::{Exit, Result};
use crate::ids::{Kind, elsewhere};
use crate::signals::stop_on_signal;
use crate::terminal::style::BOLD;
use crate::terminal::{output, println, readable};
use crate::time::ago;

const EXAMPLES: &str = "\
Examples:
  Everything about one letter:
    backstop dlq show orders 5fea7756-0ea4-451a-a703-a558b933e274

  Its body as it is, byte for byte:
    backstop dlq show orders 5fea7756-0ea4-451a-a703-a558b933e274 --raw > body.json

The id is the letter's own or that of its message: both are in the output of `backstop dlq list`, and logs and decision records have the second. `backstop why` shows the life of a message from decision records.

Exits with 1 if a letter is not found.";

/// Show everything about some dead letters
///
/// JSON bodies are laid out, with their own order and digits. Control characters are made visible.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    queue: QueueArgs,

    /// The ids of the letters, or of their messages
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Print the body alone, as it is; not on a terminal
    #[arg(long, conflicts_with = "json")]
    raw: bool,

    /// Print JSON, one object for each letter
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    reading: ReadingArgs,
}

pub(super) async fn run(args: Args) -> Result<()> {
    if args.raw && std::io::stdout().is_terminal() {
        return Err(Exit::Usage.because(
            "--raw writes the body as it is, which can control a terminal: redirect it to a file or a pipe",
        ));
    }
    let opened = args.queue.open().await?;
    let stop = stop_on_signal(STOPPING)?;
    let mut wanted: HashSet<_> = args.ids.iter().cloned().collect();
    let mut said = Vec::new();
    for queue in &opened.queues {
        if !wanted.is_empty() {
            said.push(find(&args, queue, &mut wanted, stop.child_token()).await?);
        }
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let missing: Vec<_> = wanted.iter().map(|id| one_line(id)).collect();
    let hint = wanted.iter().map(|id| elsewhere(id, &[Kind::Message]));
    let hint = hint.max_by_key(String::len).unwrap_or_default();
    Err(Exit::Unexpected.because(format!(
        "not found: {} ({}){hint}",
        missing.join(", "),
        said.join("; ")
    )))
}

/// Shows the wanted letters of a queue. Returns what was seen of it.
async fn find(
    args: &Args,
    queue: &Arc<dyn Queue>,
    wanted: &mut HashSet<String>,
    stop: CancellationToken,
) -> Result<String> {
    let seen = read(
        Arc::clone(queue),
        args.reading.options(),
        &stop,
        async |letter| {
            let filters = Filters {
                ids: Some(wanted.clone()),
                ..Filters::default()
            };
            if filters.matches(&letter) {
                wanted.remove(&letter.message.id);
                wanted.remove(&letter.original_id);
                wanted.remove(bounded_id(&letter.original_id).as_ref());
                print(args, &letter, queue.url());
            }
            if wanted.is_empty() {
                stop.cancel();
            }
        },
    );
    Ok(summary(&seen.await?, None))
}

fn print(args: &Args, letter: &Letter, queue: &str) {
    if args.raw {
        output::write_bytes(letter.message.body.as_bytes());
    } else if args.json {
        println!("{}", letter::as_json(letter, queue, true));
    } else {
        explain(letter, queue, clock::now());
    }
}

fn explain(letter: &Letter, queue: &str, now: Timestamp) {
    let message = &letter.message;
    let line = |name: &str, value: &str| println!("{name:<12} {}", one_line(value));
    let some = |name: &str, value: Option<String>| {
        line(name, value.as_deref().unwrap_or("unknown"));
    };
    let time = |time: Timestamp| format!("{} ({})", time.rfc3339(), ago(time, now));
    line("letter", &message.id);
    line("queue", queue);
    line("origin", letter.origin.as_str());
    some("from", letter.source.as_ref().map(ToString::to_string));
    line("message", &letter.original_id);
    some("reason", letter.reason.clone());
    some("error", letter.error.as_ref().map(ToString::to_string));
    some("class", letter.class.clone());
    some("policy", letter.policy.clone());
    some("attempt", letter.attempt.map(|it| it.to_string()));
    some("first sent", letter.first_sent.map(time));
    some("died", letter.dead_since.map(time));
    line("received", &format!("{} times", message.receive_count));
    if let Some(group) = &message.group {
        line("group", group);
    }
    line("fingerprint", &letter.fingerprint().to_string());
    line("size", &format!("{} bytes", message.size()));
    for (name, value) in &message.attributes {
        let kind = match value {
            Attribute::Text { data_type, .. } | Attribute::Binary { data_type, .. } => data_type,
        };
        println!(
            "{BOLD}{}{BOLD:#} ({}): {}",
            one_line(name),
            one_line(kind),
            one_line(&value.to_text())
        );
    }
    println!();
    println!("{}", readable(&message.body));
    println!();
}
