//! What must hold of every delivery, seen from outside alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use backstop_deliver::{Status, Undelivered};

use super::plan::{Plan, To};
use super::run::History;

/// Checks a history. Each text is something that must not be.
pub(crate) fn check(plan: &Plan, history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut expect = |holds: bool, text: &dyn Fn() -> String| {
        if !holds {
            wrong.push(text());
        }
    };
    expect(history.counts.is_some(), &|| {
        "the delivery never ended".to_owned()
    });
    let seen = &history.seen;
    let (is_quiet, is_stopped) = (seen.faults == 0, plan.stops.is_some());
    let mut stored: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, number) in &seen.stored {
        *stored.entry(*number).or_default() += 1;
    }
    let mut outcomes: BTreeMap<u32, usize> = BTreeMap::new();
    for ended in &history.ended {
        let number = ended.number;
        *outcomes.entry(number).or_default() += 1;
        let times = stored.get(&number).copied().unwrap_or_default();
        let is_refused = plan
            .entries
            .iter()
            .any(|it| it.number == number && it.refused);
        let requests = seen.requests.iter();
        let requests = requests.filter(|(_, all)| all.contains(&number)).count();
        expect(
            usize::try_from(ended.attempts).unwrap() == requests,
            &|| {
                format!(
                    "entry {number} counts {} attempts, and {requests} requests had it",
                    ended.attempts
                )
            },
        );
        // A request that is refused as a whole is sent in halves, which is no attempt of the policy's.
        let halves = if plan.entries.iter().any(|it| it.refused) {
            12
        } else {
            0
        };
        expect(ended.attempts <= plan.max_attempts + halves, &|| {
            format!(
                "entry {number} has {} attempts of {}",
                ended.attempts, plan.max_attempts
            )
        });
        expect(times <= 1 || ended.unknown > 0, &|| {
            format!("entry {number} is there {times} times, and no result was unknown")
        });
        expect(ended.unknown == 0 || !is_quiet, &|| {
            format!("entry {number} had an unknown result, and nothing went wrong")
        });
        match &ended.status {
            Status::Delivered(()) => {
                expect(times > 0, &|| {
                    format!("entry {number} is reported as delivered, and is not there")
                });
                expect(ended.possibly_twice == (ended.unknown > 0), &|| {
                    format!("entry {number} says nothing of its unknown results")
                });
            }
            Status::Superseded => expect(false, &|| {
                format!("entry {number} is superseded, which nobody asked for")
            }),
            Status::Undelivered(why) => {
                expect(times == 0 || ended.unknown > 0, &|| {
                    format!("entry {number} is reported as undelivered ({why}), and is there")
                });
                let may_be = match why {
                    Undelivered::Rejected(_) => is_refused,
                    Undelivered::GivenUp { .. } => ended.attempts >= plan.max_attempts,
                    Undelivered::HeldBack => !plan.goes_on && has_groups(plan),
                    Undelivered::Stopped(_) => is_stopped,
                    _ => false,
                };
                expect(may_be, &|| format!("entry {number} is undelivered: {why}"));
            }
        }
    }
    for entry in &plan.entries {
        let number = entry.number;
        let times = outcomes.get(&number).copied().unwrap_or_default();
        expect(times == 1 || times == 0 && is_stopped, &|| {
            format!("entry {number} has {times} outcomes")
        });
        let is_there = stored.contains_key(&number);
        expect(!is_there || times == 1, &|| {
            format!("entry {number} is there, and has no outcome")
        });
    }
    for text in out_of_order(plan, history) {
        expect(false, &|| text.clone());
    }
    expect(seen.most_in_flight <= plan.requests, &|| {
        format!(
            "{} requests at once, of {}",
            seen.most_in_flight, plan.requests
        )
    });
    expect(history.most_held <= plan.held, &|| {
        format!("{} entries are held, of {}", history.most_held, plan.held)
    });
    let counted = history.counts.map(|it| it.requests);
    let requests = u64::try_from(seen.requests.len()).unwrap();
    expect(counted.is_none_or(|it| it == requests), &|| {
        format!("{counted:?} requests are counted, and {requests} were made")
    });
    let most = if plan.to == To::Standard || plan.to == To::Fifo {
        10
    } else {
        25
    };
    let largest = seen.requests.iter().map(|(_, all)| all.len()).max();
    expect(
        plan.to == To::Stream || largest.unwrap_or_default() <= most,
        &|| format!("a request has {largest:?} entries, of {most}"),
    );
    expect(history.took <= Duration::from_secs(7_200), &|| {
        format!("it took {:?}", history.took)
    });
    wrong
}

fn has_groups(plan: &Plan) -> bool {
    plan.to == To::Fifo || plan.to == To::Table
}

/// The entries of a group are there in the order of the input, at their first time, unless one was late on its way.
fn out_of_order(plan: &Plan, history: &History) -> Vec<String> {
    let mut wrong = Vec::new();
    if !has_groups(plan) || history.seen.late > 0 {
        return wrong;
    }
    let mut last: BTreeMap<u32, u32> = BTreeMap::new();
    let mut stored = BTreeSet::new();
    for (_, number) in &history.seen.stored {
        if !stored.insert(*number) {
            continue;
        }
        let entry = plan.entries.iter().find(|it| it.number == *number).unwrap();
        if let Some(before) = last.insert(entry.group, *number)
            && before > *number
        {
            wrong.push(format!(
                "entry {number} comes after entry {before} of its group"
            ));
        }
    }
    wrong
}
