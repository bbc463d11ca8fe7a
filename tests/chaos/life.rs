//! Everything that is known of one message, in the order of time.

use crate::evidence::Evidence;

/// A line for each thing that happened to a message, with the seconds since the begin.
pub(crate) fn of(evidence: &Evidence, n: u32) -> Vec<String> {
    let mut events: Vec<(u64, String)> = Vec::new();
    let mut hosts: Vec<&str> = Vec::new();
    if let Some(planned) = evidence.planned.get(&n) {
        let body = &planned.body;
        events.push((
            0,
            format!(
                "planned: {:?} up to {}, {} ms, queue {}, group {}",
                body.what, body.k, body.ms, planned.queue, planned.group
            ),
        ));
    }
    if let Some(sent) = evidence.sent.get(&n) {
        let doubtful = if sent.doubtful { ", perhaps twice" } else { "" };
        events.push((sent.at, format!("sent as {}{doubtful}", sent.id)));
    }
    for attempt in evidence.attempts.get(&n).into_iter().flatten() {
        hosts.push(&attempt.host);
        events.push((
            attempt.began,
            format!(
                "attempt from {} as {}, receive {}",
                attempt.host, attempt.id, attempt.count
            ),
        ));
        if let Some((at, status)) = attempt.answered {
            events.push((at, format!("answer to {}: {status}", attempt.host)));
        }
    }
    for recorded in evidence.records.get(&n).into_iter().flatten() {
        let record = &recorded.record;
        let text = match recorded.text("event") {
            "" => format!(
                "{} decides after attempt {}: {} {} {} by {} (error {}, {})",
                recorded.host,
                record["failure"]["attempt"],
                recorded.text("verdict"),
                record["delay"],
                recorded.text("reason"),
                recorded.text("by"),
                record["failure"]["error"]["code"],
                recorded.text("cause"),
            ),
            event => format!(
                "{} records {event} {} {} {}",
                recorded.host,
                recorded.text("letter-id"),
                recorded.text("sent-as"),
                recorded.text("reason"),
            ),
        };
        hosts.push(recorded.host);
        events.push((recorded.at(), text));
    }
    for letter in evidence.letters.get(&n).into_iter().flatten() {
        events.push((
            evidence.ended,
            format!("letter {} in the dead-letter queue", letter.id),
        ));
    }
    for left in evidence.left.get(&n).into_iter().flatten() {
        events.push((
            evidence.ended,
            format!("{} in its queue until {}", left.id, left.visible_at),
        ));
    }
    let of_it = |at: u64, to: u64| {
        let times = events.iter().map(|it| it.0).filter(|it| *it > 0);
        let (first, last) = (
            times.clone().min(),
            times.filter(|it| *it < evidence.ended).max(),
        );
        at <= last.unwrap_or(0) + 30_000 && to.saturating_add(15_000) >= first.unwrap_or(0)
    };
    let windows: Vec<_> = evidence
        .windows
        .iter()
        .filter(|it| it.hosts.iter().any(|host| hosts.contains(host)) && of_it(it.from, it.to))
        .map(|it| {
            let lasts = it.to.min(evidence.ended).saturating_sub(it.from);
            (it.from, format!("    [{:?} for {lasts} ms]", it.kind))
        })
        .collect();
    events.extend(windows);
    events.sort_by_key(|it| it.0);
    let began = evidence.began;
    let seconds = |at: u64| (at.max(began) - began) as f64 / 1_000.0;
    events
        .into_iter()
        .map(|(at, text)| format!("{:>9.3} {text}", seconds(at)))
        .collect()
}
