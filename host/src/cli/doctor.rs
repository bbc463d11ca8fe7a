//! `backstop doctor`: what will not work out, told before it does not.

use std::path::PathBuf;
use std::sync::Arc;

use anstream::println;
use anstyle::{AnsiColor, Style};
use clap::{ArgGroup, Parser};

use crate::config::Config;
use crate::doctor::{Finding, Verdict, examine};
use crate::queue::Connections;
use crate::text::one_line;

const EXAMPLES: &str = "\
Examples:
  Look at everything that a configuration names:
    backstop doctor --config backstop.toml

  Look at a Lambda retry handler, from its queue to the functions that it retries:
    backstop doctor --retry-queue https://sqs.eu-west-1.amazonaws.com/123456789012/retries \\
      --function orders --function invoices

It takes sqs:GetQueueUrl, sqs:GetQueueAttributes, lambda:ListEventSourceMappings, lambda:GetFunction, lambda:GetFunctionEventInvokeConfig and lambda:GetFunctionRecursionConfig; for the consumer's queues, what `backstop run` takes.

Ends with 0 where nothing is wrong, and with 6 where something is.";

/// Look at queues, functions and settings for what will not work out; change nothing
///
/// Each finding says what was found and, where it is not good, what to change: messages that SQS gives up while they wait, functions that Lambda cuts off, records that a mapping would delete, retentions that are too short, and more.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["config", "retry_queue"])))]
pub(super) struct Args {
    /// The configuration: of the consumer's queues, of a Lambda retry handler, or of both
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// The retry queue of a Lambda retry handler [default: the configuration's]
    #[arg(long, value_name = "URL")]
    retry_queue: Option<String>,

    /// A function whose failures come to the retry queue; may be repeated [default: the configuration's]
    #[arg(long = "function", value_name = "NAME|ARN")]
    functions: Vec<String>,

    /// No event has more attempts [default: the configuration's, or 12]
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,

    /// SQS and Lambda at this URL in place of the region's own
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,

    /// Print the findings as JSON, one object a line
    #[arg(long)]
    json: bool,
}

/// Something is wrong with what was looked at.
#[derive(Debug, thiserror::Error)]
#[error("{0} of {1} findings are wrong: see above for what to change")]
pub(super) struct Ill(usize, usize);

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let json = args.json;
    let config = config(args)?;
    let connections = Arc::new(Connections::new(config.endpoint_url.clone()));
    let findings = examine(&config, &connections).await;
    for finding in &findings {
        if json {
            println!("{}", serde_json::to_string(finding)?);
        } else {
            show(finding);
        }
    }
    let count = |verdict| {
        findings
            .iter()
            .filter(|finding| finding.verdict == verdict)
            .count()
    };
    if count(Verdict::Wrong) > 0 {
        return Err(Ill(count(Verdict::Wrong), findings.len()).into());
    }
    if !json {
        let (good, warnings) = (count(Verdict::Good), count(Verdict::Warning));
        println!(
            "\n{good} good, {warnings} to think about, {} unknown",
            count(Verdict::Unknown)
        );
    }
    Ok(())
}

/// What the file says, with what the flags say in its place.
fn config(args: Args) -> anyhow::Result<Config> {
    let variable = |name: &str| match name {
        "BACKSTOP_RETRY_QUEUE_URL" => args.retry_queue.clone(),
        "BACKSTOP_MAX_ATTEMPTS" => args.max_attempts.map(|most| most.to_string()),
        "BACKSTOP_FUNCTIONS" => (!args.functions.is_empty()).then(|| args.functions.join(",")),
        _ => None,
    };
    let has_lambda_flags =
        args.retry_queue.is_some() || args.max_attempts.is_some() || !args.functions.is_empty();
    let mut config = match &args.config {
        Some(path) if !has_lambda_flags => Config::read(path)?,
        path => Config::with_lambda(path.as_deref(), &variable)?,
    };
    config.endpoint_url = args.endpoint_url.or(config.endpoint_url);
    Ok(config)
}

fn show(finding: &Finding) {
    let colour = |colour: AnsiColor| Style::new().fg_color(Some(colour.into()));
    let (mark, style) = match finding.verdict {
        Verdict::Good => ("good     ", colour(AnsiColor::Green)),
        Verdict::Unknown => ("unknown  ", colour(AnsiColor::Cyan)),
        Verdict::Warning => ("warning  ", colour(AnsiColor::Yellow)),
        Verdict::Wrong => ("wrong    ", colour(AnsiColor::Red).bold()),
    };
    println!("{style}{mark}{style:#} {}", one_line(&finding.to_string()));
}
