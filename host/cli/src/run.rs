//! `backstop run`: the consumer.

use std::io::stdout;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{ArgGroup, Parser};
use tokio_util::sync::CancellationToken;

use super::exit::UsageError;
use super::orphans::Guard;
use super::signals::stop_on_signal;
use super::{log, messages};
use backstop::config::{
    self, Cache, Config, Destination, HandlerConfig, Policies, QueueConfig, parse_endpoint,
    parse_number, parse_pair, parse_span,
};
use backstop::consumer::{Options, Summary};
use backstop::policy::{Limits, PartSpec, PolicySpec, REFRESH, Source};
use backstop::queue::{Connections, short_name};
use backstop::service::Service;
use backstop_core::decision::Bounds;
use backstop_logging::BackgroundWriter;

/// How long the counts at the end may take to be printed.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  Serve the queues of a configuration:
    backstop run --config backstop.toml

  Serve one queue, without a configuration:
    backstop run --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \\
      --policy full-jitter --set base=2s --set max-attempts=8 --http http://127.0.0.1:8080/

  Try a policy of your own without an account, on a queue in memory; each line is a message:
    printf 'one\\ntwo\\n' | backstop run --queue-url local:try --policy ./mine.wasm --exec ./work.sh --messages -

Credentials, region and endpoint come from the AWS SDK's usual environment variables and profiles.
SIGTERM, SIGINT and SIGHUP let what is in hand finish (see --grace) and hand the rest back; a second one ends at once.";

/// Serve queues: receive, hand to the handler, put failures before the policy
///
/// Success deletes a message. Failure is put before the policy: the message is hidden for as long as the policy says, or moved to the dead-letter queue. A policy from a file is swapped when the file changes; a version that is no good leaves the old one at work.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
#[command(group(ArgGroup::new("what").required(true).args(["config", "queue_url"])))]
#[command(group(ArgGroup::new("handler").args(["http", "exec", "lambda"])))]
pub(super) struct Args {
    /// Serve the queues that this file names (host/docs/configuration.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "settings", "scenarios", "shadow", "shadow_settings", "refresh", "require_signature", "plain_http", "http", "http_proxy", "exec", "lambda", "dead_letter_queue", "max_attempts", "max_age", "allow_discard", "max_in_flight", "messages"])]
    pub(super) config: Option<PathBuf>,

    /// Serve this one queue, set by flags: its URL, or local:NAME for a queue in memory
    #[arg(long, value_name = "URL", requires = "handler")]
    pub(super) queue_url: Option<String>,

    /// What decides: full-jitter, equal-jitter, linear, decorrelated-jitter; the path of a .wasm or .wat file, or of a folder of them; s3://bucket/key; or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL", default_value = "full-jitter")]
    policy: String,

    /// A setting of the policy, such as base=2s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair)]
    settings: Vec<(String, String)>,

    /// Scenarios that every version of the policy has to pass before it is put to work (host/docs/scenarios.md)
    #[arg(long, value_name = "FILE")]
    scenarios: Option<PathBuf>,

    /// Where good versions and compiled code are kept between two starts: a folder, or off [default: the user's cache folder]
    #[arg(long, value_name = "FOLDER|off", env = "BACKSTOP_CACHE")]
    cache: Option<String>,

    /// How often S3 and registries are looked at for a new version [default: 1m]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    refresh: Option<Duration>,

    /// Take no policy but those signed with this minisign key, given as text or as a .pub file; may be repeated
    #[arg(long, value_name = "KEY|FILE")]
    require_signature: Vec<String>,

    /// A registry that is spoken to without TLS, such as registry.internal:5000; may be repeated
    #[arg(long, value_name = "HOST")]
    plain_http: Vec<String>,

    /// A policy that is asked beside the live one and acts on nothing: what it would do is compared, counted and recorded
    #[arg(long, value_name = "NAME|FILE")]
    shadow: Option<String>,

    /// A setting of the shadow; may be repeated [default: those of --set]
    #[arg(long = "shadow-set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "shadow")]
    shadow_settings: Vec<(String, String)>,

    /// POST each message to this URL; 2xx is success
    #[arg(long, value_name = "URL")]
    http: Option<String>,

    /// Send what --http posts through this proxy [default: none; HTTP_PROXY and the like are not heeded]
    #[arg(long, value_name = "URL", requires = "http")]
    http_proxy: Option<String>,

    /// Run this command for each message, the body on its standard input; exit 0 is success. Quote it as one: --exec './work.sh --fast'
    #[arg(long, value_name = "COMMAND", value_parser = parse_command)]
    exec: Option<Command>,

