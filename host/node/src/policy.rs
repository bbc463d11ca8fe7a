//! One decision, for tests of a policy and for programs that apply decisions themselves.

use std::sync::Arc;

use backstop_embed::policy;
use napi::bindgen_prelude::{AsyncTask, Uint8Array};
use napi::{Env, Result, Task};
use napi_derive::napi;

use crate::{error, failure, number};

/// A policy that is loaded and validated, as a host does. Each decision is made in a fresh instance.
#[napi]
#[derive(Debug)]
pub struct LoadedPolicy(Arc<policy::Policy>);

/// A setting of a policy.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub struct Setting {
    pub name: String,
    pub text: String,
}

/// A failure without its error.
#[napi(object, object_to_js = false)]
#[derive(Debug)]
pub struct Circumstances {
    pub attempt: u32,
    /// Milliseconds.
    pub age: f64,
    pub previous_delay: Option<f64>,
    pub message_id: String,
    pub source: String,
    pub random: Option<f64>,
    pub attributes: Vec<Setting>,
    pub body: Option<String>,
}

/// What was decided about one failure.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct Decision {
    /// `transient`, `throttled`, `permanent`, or one of the policy.
    pub class: String,
    /// `retry`, `dead-letter` or `discard`.
    pub verdict: String,
    /// Milliseconds, of a retry.
    pub delay: Option<u32>,
    /// Why there is no other attempt.
    pub reason: Option<String>,
    /// `policy`, `shortened`, `bound` or `fallback`.
    pub by: String,
    /// How the policy broke, if the fallback has decided.
    pub cause: Option<String>,
    /// How long what is called is down, as the policy says, in milliseconds.
    pub down_for: Option<u32>,
    /// The policy's log lines.
    pub log: Vec<PolicyLine>,
    /// The fuel that the policy has used.
    pub fuel: f64,
}

/// A line that a policy has logged.
#[napi(object, object_from_js = false)]
#[derive(Debug)]
pub struct PolicyLine {
    pub level: String,
    pub message: String,
}

/// A policy that is being loaded, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Loading {
    name: String,
    settings: Vec<(String, String)>,
}

impl Task for Loading {
    type Output = policy::Policy;
    type JsValue = LoadedPolicy;

    fn compute(&mut self) -> Result<policy::Policy> {
        policy::Policy::load(&self.name, self.settings.clone()).map_err(error)
    }

    fn resolve(&mut self, _: Env, policy: policy::Policy) -> Result<LoadedPolicy> {
        Ok(LoadedPolicy(Arc::new(policy)))
    }
}

/// Loads the policy with this name, path or address.
#[napi(ts_return_type = "Promise<LoadedPolicy>")]
pub(crate) fn load_policy(name: String, settings: Vec<Setting>) -> AsyncTask<Loading> {
    let settings = pairs(settings);
    AsyncTask::new(Loading { name, settings })
}

#[napi]
impl LoadedPolicy {
    /// Its name and the beginning of its digest.
    #[napi(getter)]
    pub fn title(&self) -> String {
        self.0.title()
    }

    /// Decides about a failure: what JavaScript has found at the error, and its circumstances.
    #[napi]
    pub fn decide(&self, found: Uint8Array, circumstances: Circumstances) -> Result<Decision> {
        let decided = self
            .0
            .decide(failure::read(&found, None), circumstances.into());
        decided.map(Decision::from).map_err(error)
    }
}

fn pairs(settings: Vec<Setting>) -> Vec<(String, String)> {
    settings.into_iter().map(|it| (it.name, it.text)).collect()
}

impl From<Circumstances> for policy::Circumstances {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float saturates when it is cast"
    )]
    fn from(from: Circumstances) -> Self {
        Self {
            attempt: from.attempt,
            age_ms: from.age as u64,
            previous_delay_ms: from.previous_delay.map(|it| it as u64),
            message_id: from.message_id,
            source: from.source,
            random: from.random,
            attributes: pairs(from.attributes),
            body: from.body,
        }
    }
}

impl From<policy::Decision> for Decision {
    fn from(from: policy::Decision) -> Self {
        let log = from.log.into_iter();
        Self {
            class: from.class,
            verdict: from.verdict,
            delay: from.delay_ms,
            reason: from.reason,
            by: from.decided_by,
            cause: from.broken,
            down_for: from.down_for_ms,
            log: log
                .map(|(level, message)| PolicyLine { level, message })
                .collect(),
            fuel: number(from.fuel),
        }
    }
}
