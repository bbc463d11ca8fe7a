//! The handler put to work: its policy loaded, its bounds checked against Lambda's recursion detection, its records opened.

use std::num::{NonZero, NonZeroU32};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::refresh::Refresh;
use super::{Allowed, Functions, LambdaApi, Options, RetryHandler};
use crate::clock;
use crate::config::{Config, LambdaConfig, UNHINDERED_ATTEMPTS};
use crate::decider::Decider;
use crate::policy::{Compiled, LivePolicy, Sandbox, SandboxError, StoreError};
use crate::queue::{Connections, short_name};
use crate::record::{Observer, RecordError, Recorder};
use crate::service;
use crate::shadow::{self, SETTLING, Shadow};
use crate::text::chain;
use backstop_versions::scenario::ScenarioError;

/// Why a handler does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not of a handler.
    #[error("the configuration has no [lambda] table")]
    NoLambda,
    /// No engine for policies on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// Records can't be written.
    #[error(transparent)]
    Records(#[from] RecordError),
    /// The folder for what is kept of policies can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The scenarios that the policy has to pass can't be used.
    #[error("lambda.scenarios")]
    Scenarios(#[from] ScenarioError),
    /// More attempts than Lambda lets through.
    #[error(
        "max-attempts is {most}, but recursion detection is on for {function}: it cuts a chain off after about 16 invocations. Set RecursiveLoop to Allow on it (aws lambda put-function-recursion-config --function-name {function} --recursive-loop Allow), or max-attempts to at most {UNHINDERED_ATTEMPTS}"
    )]
    Recursion {
        /// The bound.
        most: NonZeroU32,
        /// The function: the handler's own, or one of those that it retries.
        function: String,
    },
}

/// A handler that is ready, with what writes its records.
#[derive(Debug)]
pub struct Started {
    /// Handles batches.
    pub handler: Arc<RetryHandler>,
    /// Has the policy look for new versions.
    pub refresh: Refresh,
    /// To be flushed when a batch is done: Lambda freezes the process then.
    pub recorder: Option<Arc<Recorder>>,
    /// What is asked beside the live policy.
    pub shadow: Option<Arc<Shadow>>,
    /// Has it look for new versions.
    pub shadow_refresh: Option<Refresh>,
}

impl Started {
    /// Waits until the shadow has answered and what was recorded is written, for at most so long; for the shadow a second at most. Blocks.
    pub fn flush(&self, within: Duration) {
        let begun = clock::instant();
        if let Some(shadow) = &self.shadow {
            shadow.settle(within.min(SETTLING));
        }
        if let Some(recorder) = &self.recorder {
            recorder.flush(within.saturating_sub(begun.elapsed()));
        }
    }
}

/// Folders in which `make lambda` leaves compiled policies: in the package, and in a layer.
pub fn compiled_folders(package: Option<&str>) -> Compiled {
    let folders = package.into_iter().chain(["/opt"]);
    Compiled::folders(folders.map(|folder| PathBuf::from(folder).join("compiled")))
}

/// How many live decisions run at once: as many as there are processors, and memory for at their limits beside that of the shadow's. `memory` is the function's, in MiB.
fn decisions(memory: Option<usize>, limit: usize, shadows: usize) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    // A policy may have three parts, each with memory of its own.
    let fitting = memory.map_or(processors, |mebibytes| {
        ((mebibytes << 20) / (3 * limit.max(1))).saturating_sub(shadows)
    });
    u32::try_from(processors.min(fitting)).unwrap_or(1).max(1)
}

/// Starts the handler in a function of this `memory`, in MiB. A policy that can't be loaded does not keep it from starting: the fallback decides, and the log says why.
pub async fn start(
    config: &Config,
    compiled: Compiled,
    memory: Option<usize>,
    connections: Arc<Connections>,
) -> Result<Started, StartError> {
    let lambda = config.lambda.as_ref().ok_or(StartError::NoLambda)?;
    let sandbox = Sandbox::new(config.limits)?.deciding_at_once(decisions(
        memory,
        config.limits.memory,
        usize::from(lambda.shadow.is_some()),
    ));
    let endpoint = config.endpoint_url.clone();
    let catalog = config.policies.catalog(sandbox, compiled, endpoint)?;
    let check = service::check(lambda.scenarios.as_deref())?;
    let spec = lambda.policy.clone();
    let name = lambda.retry_queue.as_deref().map_or("retries", short_name);
    let shadow = match lambda.shadow.clone() {
        Some(spec) => {
            let catalog = shadow::catalog(&catalog, config.limits)?;
            let name = name.to_owned();
            Some(move || Shadow::load(&name, catalog, spec))
        }
        None => None,
    };
    // Both at once: the time for a start is short, and a source may be slow to answer.
    let ((policy, refused), shadow) = tokio::join!(
        service::blocking(move || LivePolicy::load_or_fall_back(catalog, spec, check)),
        async {
            match shadow {
                Some(load) => Some(service::blocking(load).await),
                None => None,
            }
        }
    );
    if let Some(error) = refused {
        tracing::error!(
            "{}: the fallback decides until the function has a policy that is good",
            chain(&error)
        );
    }
    let recorder = config.decisions.as_ref().map(Recorder::open).transpose()?;
    let refresh = Refresh::of_policy(Arc::clone(&policy));
    let shadow_refresh = shadow
        .as_ref()
        .map(|shadow| Refresh::of_shadow(Arc::clone(shadow.policy())));
    let mut decider = Decider::new(name, policy, lambda.bounds).shadowed_by(shadow.clone());
    if let Some(recorder) = &recorder {
        decider = decider.observed_by(Arc::clone(recorder) as Arc<dyn Observer>);
    }
    let functions = Arc::new(LambdaApi::new(connections.sdk().await));
    check_recursion(lambda, functions.as_ref()).await?;
    let allowed = Allowed::of(&lambda.functions);
    allowed.log();
    let options = Options {
        functions: allowed,
        retry_queue: lambda.retry_queue.clone(),
        dead_letter_queue: lambda.dead_letter_queue.clone(),
        margin: lambda.margin,
    };
    let handler = Arc::new(RetryHandler::new(connections, decider, functions, options));
    Ok(Started {
        handler,
        refresh,
        recorder,
        shadow,
        shadow_refresh,
    })
}

/// Refuses more attempts than recursion detection lets through. Asks Lambda only where there are more.
async fn check_recursion(
    lambda: &LambdaConfig,
    functions: &dyn Functions,
) -> Result<(), StartError> {
    let most = match lambda.bounds.max_attempts {
        Some(most) if most > UNHINDERED_ATTEMPTS => most,
        _ => return Ok(()),
    };
    for function in lambda.handler.iter().chain(&lambda.functions) {
        match functions.detects_recursion(function).await {
            Ok(false) => {}
            Ok(true) => {
                return Err(StartError::Recursion {
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
