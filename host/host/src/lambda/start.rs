//! The start of the retry handler: loads its policy and shadow, opens the decision records, and checks the bounds against Lambda's recursion detection.

use std::num::{NonZero, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::refresh::Refresh;
use super::{Allowed, RetryHandler, RetryHandlerOptions};
use crate::assembly::{Assembly, AssemblyError};
use crate::clock;
use crate::config::{Config, LambdaConfig, UNHINDERED_ATTEMPTS};
use crate::policy::Compiled;
use crate::queue::Connections;
use crate::record::Recorder;
use crate::shadow::{SETTLE_TIMEOUT, Shadow};
use backstop_functions::{Functions, LambdaApi};
use backstop_queue::envelope::{EnvelopeKeys, EnvelopeKeysError, Readers};
use backstop_versions::scenario::ScenarioError;

/// Why the retry handler does not start.
#[derive(Debug, thiserror::Error)]
pub enum ColdStartError {
    /// The configuration has no retry handler.
    #[error("the configuration has no [lambda] table")]
    NoLambda,
    /// The sandbox, the cache directory or the decision records can't be used.
    #[error(transparent)]
    Assembly(#[from] AssemblyError),
    /// The scenarios that the policy has to pass can't be used.
    #[error("lambda.scenarios")]
    Scenarios(#[from] ScenarioError),
    /// The keys of envelopes can't be used.
    #[error("lambda.envelope-key-file: {0}")]
    EnvelopeKeys(#[from] EnvelopeKeysError),
    /// The configuration allows more attempts than Lambda does.
    #[error(
        "max-attempts is {most}, but recursion detection is on for {function}: Lambda ends a chain after about 16 invocations. Set RecursiveLoop to Allow on it (aws lambda put-function-recursion-config --function-name {function} --recursive-loop Allow), or max-attempts to at most {UNHINDERED_ATTEMPTS}"
    )]
    Recursion {
        /// The configured number of attempts.
        most: NonZeroU32,
        /// The function: the handler's own, or one that it retries.
        function: String,
    },
}

/// A retry handler that is ready, with everything that a batch needs before and after it.
#[derive(Debug)]
pub struct Started {
    /// Handles batches.
    pub handler: Arc<RetryHandler>,
    /// Checks for updates of the policy.
    pub refresh: Refresh,
    /// To be flushed after each batch, because Lambda freezes the process then.
    pub recorder: Option<Arc<Recorder>>,
    /// The shadow, if one is configured.
    pub shadow: Option<Arc<Shadow>>,
    /// Checks for updates of the shadow.
    pub shadow_refresh: Option<Refresh>,
}

impl Started {
    /// Waits until the shadow has answered and all records are written, but at most for `timeout`, of which the shadow gets a second at most. Blocks.
    pub fn flush(&self, timeout: Duration) {
        let started = clock::instant();
        if let Some(shadow) = &self.shadow {
            shadow.settle(timeout.min(SETTLE_TIMEOUT));
        }
        if let Some(recorder) = &self.recorder {
            recorder.flush(timeout.saturating_sub(started.elapsed()));
        }
    }
}

/// The directories with the compiled policies of `make lambda`: in the package, and in a layer.
pub fn compiled_folders(package: Option<&str>) -> Compiled {
    let folders = package.into_iter().chain(["/opt"]);
    Compiled::folders(folders.map(|folder| PathBuf::from(folder).join("compiled")))
}

/// How many live decisions run at once: one for each processor, as far as the memory suffices, in addition to that of the shadow. `memory` is the function's, in MiB; `limit` is a component's, in bytes.
fn decisions(memory: Option<usize>, limit: usize, shadows: usize) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    // A policy may have three parts, each with its own memory.
    let fitting = memory.map_or(processors, |mebibytes| {
        ((mebibytes << 20) / (3 * limit.max(1))).saturating_sub(shadows)
    });
    u32::try_from(processors.min(fitting)).unwrap_or(1).max(1)
}

/// Starts the retry handler in a function with this `memory`, in MiB. If its policy can't be loaded, it starts too: the fallback decides, and the log says why.
pub async fn start(
    config: &Config,
    compiled: Compiled,
    memory: Option<usize>,
    connections: Arc<Connections>,
) -> Result<Started, ColdStartError> {
    let lambda = config.lambda.as_ref().ok_or(ColdStartError::NoLambda)?;
    let (name, decider) = (lambda.name(), &lambda.decider);
    let shadows = usize::from(decider.shadow.is_some());
    let decisions = decisions(memory, config.limits.memory, shadows);
    let assembly = Assembly::for_lambda(config, compiled, decisions)?;
    // Both at once: a start has little time, and a source may be slow.
    let (policy, shadow) = tokio::try_join!(assembly.policy_or_fallback(decider), async {
        Ok(assembly.shadow(name, decider).await)
    })?;
    let refresh = Refresh::of_policy(Arc::clone(&policy));
    let shadow_refresh = shadow
        .as_ref()
        .map(|shadow| Refresh::of_shadow(Arc::clone(shadow.policy())));
    let decider = assembly
        .decider(name, decider, policy)
        .shadowed_by(shadow.clone());
    let functions = Arc::new(LambdaApi::new(connections.sdk().await));
    check_recursion(lambda, functions.as_ref()).await?;
    let allowed = Allowed::of(&lambda.functions);
    allowed.log();
    let keys = lambda.envelope_key_file.as_deref();
    let envelope_keys = keys.map(|path| EnvelopeKeys::read(path, Readers::All));
    let envelope_keys = envelope_keys.transpose()?;
    let options = RetryHandlerOptions {
        functions: allowed,
        retry_queue: lambda.retry_queue.clone(),
        dead_letter_queues: lambda.dead_letter_queues.clone(),
        hold: lambda.hold,
        handler: lambda.handler.clone(),
        envelope_keys,
        margin: lambda.margin,
    };
    let handler = Arc::new(RetryHandler::new(connections, decider, functions, options));
    Ok(Started {
        handler,
        refresh,
        recorder: assembly.recorder().cloned(),
        shadow,
        shadow_refresh,
    })
}

/// Rejects more attempts than recursion detection allows. Makes requests only if the configuration has more.
async fn check_recursion(
    lambda: &LambdaConfig,
    functions: &dyn Functions,
) -> Result<(), ColdStartError> {
    let most = match lambda.decider.bounds.max_attempts {
        Some(most) if most > UNHINDERED_ATTEMPTS => most,
        _ => return Ok(()),
    };
    for function in lambda.handler.iter().chain(&lambda.functions) {
        match functions.detects_recursion(function).await {
            Ok(false) => {}
            Ok(true) => {
                return Err(ColdStartError::Recursion {
                    most,
                    function: function.clone(),
                });
            }
            Err(error) => {
                tracing::warn!(function, %error, "recursion detection can't be looked up: allow lambda:GetFunctionRecursionConfig");
            }
        }
    }
    Ok(())
}
