//! One simulation: a delivery of the plan's entries, and what the service and the caller have seen.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, WriteRequest};
use aws_sdk_sqs::types::SendMessageBatchRequestEntry;
use backstop_deliver::{
    AfterFailure, Counts, Delivery, FullJitter, Outcome, Status, Target, Undelivered, dynamodb,
    firehose, sqs,
};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep, timeout};

use super::plan::{Entry, Plan, To};
use super::planted::Planted;
use super::service::{Seen, Service, number_of};
use crate::determinism::simulated;

/// How long a delivery may take, after which it has hung.
const LONGEST: Duration = Duration::from_secs(4 * 3_600);

/// What became of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) number: u32,
    pub(crate) attempts: u32,
    pub(crate) unknown: u32,
    pub(crate) possibly_twice: bool,
    pub(crate) status: Status<()>,
}

/// What was seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    pub(crate) seen: Seen,
    pub(crate) ended: Vec<Ended>,
    pub(crate) counts: Option<Counts>,
    pub(crate) most_held: usize,
    pub(crate) took: Duration,
}

/// Carries out a plan.
pub(crate) fn run(plan: Plan, planted: Option<Planted>) -> History {
    simulated(plan.seed, async move || {
        let service = Service::new(&plan, planted);
        let sdk = service.sdk();
        let text = |entry: &Entry| format!("entry-{}", entry.number);
        match plan.to {
            To::Standard | To::Fifo => {
                let is_fifo = plan.to == To::Fifo;
                let queue = sqs::Queue::open(&sdk, "http://aws/000000000000/queue").await;
                let entry = |entry: &Entry| {
                    let group = is_fifo.then(|| format!("group-{}", entry.group));
                    let message = sqs::message(text(entry));
                    message.set_message_group_id(group).build().unwrap()
                };
                let number = |it: &SendMessageBatchRequestEntry| number_of(it.message_body());
                deliver(&plan, planted, &service, queue.unwrap(), entry, number).await
            }
            To::Table => {
                let table = dynamodb::Table::open(&sdk, "table").await;
                let string = |text: String| AttributeValue::S(text);
                let entry = |entry: &Entry| {
                    dynamodb::put([
                        ("id".to_owned(), string(format!("group-{}", entry.group))),
                        ("value".to_owned(), string(text(entry))),
                    ])
                };
                let number = |it: &WriteRequest| {
                    let item = &it.put_request().unwrap().item;
                    number_of(item["value"].as_s().unwrap())
                };
                deliver(&plan, planted, &service, table.unwrap(), entry, number).await
            }
            To::Stream => {
                let stream = firehose::Stream::open(&sdk, "stream").await;
                let entry = |entry: &Entry| text(entry).into_bytes();
                let number = |it: &Vec<u8>| number_of(std::str::from_utf8(it).unwrap());
                deliver(&plan, planted, &service, stream.unwrap(), entry, number).await
            }
        }
    })
}

async fn deliver<T: Target>(
    plan: &Plan,
    planted: Option<Planted>,
    service: &Service,
    target: T,
    entry: impl Fn(&Entry) -> T::Entry,
    number: impl Fn(&T::Entry) -> u32,
) -> History {
    let is = |fault| planted == Some(fault);
    let mut entries: Vec<_> = plan.entries.iter().map(entry).collect();
    if is(Planted::Reverses) {
        entries.reverse();
    }
    let pace = plan.pace;
    let input = stream::iter(entries).then(move |entry| async move {
        if !pace.is_zero() {
            sleep(pace).await;
        }
        entry
    });
    let more = u32::from(is(Planted::TriesTooOften)) * 4;
    let policy = FullJitter::default()
        .base(Duration::from_millis(100))
        .cap(Duration::from_secs(20))
        .max_attempts(plan.max_attempts + more);
    let times = if is(Planted::SendsTooMuchAtOnce) {
        3
    } else {
        1
    };
    let mut delivery = Delivery::new(target)
        .policy(policy)
        .requests(plan.requests * times)
        .max_held(plan.held, usize::MAX)
        .seed(plan.seed);
    if plan.goes_on {
        delivery = delivery.after_failure(AfterFailure::GoOn);
    }
    if let Some(stop) = plan.stops {
        delivery = delivery.stop_when(sleep(stop));
    }
    let began = Instant::now();
    let mut deliveries = delivery.start(input).unwrap();
    let (mut ended, mut most_held) = (Vec::new(), 0);
    let reading = async {
        while let Some(outcome) = deliveries.next().await {
            most_held = most_held.max(deliveries.held());
            ended.push(read(&outcome, planted, &number));
        }
    };
    let has_ended = timeout(LONGEST, reading).await.is_ok();
    let took = began.elapsed();
    // What is still on its way.
    sleep(Duration::from_secs(300)).await;
    if is(Planted::LeavesOutOutcomes) {
        ended.retain(|it| it.number != 3);
    }
    History {
        seen: service.seen(),
        ended,
        counts: has_ended.then(|| deliveries.counts()),
        most_held,
        took,
    }
}

fn read<E, R>(
    outcome: &Outcome<E, R>,
    planted: Option<Planted>,
    number: impl Fn(&E) -> u32,
) -> Ended {
    let status = match &outcome.status {
        Status::Undelivered(Undelivered::GivenUp { .. })
            if planted == Some(Planted::HidesFailures) =>
        {
            Status::Delivered(())
        }
        Status::Delivered(_) if planted == Some(Planted::InventsFailures) => {
            Status::Undelivered(Undelivered::HeldBack)
        }
        Status::Delivered(_) => Status::Delivered(()),
        Status::Superseded => Status::Superseded,
        Status::Undelivered(why) => Status::Undelivered(why.clone()),
    };
    Ended {
        number: number(&outcome.entry),
        attempts: outcome.attempts,
        unknown: outcome.unknown,
        possibly_twice: outcome.is_possibly_twice(),
        status,
    }
}
