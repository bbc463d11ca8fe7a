//! `backstop run`: consumes queues and applies the policies' decisions.

use std::io::{self, stdout};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use tokio_util::sync::CancellationToken;

use backstop::Backstop;
use backstop::ConfigError;
use backstop::HoldMode;
use backstop::Summary;
use backstop::internal::config::{
    Config, Destination, HandlerConfig, parse_dead_letter_queue, parse_endpoint,
};
use backstop::internal::service::Service;
use backstop::queue::Connections;
use backstop_core::settings::parse_pair;
use backstop_core::text::{chain, visible};
use backstop_files::values::{parse_between, parse_span};
use backstop_logging::BackgroundWriter;

use crate::error::{CommandError, Context, Result};
use crate::idempotency::IdempotencyArgs;
use crate::orphans::Guard;
use crate::process::close_memory;
use crate::signals::{STOPPING_CONSUMER, stop_on_signal};
use crate::{log, messages, output};

/// How long to wait until the final counts are printed.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  Consume the queues of a configuration:
    backstop run --config backstop.toml

  Consume one queue, without a configuration:
    backstop run --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \\
      --policy full-jitter --set base=2s --max-attempts 8 --http http://127.0.0.1:8080/

  Try your own policy without an AWS account, on a queue in memory; each line is a message:
    printf 'one\\ntwo\\n' | backstop run --queue-url local:try --policy ./mine.wasm --exec ./work.sh --messages -

Credentials, region and endpoint come from the usual environment variables and profiles of the AWS SDK.
On SIGTERM, SIGINT and SIGHUP, messages in progress finish (see --grace) and the others return to the queue; a second signal stops at once.";

/// Consume queues: pass each message to a handler, and each failure to a policy
///
/// If the handler succeeds, the message is deleted. If it fails, the policy decides: the message is delayed and retried, moved to the dead-letter queue, or discarded. Policies are reloaded while messages flow; an invalid version is rejected, and the active one stays.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["config", "queue_url"])))]
#[command(group(ArgGroup::new("handler").args(["http", "exec", "lambda"])))]
pub(super) struct Args {
    /// Consume the queues in this configuration (host/docs/configuration.md) [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "settings", "scenarios", "shadow", "shadow_settings", "refresh", "require_signature", "signed_for", "plain_http", "token_servers", "http", "http_proxy", "http_content_type", "exec", "lambda", "dead_letter_queue", "max_attempts", "max_age", "allow_discard", "max_in_flight", "max_polls", "hold", "envelope_key_file", "messages"])]
    pub(super) config: Option<PathBuf>,

    /// Consume this queue, configured by flags: its URL, or local:NAME for a queue in memory
    #[arg(long, value_name = "URL", requires = "handler")]
    pub(super) queue_url: Option<String>,

    /// The policy: a built-in (full-jitter, equal-jitter, linear, decorrelated-jitter, aws-sdk-2.0, aws-sdk-2.1), the path of a .wasm or .wat file or of a folder of them, s3://bucket/key or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL", default_value = "full-jitter")]
    policy: String,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// Scenarios that every version of the policy must pass before it becomes active (host/docs/scenarios.md)
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,

    /// The folder that stores good versions and compiled code across restarts, or off [default: the user's cache folder]
    #[arg(long, value_name = "FOLDER|off", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// How often to check S3 and registries for a new version [default: 1m]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    refresh: Option<Duration>,

    /// Reject policies that are not signed with this minisign key, given as text or as a .pub file; may be repeated
    #[arg(long, value_name = "KEY|FILE")]
    require_signature: Vec<String>,

    /// Reject versions that are not signed for the policy with this name, or signed earlier than one that was active
    #[arg(long, value_name = "NAME", requires = "require_signature")]
    signed_for: Option<String>,

    /// A registry to use without TLS, such as registry.internal:5000; may be repeated
    #[arg(long, value_name = "HOST")]
    plain_http: Vec<String>,

    /// A server that may get a registry's credentials for a token, such as auth.internal; may be repeated. The registry's own host always may
    #[arg(long = "token-server", value_name = "HOST")]
    token_servers: Vec<String>,

