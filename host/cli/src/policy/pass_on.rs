//! Passes the new times of messages that are sent again on to the other hosts: any host of the queue may receive such a message when its hop ends.

use backstop_core::text::chain;
use backstop_host::admin::{ClientError, Host, HostAnswer};
use backstop_settle::waiting::{EarlierTime, Taken};
use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;

/// The most bytes of the times in one request. A host takes bodies of 64 KiB.
const BYTES: usize = 60_000;

/// The most times in one request.
const TIMES: usize = 1_000;

/// Passes the times that each host has decided on to all others; blocks. Returns what each host did with those of the others. A host that gives no answer is logged.
pub(super) fn pass_on(
    queue: &str,
    dry_run: bool,
    lists: &[(&Host, Vec<EarlierTime>)],
) -> Vec<Taken> {
    let requests = lists.iter().enumerate().map(async |(place, (host, _))| {
        let others = lists.iter().enumerate();
        let others = others.filter(|(other, _)| *other != place);
        let times = others.flat_map(|(_, (_, times))| times);
        let mut sum = Taken::default();
        for times in requests(times) {
            match take(host, queue, dry_run, &times).await {
                Ok(taken) => add(&mut sum, &taken),
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(error, "a host does not take the times of the others");
                    break;
                }
            }
        }
        sum
    });
    Handle::current().block_on(join_all(requests))
}

async fn take(
    host: &Host,
    queue: &str,
    dry_run: bool,
    times: &[&EarlierTime],
) -> Result<Taken, ClientError> {
    let body = json!({"queue": queue, "messages": times, "dry-run": dry_run});
    let answer: HostAnswer<Taken> = host.post(&["v1", "earlier"], &body).await?;
    Ok(answer.result)
}

/// The times in parts that each fit into a request.
fn requests<'a>(times: impl Iterator<Item = &'a EarlierTime>) -> Vec<Vec<&'a EarlierTime>> {
    let (mut parts, mut bytes) = (Vec::<Vec<_>>::new(), 0);
    for time in times {
        let size = serde_json::to_string(time).map_or(0, |text| text.len() + 1);
        bytes += size;
        match parts.last_mut() {
            Some(part) if bytes <= BYTES && part.len() < TIMES => part.push(time),
            Some(_) | None => {
                parts.push(vec![time]);
                bytes = size;
            }
        }
    }
    parts
}

fn add(sum: &mut Taken, taken: &Taken) {
    sum.kept += taken.kept;
    sum.resent += taken.resent;
    sum.resent_until = sum.resent_until.max(taken.resent_until);
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_core::failure::Timestamp;

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
            let parts = requests(times.iter());
            assert_eq!(parts.iter().map(Vec::len).sum::<usize>(), count);
            for part in parts {
                assert!(part.len() <= TIMES);
                assert!(serde_json::to_string(&part).unwrap().len() < 64 << 10);
            }
        }
    }
}
