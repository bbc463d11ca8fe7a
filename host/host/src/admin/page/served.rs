//! The queues as their hosts serve them.

use std::collections::{BTreeMap, BTreeSet};

use super::fleet::{Missing, STATUS, id};
use super::view::View;
use crate::admin::routes::{HostStatus, QueueStatus};

/// A queue at a host that serves it.
#[derive(Debug)]
pub(super) struct At {
    /// The [id] of the host.
    pub(super) host: String,
    pub(super) status: QueueStatus,
}

/// Each queue, with the names of the hosts that serve it.
pub(super) type Served = BTreeMap<String, Vec<(String, At)>>;

/// The queues, by name, with what each host says of them.
pub(super) async fn served(view: &View<'_>) -> (Served, Vec<Missing>) {
    let answers = view.fleet.get::<HostStatus>(&view.by, &STATUS, &[]).await;
    let mut served = Served::new();
    for (name, host) in answers.of {
        let id = id(&name, &host);
        for status in host.queues {
            let of = served.entry(status.queue.clone()).or_default();
            let host = id.clone();
            of.push((name.clone(), At { host, status }));
        }
    }
    (served, answers.missing)
}

/// The versions that are active, by their digests: a file may be called differently at each host.
pub(super) fn versions(hosts: &[(String, At)]) -> BTreeSet<String> {
    let titles: BTreeMap<Vec<String>, &str> = hosts
        .iter()
        .map(|(_, at)| {
            let digests = at
                .status
                .policy
                .live
                .iter()
                .map(|part| part.digest.to_string());
            (digests.collect(), at.status.policy.title.as_str())
        })
        .collect();
    titles.into_values().map(str::to_owned).collect()
}
