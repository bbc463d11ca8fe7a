//! `backstop doctor`: what will not work out, told before it does not.

use std::sync::Arc;

use crate::output::println;
use anstyle::{AnsiColor, Style};
use clap::Parser;
use clap::builder::Resettable;

use backstop::config::Config;
use backstop::doctor::{Finding, Verdict, examine};
use backstop::queue::Connections;
use backstop_core::text::one_line;

const EXAMPLES: &str = "\
Examples:
  Look at everything that a configuration names:
    backstop doctor --config backstop.toml

  Look at one queue, with the flags that `backstop run` has for it:
    backstop doctor --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \\
      --http http://127.0.0.1:8080/ --max-attempts 8

  Look at a Lambda retry handler, from its queue to the functions that it retries:
    backstop doctor --retry-queue https://sqs.eu-west-1.amazonaws.com/123456789012/retries \\
      --function orders --function invoices

It takes sqs:GetQueueUrl, sqs:GetQueueAttributes, lambda:ListEventSourceMappings, lambda:GetFunction, lambda:GetFunctionEventInvokeConfig and lambda:GetFunctionRecursionConfig; for the consumer's queues, what `backstop run` takes. An HTTP handler is connected to and sent nothing.

Ends with 0 where nothing is wrong, and with 6 where something is; with --strict, where something is to think about, too.";

/// The flags of one queue, which a configuration file says in its own words.
const OF_ONE_QUEUE: [&str; 18] = [
    "policy",
    "settings",
    "scenarios",
    "shadow",
    "shadow_settings",
    "refresh",
    "require_signature",
    "plain_http",
    "http",
    "exec",
    "lambda",
    "dead_letter_queue",
    "max_age",
    "max_in_flight",
    "http_proxy",
    "allow_discard",
    "messages",
    "queue_url",
];

/// Look at queues, functions and settings for what will not work out; change nothing
///
/// Each finding says what was found and, where it is not good, what to change: messages that SQS gives up while they wait, handlers that do not answer, functions that Lambda cuts off, records that a mapping would delete, retentions that are too short, and more. The flags of `backstop run` are taken as they are: put `doctor` in the place of `run`.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[group(skip)]
#[command(mut_group("what", |group| group.arg("retry_queue")))]
#[command(mut_arg("config", |arg| {
    // Here, `--max-attempts` is that of the retry handler, too.
    arg.conflicts_with(Resettable::Reset)
        .conflicts_with_all(OF_ONE_QUEUE)
        .help("The configuration: of the consumer's queues, of a Lambda retry handler, or of both")
}))]
#[command(mut_arg("queue_url", |arg| arg.help("One queue of the consumer's, set by flags: its URL, or local:NAME for a queue in memory")))]
#[command(mut_arg("max_attempts", |arg| arg.help("No message or event has more attempts, whatever the policy says [default: the configuration's; 12 for the retry handler]")))]
#[command(mut_arg("json", |arg| arg.help("Print the findings as JSON, one object a line")))]
#[command(mut_arg("decisions", |arg| arg.hide(true)))]
#[command(mut_arg("metrics", |arg| arg.hide(true)))]
#[command(mut_arg("messages", |arg| arg.hide(true)))]
pub(super) struct Args {
    #[command(flatten)]
    run: super::run::Args,

    /// The retry queue of a Lambda retry handler [default: the configuration's]
    #[arg(long, value_name = "URL", conflicts_with_all = OF_ONE_QUEUE)]
    retry_queue: Option<String>,

    /// A function whose failures come to the retry queue; may be repeated [default: the configuration's]
    #[arg(
        long = "function",
        value_name = "NAME|ARN",
        conflicts_with = "queue_url"
    )]
    functions: Vec<String>,

    /// End with 6 where something is to think about, too, and not only where something is wrong
    #[arg(long)]
    strict: bool,
}

/// Something is wrong with what was looked at; or to think about, where that is too much.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProblemsFound {
    #[error("{0} of {1} findings are wrong: see above for what to change")]
    Wrong(usize, usize),
    #[error(
        "{0} of {1} findings are to think about, which --strict allows none: see above for what to change"
    )]
    Warnings(usize, usize),
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    let (json, strict) = (args.run.json, args.strict);
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
    let (wrong, warnings) = (count(Verdict::Wrong), count(Verdict::Warning));
    if wrong > 0 {
        return Err(ProblemsFound::Wrong(wrong, findings.len()).into());
    }
    if !json {
        println!(
            "\n{} good, {warnings} to think about, {} unknown",
            count(Verdict::Good),
            count(Verdict::Unknown)
        );
    }
    if strict && warnings > 0 {
        return Err(ProblemsFound::Warnings(warnings, findings.len()).into());
    }
    Ok(())
}

/// What the file says, with what the flags say in its place.
fn config(args: Args) -> anyhow::Result<Config> {
    let Args {
        run,
        retry_queue,
        functions,
        ..
    } = args;
    if run.queue_url.is_some() {
        return super::run::config_of(run);
    }
    let variable = |name: &str| match name {
        "BACKSTOP_RETRY_QUEUE_URL" => retry_queue.clone(),
        "BACKSTOP_MAX_ATTEMPTS" => run.max_attempts.map(|most| most.to_string()),
        "BACKSTOP_FUNCTIONS" => (!functions.is_empty()).then(|| functions.join(",")),
        _ => None,
    };
    let has_lambda_flags =
        retry_queue.is_some() || run.max_attempts.is_some() || !functions.is_empty();
    let mut config = match &run.config {
        Some(path) if !has_lambda_flags => Config::read(path)?,
        path => Config::with_lambda(path.as_deref(), &variable)?,
    };
    config.endpoint_url = run.endpoint_url.or(config.endpoint_url);
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
