//! `backstop doctor`: finds problems with queues, functions and settings before they lose messages.

use std::sync::Arc;

use clap::Parser;
use clap::builder::Resettable;

use backstop_core::rate::Rate;
use backstop_core::text::one_line;
use backstop_host::config::{Config, LambdaFlags};
use backstop_host::doctor::{Finding, Given, Severity, Workload, examine};
use backstop_host::iam;
use backstop_queue::Connections;

use crate::error::{Exit, Result};
use crate::forecast;
use crate::hosts::default_config;
use crate::key_flags::of_one_queue;
use crate::run::{Args as RunArgs, config_of};
use crate::terminal::style::{CYAN, GREEN, RED, YELLOW};
use crate::terminal::{columns, eprintln, println, wrapped};

const EXAMPLES: &str = "\
Examples:
  Check everything in a configuration:
    backstop doctor --config backstop.toml

  Check one queue, with the flags of `backstop run`:
    backstop doctor --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \\
      --http http://127.0.0.1:8080/ --max-attempts 8

  Check a Lambda retry handler as it is deployed: its environment, its queues, its mapping and the functions that it retries:
    backstop doctor --function retry-handler

  The same from its queue, with functions whose failures go there:
    backstop doctor --retry-queue https://sqs.eu-west-1.amazonaws.com/123456789012/retries \\
      --function orders --function invoices

  See how many messages wait at once while 200 fail in each second, and how they are held:
    backstop doctor --config backstop.toml --rate 200/s

  Print the IAM policy that a configuration needs, for a role of its own:
    backstop doctor --config backstop.toml --iam > backstop-iam.json

For each queue, the policy is simulated as by `backstop policy simulate`, with messages that fail with HTTP 503 until they are given up. The rate times the mean of all delays of a message is the number that waits at once. host/docs/deploy/holding.md explains how messages wait.

It needs sqs:GetQueueUrl, sqs:GetQueueAttributes, lambda:ListEventSourceMappings, lambda:GetFunction, lambda:GetFunctionEventInvokeConfig and lambda:GetFunctionRecursionConfig; and for the queues of a consumer, the permissions of `backstop run`. It connects to HTTP handlers, but sends them nothing.

Exits with 0 if nothing is wrong, and with 6 if something is, or with --strict if there is a warning.";

/// The flags of one queue: a configuration file has its own keys for them. `--max-attempts` applies to the retry handler too.
fn only_for_queue() -> Vec<&'static str> {
    let flags = of_one_queue().into_iter();
    let own = flags.filter(|flag| *flag != "max-attempts");
    own.chain(["messages", "queue_url"]).collect()
}

