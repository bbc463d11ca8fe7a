//! The report of what waits, for a terminal.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_core::text::one_line;
use backstop_host::admin::{Host, HostWaiting};
use backstop_settle::waiting::{Count, Due, Group, QueueReport, Reach};

use super::OUT_OF_REACH;

use crate::terminal::style::{BOLD, DIM, YELLOW};
use crate::terminal::{Table, bar, columns, count, counted, println, short, wrapped};
use crate::time::rounded;

/// The width of the longest bar, in characters.
const BAR: usize = 40;

/// The most groups that are shown.
const GROUPS: usize = 20;

/// The most characters of a code that are shown.
const CODE: usize = 60;

/// Prints what the hosts remember of each queue, added up.
pub(super) fn print(answers: &[(&Host, HostWaiting)], is_filtered: bool, now: Timestamp) {
    let mut queues: BTreeMap<&str, Vec<(&Host, &QueueReport)>> = BTreeMap::new();
    for (host, answer) in answers {
        for report in &answer.queues {
            let reports = queues.entry(&report.queue).or_default();
            reports.push((host, report));
        }
    }
    for (number, (name, reports)) in queues.into_iter().enumerate() {
        if number > 0 {
            println!();
        }
        let sum = sum(reports.iter().map(|(_, report)| *report));
        print_queue(name, &sum, is_filtered, now);
        for (host, report) in reports {
            print_host(host, report, now);
        }
    }
}

/// The reports of several hosts of one queue as one, without their policies.
fn sum<'a>(reports: impl Iterator<Item = &'a QueueReport>) -> QueueReport {
    let mut sum = QueueReport::default();
    let mut groups: BTreeMap<(&str, &str), Group> = BTreeMap::new();
    let mut attempts = BTreeMap::new();
    for report in reports {
        sum.waiting += report.waiting;
        sum.resent += report.resent;
        sum.not_remembered += report.not_remembered;
        sum.unlisted += report.unlisted;
        sum.wakes = sum.wakes.max(report.wakes);
        sum.reach.in_flight = sum.reach.in_flight.max(report.reach.in_flight);
        sum.reach.known += report.reach.known;
        for group in &report.groups {
            let key = (group.code.as_str(), group.class.as_str());
            groups
                .entry(key)
                .and_modify(|all| all.add(group))
                .or_insert_with(|| group.clone());
        }
        for Count { value, count } in &report.attempts {
            *attempts.entry(*value).or_default() += count;
        }
        sum.add_groups(report);
        if sum.due.counts.is_empty() {
            sum.due = report.due.clone()
        } else {
            sum.due.add(&report.due)
        }
    }
    sum.groups = groups.into_values().collect();
    sum.groups.sort_by_key(|group| Reverse(group.count));
    let attempts = attempts.into_iter();
    sum.attempts = attempts
        .map(|(value, count)| Count { value, count })
        .collect();
    sum
}

fn print_queue(name: &str, sum: &QueueReport, is_filtered: bool, now: Timestamp) {
    let which = if is_filtered { " that match" } else { "" };
    println!(
        "{BOLD}{}{BOLD:#}  {}{which} {}",
        one_line(name),
        counted(sum.waiting, "message"),
        if sum.waiting == 1 { "waits" } else { "wait" }
    );
    if sum.resent > 0 {
        println!(
            "  {} of them are held by being sent again",
            count(sum.resent)
        );
    }
    if sum.not_remembered > 0 {
        println!(
            "  {YELLOW}{} more wait and are not remembered, because there are too many{YELLOW:#}",
            count(sum.not_remembered)
        );
    }
    if let Some(in_flight) = sum.reach.in_flight {
        line(&invisible(in_flight, Reach::missing([sum.reach])));
    }
    if sum.wakes > 0 {
        let apply = if sum.wakes == 1 {
            "wake still applies"
        } else {
            "wakes still apply"
        };
        println!("  {} {apply} to messages that are sent again", sum.wakes);
    }
    if sum.waiting == 0 {
        return;
    }
    println!();
    print_groups(sum, now);
    println!();
    if let Some(by) = &sum.grouped_by {
        print_by_group(sum, by, now);
        println!();
    }
    print_attempts(&sum.attempts);
    println!();
    for line in histogram(&sum.due) {
        println!("  {line}");
    }
}