    /// A policy to evaluate in addition to the active one. Its decisions are compared, counted and recorded, but never applied
    #[arg(long, value_name = "NAME|FILE")]
    shadow: Option<String>,

    /// A setting of the shadow policy; may be repeated [default: those of --set]
    #[arg(long = "shadow-set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "shadow")]
    shadow_settings: Vec<(String, String)>,

    /// POST each message to this URL; 2xx is success
    #[arg(long, value_name = "URL")]
    http: Option<String>,

    /// Send the requests of --http through this proxy [default: none; HTTP_PROXY and similar variables are ignored]
    #[arg(long, value_name = "URL", requires = "http")]
    http_proxy: Option<String>,

    /// The content type of the requests of --http [default: application/json]
    #[arg(long, value_name = "TYPE", requires = "http")]
    http_content_type: Option<String>,

    /// Run this command for each message, with the body on its standard input; exit status 0 is success. Quote the command: --exec './work.sh --fast'
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    exec: Option<Command>,

    /// Invoke this Lambda function with each message and wait for its response
    #[arg(long, value_name = "NAME|ARN")]
    lambda: Option<String>,

    /// The dead-letter queue, or the one for a class of failures: --dead-letter-queue permanent=URL; may be repeated [default: the one in the queue's redrive policy]
    #[arg(long, value_name = "[CLASS=]URL", value_parser = parse_dead_letter_queue)]
    dead_letter_queue: Vec<(Option<String>, String)>,

    /// The maximum number of attempts, whatever the policy decides
    #[arg(long, value_name = "N", value_parser = parse_between::<1, { u32::MAX }, u32>)]
    pub(super) max_attempts: Option<u32>,

    /// The maximum age of a message, such as 3d or 12h: older ones are not retried, whatever the policy decides
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    max_age: Option<Duration>,

    /// Whether the policy may discard messages; if not, they are dead-lettered instead [default: true]
    #[arg(long, value_name = "true|false", hide_possible_values = true)]
    allow_discard: Option<bool>,

    /// The maximum number of messages in progress
    #[arg(long, value_name = "N", value_parser = parse_between::<1, 100_000, usize>)]
    max_in_flight: Option<usize>,

    /// The maximum number of polls at the same time: there are as many as the queue has work for [default: 10]
    #[arg(long, value_name = "N", value_parser = parse_between::<1, 100, usize>)]
    max_polls: Option<usize>,

    /// How failed messages wait for their next attempt: invisible in their queue, sent to it again, or whichever is possible [default: auto]
    #[arg(long, value_name = "visibility|resend|auto")]
    hold: Option<HoldMode>,

    /// A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line: the first one signs (host/docs/holding.md)
    #[arg(long, value_name = "FILE")]
    envelope_key_file: Option<PathBuf>,

    /// How long messages in progress may take to finish after the first SIGTERM or SIGINT [default: 25s]
    #[arg(long, value_name = "DURATION", value_parser = parse_span)]
    grace: Option<Duration>,

    /// Append a record of every decision to this file, or - for standard output (host/docs/decision-record.md)
    #[arg(long, value_name = "FILE|-")]
    decisions: Option<PathBuf>,

    /// Serve Prometheus metrics at http://ADDRESS/metrics, such as 127.0.0.1:9464 (host/docs/metrics.md)
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// Serve the admin interface at http://ADDRESS, such as 127.0.0.1:9465; an address that other machines reach needs a token (host/docs/admin.md)
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,

    /// The file with the token of the admin interface [default: BACKSTOP_ADMIN_TOKEN]
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,

    /// A name by which the admin interface is reached, such as backstop.internal, besides localhost and addresses; may be repeated
    #[arg(long, value_name = "NAME")]
    admin_hosts: Vec<String>,

    /// Use the SQS and Lambda at this URL, instead of the region's
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub(super) endpoint_url: Option<String>,

    /// Fill a local queue with the lines of this file that are not blank, or - for standard input, and stop when it is empty
    #[arg(long, value_name = "FILE|-")]
    messages: Option<PathBuf>,

