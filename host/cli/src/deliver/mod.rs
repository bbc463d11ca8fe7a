//! `backstop deliver`: lines delivered to SQS, DynamoDB or Firehose, with only the failed entries sent again.
//!
//! `lines` reads the input, `source` turns its lines into entries, `work` is the loop, `undelivered` is the file of what is left, and `checkpoint` is what a killed delivery goes on from, if `read_hash` says that its file is the same. `sqs`, `dynamodb` and `firehose` know the formats of the lines.

mod attribute_value;
mod checkpoint;
mod dynamodb;
mod firehose;
mod lines;
mod read_hash;
mod retries;
mod source;
mod sqs;
mod summary;
mod undelivered;
mod work;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use backstop_core::settings::parse_pair;
use backstop_files::values::parse_number;
use backstop_queue::Connections;
use clap::{Parser, Subcommand, ValueEnum};

use crate::error::Result;
use crate::policy::policy_help;

/// Deliver JSON lines to a queue, a table or a stream in batches, and send only the failed entries again
///
/// Entries are sent in full batches, several requests at a time. A policy decides when a failed entry is sent again; nothing else waits for it. What can't be delivered is written to a file in the format of the input, which can be delivered again.
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(subcommand)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Service {
    Sqs(Box<sqs::Args>),
    Dynamodb(Box<dynamodb::Args>),
    Firehose(Box<firehose::Args>),
}

impl Service {
    fn shared(&self) -> &Shared {
        match self {
            Self::Sqs(args) => &args.shared,
            Self::Dynamodb(args) => &args.shared,
            Self::Firehose(args) => &args.shared,
        }
    }
}

/// The flags of every service.
#[derive(Debug, Parser)]
struct Shared {
    /// The input, one entry in each line that is not blank; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    input: PathBuf,

    /// The file for what can't be delivered, in the format of the input. It must be empty or missing at the start
    #[arg(long, value_name = "FILE", default_value = "undelivered.jsonl")]
    undelivered: PathBuf,

    #[arg(long, value_name = "NAME|PATH|URL", help = policy_help("The policy for failed entries", "", " [default: full-jitter with base=100ms, cap=20s and max-age=15m]"))]
    policy: Option<String>,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// The most requests in flight
    #[arg(long, value_name = "COUNT", default_value = "16", value_parser = parse_number::<NonZeroUsize>)]
    requests: NonZeroUsize,

    /// What happens to the later entries of a message group or key when one is undelivered: stop leaves them undelivered too, in order; continue sends them
    #[arg(long, value_name = "RULE", value_enum, default_value = "stop")]
    after_failure: AfterFailure,

    /// Use this endpoint in place of the region's own
    #[arg(long, value_name = "URL", value_parser = backstop_host::config::parse_endpoint)]
    endpoint_url: Option<String>,

    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum AfterFailure {
    Stop,
    Continue,
}

impl From<AfterFailure> for backstop_deliver::AfterFailure {
    fn from(rule: AfterFailure) -> Self {
        match rule {
            AfterFailure::Stop => Self::StopGroup,
            AfterFailure::Continue => Self::GoOn,
        }
    }
}

/// The entry in a line.
type Parse<E> = dyn Fn(&[u8]) -> Result<E, String> + Send + Sync;

/// How the lines of the input become entries.
struct Format<E> {
    /// What a line is, in the plural.
    lines: String,
    /// The entry in a line that is not blank. The error says what is wrong with the line.
    parse: Box<Parse<E>>,
    /// The line to write for an undelivered entry, if it is not the one of the input.
    line: fn(&[u8], &E) -> Option<String>,
}

impl<E> Format<E> {
    /// Undelivered entries are written as their lines were.
    fn new(
        lines: impl Into<String>,
        parse: impl Fn(&[u8]) -> Result<E, String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            lines: lines.into(),
            parse: Box::new(parse),
            line: |_, _| None,
        }
    }
}

/// The text of a line, without the carriage return at its end.
fn text(line: &[u8]) -> Result<&str, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    str::from_utf8(line).map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to() + 1))
}

pub(super) async fn run(args: Args) -> Result<()> {
    lines::Input::check(&args.service.shared().input)?;
    // In a task of its own: the main thread would be woken for each request that ends.
    let delivery = tokio::spawn(async {
        match args.service {
            Service::Sqs(args) => sqs::run(*args).await,
            Service::Dynamodb(args) => dynamodb::run(*args).await,
            Service::Firehose(args) => firehose::run(*args).await,
        }
    });
    delivery.await?
}

/// The SDK's configuration.
async fn sdk(shared: &Shared) -> aws_config::SdkConfig {
    let connections = Connections::new(shared.endpoint_url.clone());
    connections.sdk().await.clone()
}