    /// Invoke this function with each message and wait for its answer
    #[arg(long, value_name = "NAME|ARN")]
    lambda: Option<String>,

    /// Where dead letters go [default: the one of the queue's redrive policy]
    #[arg(long, value_name = "URL")]
    dead_letter_queue: Option<String>,

    /// No message has more attempts, whatever the policy says
    #[arg(long, value_name = "N", value_parser = parse_number::<u32>)]
    pub(super) max_attempts: Option<u32>,

    /// No message is tried again from this age, whatever the policy says (3d, 12h)
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    max_age: Option<Duration>,

    /// Whether the policy may drop messages: where not, what it wants to discard is dead-lettered [default: true]
    #[arg(long, value_name = "true|false", hide_possible_values = true)]
    allow_discard: Option<bool>,

    /// Messages in hand at once
    #[arg(long, value_name = "N", value_parser = parse_number::<usize>)]
    max_in_flight: Option<usize>,

    /// How long work in hand may go on after the first SIGTERM or SIGINT [default: 25s]
    #[arg(long, value_name = "SPAN", value_parser = parse_span)]
    grace: Option<Duration>,

    /// Append a record of every decision to this file, or - for standard output (host/docs/decision-record.md)
    #[arg(long, value_name = "FILE|-")]
    decisions: Option<PathBuf>,

    /// Serve metrics for Prometheus at http://ADDRESS/metrics, such as 127.0.0.1:9464 (host/docs/metrics.md)
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<String>,

    /// SQS and Lambda at this URL in place of the region's own
    #[arg(long, value_name = "URL", value_parser = parse_endpoint)]
    pub(super) endpoint_url: Option<String>,

    /// Fill a local queue with the lines of this file, or - for standard input, and end when it is empty
    #[arg(long, value_name = "FILE|-")]
    messages: Option<PathBuf>,

    /// Print the counts at the end as JSON, on standard output
    #[arg(long)]
    pub(super) json: bool,
}

/// A command line, split into words as a shell does.
#[derive(Debug, Clone)]
struct Command {
    program: String,
    arguments: Vec<String>,
}

fn parse_command(line: &str) -> Result<Command, String> {
    let mut words = shlex::split(line)
        .ok_or("a quote is not closed")?
        .into_iter();
    let program = words
        .next()
        .ok_or("expected a program, such as './work.sh --fast'")?;
    Ok(Command {
        program,
        arguments: words.collect(),
    })
}

pub(super) async fn run(args: Args) -> anyhow::Result<()> {
    log::panics();
    let json = args.json;
    let messages = args.messages.clone();
    let config = config_of(args)?;
    let signalled = stop_on_signal()?;
    let has_commands = config
        .queues
        .iter()
        .any(|queue| matches!(queue.handler, HandlerConfig::Exec(..)));
    let guard = has_commands.then(Guard::start).flatten();
    let stop = signalled.child_token();
    // NotComparable from this task: whatever a start waits for, a signal ends it.
    let starting = tokio::spawn(start(config, messages, stop.clone()));
    let started = tokio::select! {
        started = starting => Some(started??),
        () = signalled.cancelled() => None,
    };
    let summaries = match started {
        Some((service, _connections)) => service.run(stop).await,
        None => {
            tracing::info!("stopped before the start was done: no message was received");
            Vec::new()
        }
    };
    if let Some(guard) = guard {
        guard.release().await;
    }
    report(&summaries, json)
}

async fn start(
    config: Config,
    messages: Option<PathBuf>,
    stop: CancellationToken,
) -> anyhow::Result<(Service, Connections)> {
    let connections = Connections::new(config.endpoint_url.clone());
    if let Some(file) = messages {
        messages::fill(&config, &file, &connections, &stop).await?;
    }
    let service = Service::prepare(config, &connections).await?;
    Ok((service, connections))
}

