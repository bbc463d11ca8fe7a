//! What producers send: each message says what its attempts do, so that workers need to remember nothing.

use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::plan::{QUEUES, Queue};

/// What a worker does with a message. `count` is the receive count that the host names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Do {
    /// Succeeds.
    Fine,
    /// HTTP 503 up to the count `k`.
    Flaky,
    /// HTTP 429 with a `Retry-After` up to the count `k`.
    Throttled,
    /// HTTP 422 each time: no attempt can help.
    Wrong,
    /// HTTP 500 each time.
    Broken,
    /// Succeeds after longer than the visibility timeout.
    Slow,
    /// Answers nothing within the longest attempt, the first time.
    Hang,
    /// HTTP 503 each time, and asks for two hours.
    Later,
    /// HTTP 503 with a hundred kilobytes of text that no terminal should see, up to the count `k`.
    Big,
}

/// A message, which is its body.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Body {
    /// Its number, and nobody else's.
    pub(crate) n: u32,
    #[serde(rename = "do")]
    pub(crate) what: Do,
    #[serde(default)]
    pub(crate) k: u32,
    /// How long the work takes, in milliseconds.
    #[serde(default)]
    pub(crate) ms: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) pad: String,
}

/// A message, and where it goes.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) body: Body,
    /// Its queue, by its place in [`QUEUES`].
    pub(crate) queue: usize,
    /// Its group, on a FIFO queue.
    pub(crate) group: u32,
    /// When it is sent, in milliseconds after the begin.
    pub(crate) at: u64,
}

/// The messages of a seed, in the order of their times.
pub(crate) fn draw(seed: u64, count: u32, seconds: u64) -> Vec<Planned> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let shares: Vec<usize> = QUEUES
        .iter()
        .enumerate()
        .flat_map(|(at, queue)| vec![at; queue.share])
        .collect();
    let mut planned: Vec<_> = (0..count)
        .map(|n| {
            let queue = *shares.choose(&mut random).unwrap();
            // A third of them in bursts.
            let millis = seconds * 1_000;
            let at = random.random_range(0..millis);
            let at = if random.random_ratio(1, 3) {
                at / 5_000 * 5_000
            } else {
                at
            };
            Planned {
                body: body(n, &QUEUES[queue], &mut random),
                queue,
                group: random.random_range(0..20),
                at,
            }
        })
        .collect();
    planned.sort_by_key(|planned| (planned.at, planned.body.n));
    planned
}

fn body(n: u32, queue: &Queue, random: &mut ChaCha8Rng) -> Body {
    let what = match random.random_range(0..1_000) {
        0..600 => Do::Fine,
        600..850 => Do::Flaky,
        850..900 => Do::Throttled,
        900..935 => Do::Wrong,
        935..970 => Do::Broken,
        970..985 if !queue.fifo => Do::Slow,
        985..987 if !queue.fifo => Do::Hang,
        // On a FIFO queue, its group would wait behind it.
        987..989 if queue.honours_retry_after && !queue.fifo => Do::Later,
        989..996 => Do::Big,
        _ => Do::Fine,
    };
    let ms = match what {
        Do::Slow => random.random_range(9_000..13_000),
        Do::Hang => 60_000,
        Do::Fine | Do::Flaky | Do::Throttled | Do::Wrong | Do::Broken | Do::Later | Do::Big => {
            random.random_range(0..40)
        }
    };
    let pad = if random.random_ratio(1, 50) {
        20_000
    } else {
        0
    };
    Body {
        n,
        what,
        k: random.random_range(1..4),
        ms,
        pad: "x".repeat(pad),
    }
}

/// What the worker answers: a status, a `Retry-After` and a body.
pub(crate) fn answer(body: &Body, count: u32) -> (u16, Option<&'static str>, String) {
    let said = |of: &str, text: &str| {
        serde_json::json!({"errorType": of, "errorMessage": text}).to_string()
    };
    match body.what {
        Do::Wrong => (422, None, said("Invalid", "no such article")),
        Do::Broken => (500, None, said("KeyError", "article")),
        Do::Later => (503, Some("7200"), said("Closed", "come back in two hours")),
        Do::Flaky if count <= body.k => (503, None, String::new()),
        Do::Throttled if count <= body.k => (429, Some("1"), said("Busy", "ten a minute")),
        Do::Big if count <= body.k => (
            503,
            None,
            said("Big", &"\u{1b}[31m\u{202e}\u{0}big".repeat(10_000)),
        ),
        Do::Fine | Do::Flaky | Do::Throttled | Do::Big | Do::Slow | Do::Hang => {
            (200, None, String::new())
        }
    }
}