    /// Print the final counts as JSON, on standard output
    #[arg(long)]
    pub(super) json: bool,

    // The last: its heading would apply to what follows.
    #[command(flatten)]
    idempotency: IdempotencyArgs,
}

/// A command line, split into words like a shell does.
#[derive(Debug, Clone)]
struct Command(Vec<String>);

fn parse_command(line: &str) -> Result<Command, String> {
    let words = shlex::split(line).ok_or("a quote is not closed")?;
    if words.is_empty() {
        return Err("expected a program, such as './work.sh --fast'".to_owned());
    }
    Ok(Command(words))
}

pub(super) async fn run(args: Args) -> Result<()> {
    log::log_panics();
    close_memory();
    // In advance: at the end, descriptors may be short.
    let counts = args.json.then(counts_writer).transpose()?;
    let messages = args.messages.clone();
    let config = config_of(args)?;
    let signalled = stop_on_signal(STOPPING_CONSUMER)?;
    let has_commands = config
        .queues
        .iter()
        .any(|queue| matches!(queue.handler, HandlerConfig::Exec(..)));
    let prints_records = matches!(config.decisions, Some(Destination::Stdout));
    let guard = has_commands.then(Guard::start).flatten();
    let stop = signalled.child_token();
    // In a task of its own, so that a signal stops it whatever it waits for.
    let starting = tokio::spawn(start(config, messages, stop.clone()));
    let started = tokio::select! {
        started = starting => Some(started??),
        () = signalled.cancelled() => None,
    };
    let summaries = match started {
        Some((service, _connections)) => {
            let recorder = service.recorder().cloned();
            let summaries = service.run(stop).await;
            let lost = recorder
                .filter(|_| prints_records)
                .and_then(|it| it.failure());
            lost.into_iter().for_each(output::fail);
            summaries
        }
        None => {
            tracing::info!("stopped during startup: no message was received");
            Vec::new()
        }
    };
    if let Some(guard) = guard {
        guard.release().await;
    }
    report(&summaries, counts)
}

async fn start(
    config: Config,
    messages: Option<PathBuf>,
    stop: CancellationToken,
) -> Result<(Service, Connections)> {
    let connections = Connections::new(config.endpoint_url.clone());
    if let Some(file) = messages {
        messages::fill(&config, &file, &connections, &stop).await?;
    }
    let service = Service::prepare(config, &connections).await?;
    Ok((service, connections))
}

/// The configuration that the flags give, or a file with flags that override it.
pub(super) fn config_of(args: Args) -> Result<Config> {
    let host = match (&args.config, &args.queue_url) {
        (Some(path), _) => Backstop::file_by_flags(path)?,
        (None, url) => Backstop::queue_by_flags(url.clone().unwrap_or_default()),
    };
    let is_file = args.config.is_some();
    let host = if is_file { host } else { queue(host, &args) };
    let admin_hosts = (!args.admin_hosts.is_empty()).then_some(args.admin_hosts);
    let config = host
        .with(args.cache, Backstop::default_cache)
        .with(args.grace, Backstop::grace)
        .with(args.decisions, Backstop::decisions)
        .with(args.metrics, Backstop::metrics)
        .with(args.admin, Backstop::admin)
        .with(args.admin_token_file, Backstop::admin_token_file)
        .with(admin_hosts, Backstop::admin_hosts)
        .with(args.endpoint_url, Backstop::endpoint_url)
        .into_config();
    let config = config.map_err(|error| {
        // The name of a policy in a flag is a mistake in the command line.
        if !is_file && matches!(error, ConfigError::Policy { .. }) {
            CommandError::Usage(chain(&error))
        } else {
            error.into()
        }
    })?;
    match &args.config {
        Some(path) if config.queues.is_empty() => Err(CommandError::Usage(format!(
            "{} configures no queue: add a table such as [queues.orders]; [lambda] is for the Lambda retry handler",
            path.display()
        ))),
        Some(_) | None => Ok(config),
    }
}