pub(super) fn config_of(args: Args) -> anyhow::Result<Config> {
    let decisions = args.decisions.map(|path| {
        if path == Path::new("-") {
            Destination::Stdout
        } else {
            Destination::File(path)
        }
    });
    let metrics = args
        .metrics
        .map(|address| config::metrics_address("--metrics", &address))
        .transpose()?;
    if let Some(path) = &args.config {
        let mut config = Config::read(path)?;
        if config.queues.is_empty() {
            return Err(UsageError(format!(
                "{} names no queue to serve: add a table such as [queues.orders]; [lambda] is for the Lambda retry handler",
                path.display()
            ))
            .into());
        }
        for queue in &mut config.queues {
            queue.options.grace = args.grace.unwrap_or(queue.options.grace);
        }
        if let (Some(cache), Cache::User) = (&args.cache, &config.policies.cache) {
            config.policies.cache = Cache::parse(cache, Path::new(""));
        }
        return Ok(Config {
            endpoint_url: args.endpoint_url.or(config.endpoint_url),
            decisions: decisions.or(config.decisions),
            metrics: metrics.or(config.metrics),
            ..config
        });
    }
    let url = config::queue_url("--queue-url", args.queue_url.unwrap_or_default())?;
    let source = |flag: &str, name: &str| {
        Source::parse(name, Path::new("")).map_err(|error| UsageError(format!("{flag}: {error}")))
    };
    let shadow = match &args.shadow {
        Some(name) => Some(PolicySpec::Single(PartSpec {
            source: source("--shadow", name)?,
            settings: match args.shadow_settings.as_slice() {
                [] => args.settings.clone().into(),
                settings => settings.to_vec().into(),
            },
        })),
        None => None,
    };
    let defaults = Options::default();
    let queue = QueueConfig {
        name: short_name(&url).to_owned(),
        dead_letter_queue: args
            .dead_letter_queue
            .map(|url| config::queue_url("--dead-letter-queue", url))
            .transpose()?,
        handler: match (args.http, args.exec, args.lambda) {
            (Some(url), _, _) => HandlerConfig::Http {
                url,
                proxy: args.http_proxy,
            },
            (None, Some(Command { program, arguments }), _) => {
                HandlerConfig::Exec(program, arguments)
            }
            (None, None, name) => {
                let name = config::function("--lambda", name.unwrap_or_default())?;
                HandlerConfig::Lambda(name)
            }
        },
        policy: PolicySpec::Single(PartSpec {
            source: source("--policy", &args.policy)?,
            settings: args.settings.into(),
        }),
        scenarios: args.scenarios,
        shadow,
        bounds: Bounds {
            max_attempts: args
                .max_attempts
                .map(|most| config::attempts("--max-attempts", most))
                .transpose()?,
            max_age: args
                .max_age
                .map(|span| config::max_age("--max-age", span))
                .transpose()?,
            retention: None,
            allow_discard: args.allow_discard.unwrap_or(true),
        },
        options: Options {
            max_in_flight: config::max_in_flight(
                "--max-in-flight",
                args.max_in_flight.unwrap_or(defaults.max_in_flight),
            )?,
            grace: args.grace.unwrap_or(defaults.grace),
            ..defaults
        },
        url,
    };
    Ok(Config {
        endpoint_url: args.endpoint_url,
        decisions,
        metrics,
        limits: Limits::default(),
        policies: Policies {
            cache: args
                .cache
                .map_or(Cache::User, |cache| Cache::parse(&cache, Path::new(""))),
            refresh: args
                .refresh
                .map_or(Ok(REFRESH), |span| config::refresh("--refresh", span))?,
            keys: (!args.require_signature.is_empty())
                .then(|| {
                    let place = "--require-signature";
                    config::required_keys(place, &args.require_signature, Path::new(""))
                })
                .transpose()?,
            plain_http: args.plain_http,
            ..Policies::default()
        },
        queues: vec![queue],
        lambda: None,
    })
}

fn report(summaries: &[(String, Summary)], json: bool) -> anyhow::Result<()> {
    if json {
        return print(summaries);
    }
    for (name, summary) in summaries {
        // Spelled as in the JSON below.
        tracing::info!(
            queue = name,
            received = summary.received,
            succeeded = summary.succeeded,
            retried = summary.retried,
            "dead-lettered" = summary.dead_lettered,
            "dead-letters-refused" = summary.dead_letters_refused,
            discarded = summary.discarded,
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

/// A line of JSON for each queue, on standard output. A reader that is gone or has stopped does not keep the process from ending.
fn print(summaries: &[(String, Summary)]) -> anyhow::Result<()> {
    let writer = BackgroundWriter::to(stdout(), |_| {
        tracing::warn!("the counts are not printed: standard output could not be written");
    })
    .context("can't print the counts")?;
    for (name, summary) in summaries {
        let mut object = serde_json::to_value(summary)?;
        if let Some(object) = object.as_object_mut() {
            object.insert("queue".to_owned(), name.as_str().into());
        }
        writer.write(format!("{object}\n").as_bytes());
    }
    if !writer.flush(PRINT_TIMEOUT) {
        tracing::warn!("the counts are not printed: nobody reads standard output");
    }
    Ok(())
}
