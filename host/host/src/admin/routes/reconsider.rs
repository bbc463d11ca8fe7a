//! `POST /v1/reconsider`: lets the active version decide again about waiting messages. `POST /v1/earlier`: passes the new times of messages that are sent again on to another host.

use std::sync::Arc;

use serde::Deserialize;
use tokio::task::spawn_blocking;

use super::wake::{answer, of};
use crate::admin::answer::{Answer, Refused};
use crate::admin::call::{BODY_BYTES, Call};
use crate::admin::interface::Interface;
use crate::failure::{ID_BYTES, Milliseconds, Timestamp};
use crate::waiting::{Earlier, EarlierTime, Reconsider, Reconsidered, Taken};

/// The most times of one request.
const TIMES: usize = 1_000;

/// The most bytes of the times in one request: with the rest of its body, it has to fit.
const TIMES_BYTES: usize = BODY_BYTES - 4 * 1024;

/// The times of other hosts in parts that each fit into a request.
pub fn in_requests<'a>(
    times: impl IntoIterator<Item = &'a EarlierTime>,
) -> Vec<Vec<&'a EarlierTime>> {
    let (mut parts, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for time in times {
        let size = serde_json::to_string(time).map_or(0, |text| text.len() + 1);
        bytes += size;
        match parts.last_mut() {
            Some(part) if bytes <= TIMES_BYTES && part.len() < TIMES => part.push(time),
            Some(_) | None => {
                parts.push(vec![time]);
                bytes = size;
            }
        }
    }
    parts
}

/// The body of a reconsideration.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct ReconsiderBody {
    queue: String,
    #[serde(default)]
    spread: Milliseconds,
    #[serde(default)]
    dry_run: bool,
    #[serde(default)]
    list: bool,
    #[serde(default)]
    failed_until: Option<Timestamp>,
    /// None at all would be those of no version.
    #[serde(default)]
    digests: Option<Vec<String>>,
}

/// The body with the times of another host.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct EarlierBody {
    queue: String,
    messages: Vec<EarlierTime>,
    #[serde(default)]
    dry_run: bool,
}

/// Decides about the waiting messages of a queue again.
pub(super) async fn reconsider(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: ReconsiderBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    let reconsider = Reconsider {
        spread: body.spread,
        dry_run: body.dry_run,
        list: body.list,
        failed_until: body.failed_until,
        digests: body.digests,
    };
    let reconsidered = waiting.reconsider(&reconsider).await;
    let reconsidered: Reconsidered =
        reconsidered.map_err(|other| Refused::conflict(other.to_string()))?;
    let result = format!(
        "{} of {} come sooner, {} of those that are sent again",
        reconsidered.hurried, reconsidered.waiting, reconsidered.resent
    );
    answer(body.queue, body.dry_run, reconsidered, result)
}

/// Takes the times that another host decided.
pub(super) async fn take(host: Arc<Interface>, call: Call) -> Result<Answer, Refused> {
    let body: EarlierBody = call.json()?;
    let waiting = of(&host, &body.queue)?;
    if body.messages.len() > TIMES {
        return Err(Refused::invalid(format!(
            "expected at most {TIMES} messages"
        )));
    }
    let is_id = |it: &EarlierTime| (1..=ID_BYTES).contains(&it.id.len());
    if !body.messages.iter().all(is_id) {
        return Err(Refused::invalid(format!(
            "expected ids of 1 to {ID_BYTES} bytes"
        )));
    }
    let earlier = Earlier {
        messages: body.messages,
        dry_run: body.dry_run,
    };
    let taken = spawn_blocking(move || waiting.take(&earlier));
    let taken: Taken = taken.await.map_err(Refused::internal)?;
    let result = format!(
        "{} times kept, {} of messages that this host has sent again",
        taken.kept, taken.resent
    );
    answer(body.queue, body.dry_run, taken, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_fits_into_the_body_that_a_host_takes() {
        // JSON escapes each of these characters.
        for (id, count) in [("\u{1}".repeat(128), 500), ("m".to_owned(), 3_000)] {
            let time = EarlierTime {
                id,
                failed_at: Timestamp(u64::MAX),
                due: Timestamp(u64::MAX),
            };
            let times = vec![time; count];
            let parts = in_requests(times.iter());
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), count);
            for part in parts {
                assert!(part.len() <= TIMES);
                let text = serde_json::to_string(&part).unwrap();
                assert!(text.len() + 1_000 < BODY_BYTES);
            }
        }
    }
}
