//! The rule of full jitter as an Extism plugin: the failure and the settings come as JSON, and the decision goes back as JSON, as Extism's own documentation does it.

use std::collections::BTreeMap;

use backstop_backoff::{FailedAttempt, Settings, classify, formula, reason_if_permanent};
use extism_pdk::{FnResult, Json, plugin_fn};
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Input {
    settings: BTreeMap<String, String>,
    failure: Failure,
}

/// What a policy of Backstop gets, too.
#[derive(Deserialize)]
#[expect(dead_code, reason = "the rule reads a part of a failure")]
struct Failure {
    message_id: String,
    source: String,
    attempt: u32,
    age: u32,
    failed_at: f64,
    previous_delay: Option<u32>,
    code: String,
    message: String,
    status: Option<u16>,
    retry_after: Option<u32>,
    attributes: BTreeMap<String, String>,
    random: f64,
}

#[derive(Serialize)]
struct Decision {
    class: String,
    dead_letter: Option<String>,
    delay: u32,
}

#[plugin_fn]
pub fn decide(Json(input): Json<Input>) -> FnResult<Json<Decision>> {
    let pairs = input.settings.iter().map(|(name, value)| (&**name, &**value));
    let settings = Settings::parse(pairs)?;
    let failure = &input.failure;
    let failed = FailedAttempt {
        code: &failure.code,
        status: failure.status,
        retry_after: failure.retry_after,
        attempt: failure.attempt,
        age: failure.age,
        previous_delay: failure.previous_delay,
        random: failure.random,
    };
    let class = classify(failed.code, failed.status);
    let delay = settings.delay(formula::full_jitter(&settings, &failed), &failed);
    Ok(Json(Decision {
        class: format!("{class:?}"),
        dead_letter: reason_if_permanent(Some(class), failed.code),
        delay,
    }))
}