/// Sets the queue of the flags.
fn queue(host: Backstop, args: &Args) -> Backstop {
    let set = |host: Backstop, (name, value): &(String, String)| host.set(name, value);
    let set_shadow =
        |host: Backstop, (name, value): &(String, String)| host.set_shadow(name, value);
    let host = args.settings.iter().fold(host.policy(&args.policy), set);
    let host = host.with(args.shadow.as_deref(), Backstop::shadow);
    let host = args.shadow_settings.iter().fold(host, set_shadow);
    let set_queue = |host: Backstop, (class, url): &(Option<String>, String)| match class {
        Some(class) => host.dead_letter_queue_of(class, url),
        None => host.dead_letter_queue(url),
    };
    let host = args.dead_letter_queue.iter().fold(host, set_queue);
    let keys = (!args.require_signature.is_empty()).then_some(&args.require_signature);
    host.with(args.scenarios.as_ref(), Backstop::scenarios)
        .with(args.refresh, Backstop::refresh)
        .with(keys, Backstop::require_signature)
        .with(args.signed_for.as_deref(), Backstop::signed_for)
        .plain_http(&args.plain_http)
        .token_servers(&args.token_servers)
        .with(args.http.as_deref(), Backstop::http)
        .with(args.http_proxy.as_deref(), Backstop::http_proxy)
        .with(
            args.http_content_type.as_deref(),
            Backstop::http_content_type,
        )
        .with(args.exec.as_ref(), |host, Command(words)| host.exec(words))
        .with(args.lambda.as_deref(), Backstop::lambda)
        .with(Some(&args.idempotency), |host, flags| flags.set(host))
        .with(args.max_attempts, Backstop::max_attempts)
        .with(args.max_age, Backstop::max_age)
        .with(args.allow_discard, Backstop::allow_discard)
        .with(args.max_in_flight, Backstop::max_in_flight)
        .with(args.max_polls, Backstop::max_polls)
        .with(args.hold, Backstop::hold)
        .with(args.envelope_key_file.as_ref(), Backstop::envelope_key_file)
}

fn report(summaries: &[(String, Summary)], counts: Option<BackgroundWriter>) -> Result<()> {
    if let Some(writer) = counts {
        return print(summaries, &writer);
    }
    for (name, summary) in summaries {
        // The same names as in the JSON below.
        tracing::info!(
            queue = name,
            received = summary.received,
            succeeded = summary.succeeded,
            retried = summary.retried,
            "dead-lettered" = summary.dead_lettered,
            "dead-letters-refused" = summary.dead_letters_refused,
            discarded = summary.discarded,
            "sent-again" = summary.sent_again,
            duplicates = summary.duplicates,
            "handed-back" = summary.handed_back,
            unsettled = summary.unsettled,
            fallbacks = summary.fallbacks,
            "receive-errors" = summary.receive_errors,
            "shadow-agreed" = summary.shadow.map(|shadow| shadow.agreed),
            "shadow-differed" = summary.shadow.map(|shadow| shadow.differed),
            "shadow-broken" = summary.shadow.map(|shadow| shadow.broken),
            "shadow-skipped" = summary.shadow.map(|shadow| shadow.skipped),
            "requests-per-message" = format!("{:.2}", summary.requests_per_message),
            "ended"
        );
    }
    Ok(())
}

fn counts_writer() -> Result<BackgroundWriter> {
    BackgroundWriter::to(stdout(), |_| {}).context("can't print the counts")
}

/// Prints a line of JSON for each queue. A closed or stopped reader does not keep the process from ending; what can't be written gives the exit code, at the end.
fn print(summaries: &[(String, Summary)], writer: &BackgroundWriter) -> Result<()> {
    for (name, summary) in summaries {
        let mut object = serde_json::to_value(summary)?;
        if let Some(object) = object.as_object_mut() {
            object.insert("queue".to_owned(), name.as_str().into());
        }
        let line = object.to_string();
        writer.write(format!("{}\n", visible(&line)).as_bytes());
    }
    let is_written = writer.flush(PRINT_TIMEOUT);
    let unread = || io::Error::new(io::ErrorKind::TimedOut, "nobody reads it");
    let failure = writer.take_failure().or_else(|| (!is_written).then(unread));
    failure.into_iter().for_each(output::fail);
    Ok(())
}