/// What the queue itself says, and how much of it no host knows that was asked.
fn invisible(in_flight: u64, missing: Option<u64>) -> String {
    let known = match (in_flight, missing.unwrap_or_default()) {
        (0, _) => return "the queue counts no invisible messages".to_owned(),
        (_, 0) => "all of them wait or are handled here".to_owned(),
        (_, missing) => format!(
            "about {} of them are out of reach, {OUT_OF_REACH}",
            count(missing)
        ),
    };
    let in_flight = counted(in_flight, "invisible message");
    format!("the queue counts about {in_flight}: {known}")
}

/// Prints a line below the name of a queue.
fn line(text: &str) {
    println!("  {}", wrapped(text, 2, columns()));
}

fn print_groups(sum: &QueueReport, now: Timestamp) {
    let headers = ["waiting", "due in", "class", "code", "such as"];
    let rows = sum.groups.iter().take(GROUPS).map(|group| {
        let sample = group.samples.first();
        vec![
            count(group.count),
            due(group, now),
            one_line(&group.class),
            code(&group.code),
            sample.map_or_else(String::new, |id| one_line(id)),
        ]
    });
    let table = Table {
        headers: headers.map(str::to_owned).to_vec(),
        rows: rows.collect(),
        right: 2,
        flexible: 2..4,
    };
    let fitted = table.fit(columns().map(|all| all.saturating_sub(2)));
    for line in fitted.lines {
        println!("  {line}");
    }
    if fitted.is_last_left_out {
        println!("  `--json` shows some of the ids; a wider terminal shows one of each row");
    }
    let hidden: u64 = sum.groups.iter().skip(GROUPS).map(|it| it.count).sum();
    if hidden + sum.unlisted > 0 {
        println!("  {} more with other codes", count(hidden + sum.unlisted));
    }
}

/// What waits by the text that the queue's configuration groups it by.
fn print_by_group(sum: &QueueReport, by: &str, now: Timestamp) {
    let headers = ["waiting".to_owned(), "due in".to_owned(), one_line(by)];
    let rows = sum.by_group.iter().take(GROUPS).map(|group| {
        vec![
            count(group.count),
            between(group.next, group.last, now),
            code(&group.value),
        ]
    });
    let table = Table {
        headers: headers.to_vec(),
        rows: rows.collect(),
        right: 2,
        flexible: 2..3,
    };
    let fitted = table.fit(columns().map(|all| all.saturating_sub(2)));
    for line in fitted.lines {
        println!("  {line}");
    }
    let hidden: u64 = sum.by_group.iter().skip(GROUPS).map(|it| it.count).sum();
    let more = hidden + sum.by_group_unlisted;
    if more > 0 {
        println!("  {} more of other values", count(more));
    }
}

fn print_attempts(attempts: &[Count<u32>]) {
    let shown = attempts.iter().take(GROUPS).map(|it| {
        let times = if it.value == 1 { "attempt" } else { "attempts" };
        format!("{} after {} {times}", count(it.count), it.value)
    });
    let mut shown: Vec<_> = shown.collect();
    let more: u64 = attempts.iter().skip(GROUPS).map(|it| it.count).sum();
    if more > 0 {
        shown.push(format!("{} after more", count(more)));
    }
    line(&shown.join(", "));
}

fn print_host(host: &Host, report: &QueueReport, now: Timestamp) {
    let text = format!(
        "{} remembers {} of what has failed since {}, {} ago",
        one_line(host.name()),
        count(report.waiting),
        report.since.rfc3339(),
        rounded(now.since(report.since))
    );
    println!("  {DIM}{}{DIM:#}", wrapped(&text, 2, columns()));
    if let Some(reason) = &report.not_polled {
        let text = format!(
            "{} receives nothing: the queue {}",
            one_line(host.name()),
            one_line(reason)
        );
        println!("  {YELLOW}{}{YELLOW:#}", wrapped(&text, 2, columns()));
    }
}

/// At most a few words of a code, as one line.
fn code(code: &str) -> String {
    match code {
        "" => "(none)".to_owned(),
        code => short(code, CODE),
    }
}

/// From when until when the messages of a group are due: `12s to 7.1h`.
fn due(group: &Group, now: Timestamp) -> String {
    between(group.next, group.last, now)
}

fn between(next: Timestamp, last: Timestamp, now: Timestamp) -> String {
    let [next, last] = [next, last].map(|time| match time.since(now) {
        Duration::ZERO => "now".to_owned(),
        left => rounded(left).to_string(),
    });
    if next == last {
        next
    } else {
        format!("{next} to {last}")
    }
}

