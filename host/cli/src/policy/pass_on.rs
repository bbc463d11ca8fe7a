//! Passes the new times of messages that are sent again on to the other hosts: any host of the queue may receive such a message when its hop ends.

use backstop_core::text::chain;
use backstop_host::admin::{ClientError, Host, HostAnswer, in_requests};
use backstop_settle::waiting::{EarlierTime, Taken};
use futures_util::future::join_all;
use serde_json::json;
use tokio::runtime::Handle;

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
        for times in in_requests(times) {
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

fn add(sum: &mut Taken, taken: &Taken) {
    sum.kept += taken.kept;
    sum.resent += taken.resent;
    sum.resent_until = sum.resent_until.max(taken.resent_until);
}
