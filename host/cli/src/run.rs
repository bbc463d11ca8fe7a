//! `backstop run`: consumes queues and applies the policies' decisions.

mod reload;

use std::io::{self, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Parser};
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use backstop_core::text::{chain, visible};
use backstop_host::Backstop;
use backstop_host::config::{Config, ConfigError, HandlerConfig, Reading};
use backstop_host::consumer::Summary;
use backstop_host::service::{Service, Supervisor};
use backstop_logging::BackgroundWriter;
use backstop_queue::Connections;
use backstop_records::Destination;

use crate::dlq::OwnRuns;
use crate::error::{Context, Exit, Result};
use crate::key_flags::{KeyFlags, of_one_queue};
use crate::orphans::Guard;
use crate::process::close_memory;
use crate::signals::{STOPPING_CONSUMER, stop_on_signal, stop_or_hang_up};
use crate::terminal::{joined, output};
use crate::tools::OwnTools;
use crate::{log, messages};

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
On SIGTERM and SIGINT, messages in progress finish (see --grace) and the others return to the queue; a second signal stops at once. On SIGHUP, a host with a configuration reads it again (host/docs/operate/operating.md), and any other one stops.";

/// Consume queues: pass each message to a handler, and each failure to a policy
///
/// If the handler succeeds, the message is deleted. If it fails, the policy decides: the message is delayed and retried, moved to the dead-letter queue, or discarded. Policies are reloaded while messages flow; an invalid version is rejected, and the active one stays.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["config", "queue_url"])))]
#[command(group(ArgGroup::new("handler").args(["http", "exec", "lambda"])))]
pub(super) struct Args {
    /// Consume the queues in this configuration (host/docs/deploy/configuration.md) [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE", conflicts_with_all = conflicts())]
    pub(super) config: Option<PathBuf>,

    /// Consume this queue, configured by flags: its URL, or local:NAME for a queue in memory
    #[arg(long, value_name = "URL", requires = "handler")]
    pub(super) queue_url: Option<String>,

    #[command(flatten)]
    keys: KeyFlags,

    /// Fill a local queue with the lines of this file that are not blank, or - for standard input, and stop when it is empty
    #[arg(long, value_name = "FILE|-")]
    messages: Option<PathBuf>,

    /// Print the final counts as JSON, on standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// The flags that a file excludes.
fn conflicts() -> Vec<&'static str> {
    let mut flags = of_one_queue();
    flags.push("messages");
    flags
}

impl Args {
    /// The endpoint, if a flag has it.
    pub(super) fn endpoint_url(&self) -> Option<String> {
        self.keys.get("endpoint-url").map(str::to_owned)
    }

    /// The most attempts, if a flag has them.
    pub(super) fn max_attempts(&self) -> Option<u32> {
        self.keys.get("max-attempts")?.trim().parse().ok()
    }
}

pub(super) async fn run(args: Args) -> Result<()> {
    log::log_panics();
    close_memory();
    // In advance: at the end, descriptors may be short.
    let counts = args.json.then(|| BackgroundWriter::to(stdout(), |_| {}));
    let counts = counts.transpose().context("can't print the counts")?;
    let messages = args.messages.clone();
    let (signalled, hung_up) = signals(&args)?;
    let reading = reading_of(&args)?;
    let config = reading.config.clone();
    let has_commands = config
        .queues
        .iter()
        .any(|queue| matches!(queue.handler, HandlerConfig::Exec(..)));
    let prints_records = matches!(config.decisions, Some(Destination::Stdout));
    let guard = has_commands.then(Guard::start).flatten();
    let stop = signalled.child_token();
    let supervisor = supervisor();
    if let Some(supervisor) = &supervisor {
        supervisor.checking().await;
    }
    // In a task of its own, so that a signal stops it whatever it waits for.
    let starting = tokio::spawn(start(config, messages, stop.clone()));
    let started = tokio::select! {
        started = starting => Some(started??),
        () = signalled.cancelled() => None,
    };
    let summaries = match started {
        Some((service, _connections)) => {
            if let Some(hung_up) = hung_up {
                let reload = service.reload(&reading);
                tokio::spawn(reload::follow(args, hung_up, reload, stop.clone()));
            }
            let recorder = service.recorder().cloned();
            let summaries = service.supervised_by(supervisor).run(stop).await;
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

/// The service manager that has started this process, if one has.
fn supervisor() -> Option<Supervisor> {
    let found = Supervisor::of_process();
    found
        .inspect_err(|error| {
            tracing::warn!(%error, "NOTIFY_SOCKET names a service manager that can't be reached: it does not learn when this host is ready");
        })
        .ok()
        .flatten()
}

/// What stops the host, and what has it read its configuration again, if it has one.
fn signals(args: &Args) -> Result<(CancellationToken, Option<Arc<Notify>>)> {
    if args.config.is_none() {
        return Ok((stop_on_signal(STOPPING_CONSUMER)?, None));
    }
    let (stop, hung_up) = stop_or_hang_up(STOPPING_CONSUMER)?;
    Ok((stop, Some(hung_up)))
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
    let tools = OwnTools::of(config.decisions.as_ref(), OwnRuns::default());
    let service = Service::prepare(config, &connections).await?;
    service.lend(Arc::new(tools));
    service.keep_runs(Arc::new(OwnRuns::default()));
    Ok((service, connections))
}

/// The configuration that the flags give, or a file with flags that override it.
pub(super) fn config_of(args: &Args) -> Result<Config> {
    reading_of(args).map(|reading| reading.config)
}

/// The same, with the file.
fn reading_of(args: &Args) -> Result<Reading> {
    let host = match (&args.config, &args.queue_url) {
        (Some(path), _) => Backstop::file_by_flags(path)?,
        (None, url) => Backstop::queue_by_flags(url.clone().unwrap_or_default()),
    };
    let is_file = args.config.is_some();
    // Without one, the policy is the built-in default.
    let host = args
        .keys
        .set(host, is_file)
        .map_err(|text| Exit::Usage.because(text))?;
    let reading = host.into_reading().map_err(|error| {
        // The name of a policy in a flag is a mistake in the command line.
        if !is_file && matches!(error, ConfigError::Policy { .. }) {
            Exit::Usage.because(chain(&error))
        } else {
            error.into()
        }
    })?;
    match &args.config {
        Some(path) if reading.config.queues.is_empty() => Err(Exit::Usage.because(format!(
            "{} configures no queue: add a table such as [queues.orders]; [lambda] is for the Lambda retry handler",
            path.display()
        ))),
        Some(_) | None => Ok(reading),
    }
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

/// Prints a line of JSON for each queue. A closed or stopped reader does not keep the process from ending; what can't be written gives the exit code, at the end.
fn print(summaries: &[(String, Summary)], writer: &BackgroundWriter) -> Result<()> {
    for (name, summary) in summaries {
        let line = joined(json!(summary), json!({"queue": name})).to_string();
        writer.write(format!("{}\n", visible(&line)).as_bytes());
    }
    let is_written = writer.flush(PRINT_TIMEOUT);
    let unread = || io::Error::new(io::ErrorKind::TimedOut, "nobody reads it");
    let failure = writer.take_failure().or_else(|| (!is_written).then(unread));
    failure.into_iter().for_each(output::fail);
    Ok(())
}