/// One line for each bar: when, how many, and the bar. Times at which nothing is due have none.
fn histogram(due: &Due) -> Vec<String> {
    let most = due.counts.iter().copied().max().unwrap_or_default();
    // An edge of a bar, exactly: `0s`, `90s`, `15m`, `1h15m`.
    let edge = |bar: usize| {
        let bar = u32::try_from(bar).unwrap_or(u32::MAX);
        Milliseconds(due.step.0.saturating_mul(bar)).to_string()
    };
    let edges = (0..=due.counts.len()).map(|bar| edge(bar).chars().count());
    let wide = edges.max().unwrap_or_default();
    let digits = count(most).len();
    let bars = due.counts.iter().enumerate().filter(|(_, due)| **due > 0);
    let lines = bars.map(|(number, due)| {
        let (from, to) = (edge(number), edge(number + 1));
        let (due, bar) = (count(*due), bar(*due, most, BAR));
        let line = format!("due in {from:>wide$} to {to:>wide$}  {due:>digits$} {bar}");
        line.trim_end().to_owned()
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(waiting: u64, step: u32, counts: &[u64]) -> QueueReport {
        QueueReport {
            queue: "orders".to_owned(),
            waiting,
            reach: Reach {
                in_flight: Some(waiting),
                known: 1,
            },
            groups: vec![Group {
                code: "HTTP 503".to_owned(),
                class: "transient".to_owned(),
                count: waiting,
                next: Timestamp(waiting),
                last: Timestamp(100),
                samples: vec![format!("m-{waiting}")],
            }],
            attempts: vec![Count {
                value: 1,
                count: waiting,
            }],
            due: Due {
                from: Timestamp(0),
                step: Milliseconds(step),
                counts: counts.to_vec(),
            },
            ..QueueReport::default()
        }
    }

    #[test]
    fn the_reports_of_hosts_are_added_up() {
        let (one, other) = (report(3, 1_000, &[3]), report(5, 5_000, &[2, 0, 3]));
        let sum = sum([&one, &other].into_iter());
        assert_eq!((sum.waiting, sum.reach.in_flight), (8, Some(5)));
        assert_eq!(Reach::missing([sum.reach]), Some(3));
        assert_eq!((sum.groups.len(), sum.groups[0].count), (1, 8));
        assert_eq!(sum.groups[0].next, Timestamp(3));
        assert_eq!(sum.groups[0].samples, ["m-3", "m-5"]);
        assert_eq!(sum.attempts, [Count { value: 1, count: 8 }]);
        assert_eq!(sum.due.counts, [5, 0, 3]);
    }

    #[test]
    fn what_is_out_of_reach_is_said_with_the_queues_own_count() {
        assert_eq!(
            invisible(0, Some(0)),
            "the queue counts no invisible messages"
        );
        assert_eq!(
            invisible(1, Some(0)),
            "the queue counts about 1 invisible message: all of them wait or are handled here"
        );
        let missing = invisible(900, Some(340));
        assert!(
            missing.contains("about 340 of them are out of reach"),
            "{missing}"
        );
    }

    #[test]
    fn a_histogram_has_a_bar_for_each_step_in_which_something_is_due() {
        let due = report(0, 900_000, &[1_200, 0, 60, 0, 0, 600]).due;
        let full = "█".repeat(BAR);
        let half = "█".repeat(BAR / 2);
        assert_eq!(
            histogram(&due),
            [
                format!("due in    0s to   15m  1,200 {full}"),
                "due in   30m to   45m     60 ██".to_owned(),
                format!("due in 1h15m to 1h30m    600 {half}"),
            ]
        );
        let late = report(0, 900_000, &[0, 0, 7]).due;
        assert_eq!(histogram(&late), [format!("due in 30m to 45m  7 {full}")]);
        assert!(histogram(&Due::default()).is_empty());
    }

    #[test]
    fn the_due_times_of_a_group_are_one_time_or_a_range() {
        let group = report(7_000, 1_000, &[1]).groups.remove(0);
        assert_eq!(due(&group, Timestamp(0)), "7s to 100ms");
        let later = Group {
            last: group.next,
            ..group
        };
        assert_eq!(due(&later, Timestamp(0)), "7s");
        assert_eq!(due(&later, Timestamp(7_000)), "now");
    }

    #[test]
    fn a_hostile_code_is_shown_as_one_short_line() {
        assert_eq!(code("\u{1b}[2J\n"), "\\u{1b}[2J\\n");
        assert_eq!(code(&"x".repeat(5_000)).chars().count(), CODE + 1);
    }
}
