//! The Lambda retry handler as a `provided.al2023` function: `make lambda` packages it.

use std::env;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use backstop_core::clock;
use backstop_core::failure::Timestamp;
use backstop_host::config::{Config, unknown_variables};
use backstop_host::lambda::{Batch, BatchResponse, Started, compiled_folders, start};
use backstop_host::traces;
use backstop_logging::{BackgroundWriter, EscapedFields, EscapedJson};
use backstop_queue::Connections;
use hyper::Uri;
use lambda_runtime::{Diagnostic, LambdaEvent, Runtime, service_fn};
use tokio::time::Instant;

/// How long the end of an invocation waits for its last log lines to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    backstop_engine::compiler_process().unwrap_or_else(handler)
}

fn handler() -> ExitCode {
    let Ok(log) = log() else {
        return ExitCode::FAILURE;
    };
    let ended = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("can't start the async runtime")
        .and_then(|runtime| runtime.block_on(serve(&log)));
    let code = match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    };
    log.flush(FLUSH_TIMEOUT);
    code
}

async fn serve(log: &BackgroundWriter) -> anyhow::Result<()> {
    anyhow::ensure!(
        env::var_os("AWS_LAMBDA_RUNTIME_API").is_some(),
        "this is the Lambda retry handler: Lambda runs it. `backstop run` serves queues anywhere else"
    );
    check_environment()?;
    let config = Config::of_lambda(&|name| env::var(name).ok())?;
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in unknown_variables(names) {
        tracing::warn!(
            variable = name,
            "unknown setting: the variable is ignored; host/docs/deploy/lambda.md lists the settings"
        );
    }
    let own = env::var("AWS_LAMBDA_FUNCTION_NAME").unwrap_or_default();
    // Events are retried with or without.
    if let Err(error) = traces::start(config.traces, &own) {
        tracing::error!(%error, "traces can't be sent: the handler goes on without them");
    }
    let connections = Arc::new(Connections::new(config.endpoint_url.clone()));
    let package = env::var("LAMBDA_TASK_ROOT").ok();
    let memory = env::var("AWS_LAMBDA_FUNCTION_MEMORY_SIZE").ok();
    let memory = memory.and_then(|mebibytes| mebibytes.parse().ok());
    let compiled = compiled_folders(package.as_deref());
    let started = Arc::new(start(&config, compiled, memory, connections).await?);
    if config.lambda.as_ref().is_some_and(|lambda| lambda.metrics) {
        let lines = log.clone();
        started
            .handler
            .export_metrics_to(move |line| lines.write(line.as_bytes()));
    }
    let handler = service_fn(|event: LambdaEvent<Batch>| {
        let (started, log) = (Arc::clone(&started), log.clone());
        async move {
            let handled = handle(started, event).await;
            // Lambda freezes the process after the response.
            let flushing = tokio::task::spawn_blocking(move || log.flush(FLUSH_TIMEOUT));
            let _ = flushing.await;
            handled
        }
    });
    Runtime::new(handler)
        .run()
        .await
        .map_err(anyhow::Error::from_boxed)
}

/// Checks the variables that Lambda sets, because `lambda_runtime` panics on an invalid one.
fn check_environment() -> anyhow::Result<()> {
    let value = |name: &str| {
        env::var(name).with_context(|| format!("{name} is missing or not text: Lambda sets it"))
    };
    let api = value("AWS_LAMBDA_RUNTIME_API")?;
    let uri = api.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    anyhow::ensure!(
        !host.is_empty(),
        "AWS_LAMBDA_RUNTIME_API is `{api}`; expected a host and a port, such as 127.0.0.1:9001"
    );
    for name in ["AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_VERSION"] {
        value(name)?;
    }
    let memory = value("AWS_LAMBDA_FUNCTION_MEMORY_SIZE")?;
    anyhow::ensure!(
        memory.parse::<i32>().is_ok(),
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE is `{memory}`; expected a number of MiB"
    );
    Ok(())
}

async fn handle(
    started: Arc<Started>,
    event: LambdaEvent<Batch>,
) -> Result<BatchResponse, Diagnostic> {
    let left = Timestamp(event.context.deadline).since(clock::now());
    let deadline = Instant::now() + left.max(Duration::from_secs(1));
    started.refresh.begin();
    if let Some(refresh) = &started.shadow_refresh {
        refresh.begin();
    }
    let handled = started.handler.handle(event.payload, deadline).await;
    if let Some(refresh) = &started.shadow_refresh {
        refresh.end(deadline).await;
    }
    started.refresh.end(deadline).await;
    if started.recorder.is_some() || started.shadow.is_some() {
        let flushing = tokio::task::spawn_blocking(move || {
            // Half of the time that is left: a reader that has stopped must not fail the batch.
            started.flush(deadline.saturating_duration_since(Instant::now()) / 2);
        });
        if let Err(error) = flushing.await {
            tracing::error!(%error, "the last decision records may be lost");
        }
    }
    traces::flush_batch(deadline.saturating_duration_since(Instant::now())).await;
    handled.map_err(|error| {
        tracing::error!("{error}");
        Diagnostic {
            error_type: "BatchError".to_owned(),
            error_message: error.to_string(),
        }
    })
}

/// Sets up logging in the format and from the level of Lambda's advanced logging controls. A separate thread writes the lines, so that no message waits for a reader that has stopped.
fn log() -> std::io::Result<BackgroundWriter> {
    let writer = BackgroundWriter::to(std::io::stdout(), |lines| {
        tracing::warn!(
            lines,
            "log lines were lost: standard output can't be written"
        );
    })?;
    let level = env::var("AWS_LAMBDA_LOG_LEVEL").unwrap_or_else(|_| "INFO".to_owned());
    let level = match level.to_ascii_uppercase().as_str() {
        "FATAL" => "error".to_owned(),
        level => level.to_ascii_lowercase(),
    };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .or_else(|_| tracing_subscriber::EnvFilter::try_new(format!("warn,backstop={level}")))
        .unwrap_or_default();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer.clone())
        .with_ansi(false)
        .with_target(false);
    match env::var("AWS_LAMBDA_LOG_FORMAT").as_deref() {
        Ok("Text" | "TEXT") => lines.fmt_fields(EscapedFields).init(),
        _ => lines
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .map_event_format(EscapedJson::of)
            .init(),
    }
    Ok(writer)
}