/// Check queues, functions and settings for problems, without changing anything
///
/// Each finding describes what was checked and, if there is a problem, what to change: messages that SQS would drop while they are delayed, handlers that do not answer, functions whose retries Lambda would stop, records that an event source mapping would delete, retention periods that are too short, and more. It takes the flags of `backstop run`: replace `run` with `doctor`.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[group(skip)]
#[command(mut_group("what", |group| group.args(["retry_queue", "functions"]).multiple(true)))]
#[command(mut_arg("config", |arg| {
    arg.conflicts_with(Resettable::Reset)
        .conflicts_with_all(only_for_queue())
        .help("The configuration of a consumer, of a Lambda retry handler, or of both [default: backstop.toml, if it is in this folder]")
}))]
#[command(mut_arg("queue_url", |arg| arg.help("One queue, configured by flags: its URL, or local:NAME for a queue in memory")))]
#[command(mut_arg("max-attempts", |arg| arg.help("The maximum number of attempts, whatever the policy decides [default: the configuration's; 12 for the retry handler]")))]
#[command(mut_arg("json", |arg| arg.help("Print the findings as JSON, one object a line")))]
#[command(mut_arg("decisions", |arg| arg.hide(true)))]
#[command(mut_arg("metrics", |arg| arg.hide(true)))]
#[command(mut_arg("messages", |arg| arg.hide(true)))]
pub(super) struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// The retry queue of a Lambda retry handler [default: the configuration's]
    #[arg(long, value_name = "URL", conflicts_with_all = only_for_queue())]
    retry_queue: Option<String>,

    /// The retry handler, whose environment is checked with all that it names; or a function whose failures go to the retry queue. May be repeated [default: the configuration's]
    #[arg(
        long = "function",
        value_name = "NAME|ARN",
        conflicts_with = "queue_url"
    )]
    functions: Vec<String>,

    /// How many messages fail and keep failing, for each queue, such as 200/s, 50/m or 10/h: shows how many wait at once, and whether `hold` suffices
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// Exit with 6 for warnings too
    #[arg(long)]
    strict: bool,

    /// Check nothing: print the IAM policy with the permissions that the configuration needs, and no others. A queue that SQS does not show is known by its URL
    #[arg(long, conflicts_with_all = ["rate", "strict", "json"])]
    iam: bool,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let (json, strict, iam) = (args.run.json, args.strict, args.iam);
    let workload = Workload {
        rate: args.rate,
        simulate: forecast::waits,
    };
    let (config, given) = config(args)?;
    let connections = Arc::new(Connections::new(config.endpoint_url.clone()));
    if iam {
        let policy = iam::policy(&config, &connections).await?;
        println!("{}", policy.to_text()?.trim_end());
        for queue in policy.unseen() {
            eprintln!(
                "warning: the permissions for a dead-letter queue are missing, if the redrive policy of the queue names one, since it can't be read: {}. Name it in dead-letter-queue, or run this where the queue can be read",
                one_line(queue)
            );
        }
        return Ok(());
    }
    let findings = examine(&config, &given, &connections, workload).await;
    for finding in &findings {
        if json {
            println!("{}", serde_json::to_string(finding)?);
        } else {
            show(finding);
        }
    }
    let count = |severity| {
        findings
            .iter()
            .filter(|finding| finding.severity == severity)
            .count()
    };
    let (wrong, warnings) = (count(Severity::Wrong), count(Severity::Warning));
    if wrong > 0 {
        return Err(Exit::ProblemsFound.because(format!(
            "{} wrong: see above for what to change",
            of_all(wrong, findings.len())
        )));
    }
    if !json {
        let plural = if warnings == 1 { "" } else { "s" };
        println!(
            "\n{} good, {warnings} warning{plural}, {} unknown",
            count(Severity::Good),
            count(Severity::Unknown)
        );
    }
    if strict && warnings > 0 {
        return Err(Exit::ProblemsFound.because(format!(
            "{} warnings, which --strict does not allow: see above for what to change",
            of_all(warnings, findings.len())
        )));
    }
    Ok(())
}

/// `1 of 3 findings is`, before what it is.
fn of_all(count: usize, all: usize) -> String {
    let findings = if all == 1 { "finding" } else { "findings" };
    let are = if count == 1 { "is" } else { "are" };
    format!("{count} of {all} {findings} {are}")
}

/// The configuration, with the flags applied over the file, and where its values come from.
fn config(args: Args) -> Result<(Config, Given)> {
    let Args {
        run: flags,
        retry_queue,
        functions,
        ..
    } = args;
    if flags.queue_url.is_some() {
        return Ok((config_of(&flags)?, Given::default()));
    }
    let needs_file = retry_queue.is_none();
    let (max_attempts, endpoint_url) = (flags.max_attempts(), flags.endpoint_url());
    let given = Given {
        file: flags
            .config
            .or_else(|| default_config().filter(|_| needs_file)),
        flags: LambdaFlags {
            retry_queue,
            max_attempts,
            functions,
        },
    };
    let mut config = match &given.file {
        Some(path) if given.flags == LambdaFlags::default() => Config::read(path)?,
        path => Config::with_lambda(path.as_deref(), given.flags.clone())?,
    };
    config.endpoint_url = endpoint_url.or(config.endpoint_url);
    Ok((config, given))
}

fn show(finding: &Finding) {
    let (mark, style) = match finding.severity {
        Severity::Good => ("good     ", GREEN),
        Severity::Unknown => ("unknown  ", CYAN),
        Severity::Warning => ("warning  ", YELLOW),
        Severity::Wrong => ("wrong    ", RED),
    };
    let text = wrapped(&one_line(&finding.to_string()), mark.len() + 1, columns());
    println!("{style}{mark}{style:#} {text}");
}
