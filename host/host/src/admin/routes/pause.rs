//! `POST /v1/pause`, `POST /v1/resume` and `POST /v1/set`: an operator stops a queue, lets it go on, and changes its limits.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::rate::Rate;
use serde::{Deserialize, Serialize};

use super::wake::answer;
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::Call;
use crate::admin::interface::Interface;
use crate::consumer::{Controls, NewLimits, Pause};
use crate::failure::Milliseconds;
use crate::text::{cut, one_line};

/// The most bytes of a reason that are kept.
const WHY_BYTES: usize = 500;

/// The longest pause that ends by itself, and the longest ramp: a message is kept for 14 days at most.
const LONGEST: Duration = Duration::from_secs(14 * 86_400);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct PauseBody {
    queue: String,
    /// How long, in milliseconds; until it is resumed if it is missing.
    #[serde(default)]
    r#for: Option<Milliseconds>,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ResumeBody {
    queue: String,
    /// The time over which the messages in flight grow, in milliseconds.
    #[serde(default)]
    ramp: Milliseconds,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct SetBody {
    queue: String,
    /// `50/s`, or `none`.
    #[serde(default)]
    rate: Option<String>,
    #[serde(default)]
    max_in_flight: Option<usize>,
    /// That of each key: `5/s`, or `none`.
    #[serde(default)]
    each_rate: Option<String>,
    #[serde(default)]
    each_max_in_flight: Option<NumberOrNone>,
}

/// A number, or `none`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum NumberOrNone {
    Number(usize),
    Text(String),
}

/// The end of a pause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Resumed {
    /// The pause that was ended. Without it, the queue was not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Pause>,
}

/// Pauses a queue.
pub(super) async fn pause(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let PauseBody { queue, r#for, why } = call.json()?;
    let over = r#for.map(Milliseconds::as_duration);
    if over.is_some_and(|over| !(Duration::from_secs(1)..=LONGEST).contains(&over)) {
        let text = "expected `for` to be 1 second to 14 days, in milliseconds, or none: then the pause lasts until the queue is resumed";
        return Err(Refused::invalid(text));
    }
    let why = why.map(|why| {
        let mut why = one_line(&why);
        cut(&mut why, WHY_BYTES);
        why
    });
    let pause = controls(&host, &queue)?.pause(over, why, call.caller.to_string());
    answer(queue, false, pause, "paused".to_owned())
}

/// Ends a pause.
pub(super) async fn resume(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let ResumeBody { queue, ramp } = call.json()?;
    let ramp = ramp.as_duration();
    if ramp > LONGEST {
        let text = "expected `ramp` to be at most 14 days, in milliseconds";
        return Err(Refused::invalid(text));
    }
    let ended = controls(&host, &queue)?.resume(ramp, &call.caller.to_string());
    let result = match ended {
        Some(_) => "resumed",
        None => "it was not paused",
    };
    answer(queue, false, Resumed { ended }, result.to_owned())
}

/// Changes the limits of a queue until the host ends.
pub(super) async fn set(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: SetBody = call.json()?;
    let limits = NewLimits {
        rate: rate("rate", body.rate.as_deref())?,
        max_in_flight: body
            .max_in_flight
            .map(|number| in_flight("max-in-flight", number))
            .transpose()?,
        each_rate: rate("each-rate", body.each_rate.as_deref())?,
        each_max_in_flight: body
            .each_max_in_flight
            .map(|given| match given {
                NumberOrNone::Number(number) => in_flight("each-max-in-flight", number).map(Some),
                NumberOrNone::Text(text) if text == "none" => Ok(None),
                NumberOrNone::Text(_) => Err(Refused::invalid(
                    "expected `each-max-in-flight` to be 1 to 100000, or none for no limit",
                )),
            })
            .transpose()?,
    };
    if limits == NewLimits::default() {
        let text = "expected `rate`, `max-in-flight`, `each-rate` or `each-max-in-flight`: without one, nothing is to be changed";
        return Err(Refused::invalid(text));
    }
    let (found, polling) = (
        controls(&host, &body.queue)?,
        &host.queue(&body.queue)?.polling,
    );
    if (limits.each_rate.is_some() || limits.each_max_in_flight.is_some()) && !found.has_keys() {
        let text = format!(
            "the messages of `{}` have no keys: expected a queue whose configuration has `limit-each`, which says what the messages of a key have in common",
            body.queue
        );
        return Err(Refused::invalid(text));
    }
    found.set(limits, &call.caller.to_string());
    let serving = found.serving(polling.problem());
    answer(body.queue, false, serving, "changed".to_owned())
}

/// A rate, or `none`; `None` if it stays.
fn rate(name: &str, given: Option<&str>) -> Result<Option<Option<Rate>>, Refused> {
    match given {
        None => Ok(None),
        Some("none") => Ok(Some(None)),
        Some(text) => match text.parse() {
            Ok(rate) => Ok(Some(Some(rate))),
            Err(error) => Err(Refused::invalid(format!(
                "`{name}`: {error}, or none for no limit"
            ))),
        },
    }
}

fn in_flight(name: &str, number: usize) -> Result<usize, Refused> {
    if (1..=100_000).contains(&number) {
        Ok(number)
    } else {
        Err(Refused::invalid(format!(
            "expected `{name}` to be 1 to 100000"
        )))
    }
}

fn controls(host: &Interface, queue: &str) -> Result<Arc<Controls>, Refused> {
    let controls = host.queue(queue)?.controls.clone();
    controls.ok_or_else(|| Refused::not_found(format!("the queue `{queue}` is not consumed")))
}
