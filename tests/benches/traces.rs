//! What the spans of a message cost that succeeds at once: in a build without them, while none are wanted, for a message that its sender does not record, and for one that is recorded.
//!
//! `make bench` runs it. The sides take turns.
#![allow(clippy::unwrap_used, reason = "a benchmark that can't go on fails")]

use std::hint::black_box;
use std::task::{Context, Poll, Waker};

use backstop_traces::{
    Creation, Destination, Kind, Sampling, Settings, Start, TRACEPARENT, TraceContext, Under,
    disabled,
};
use tests_benches::timing::{self, Side, side};
use tests_benches::{Better, Chapter, Table, Unit};

const RECORDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_RECORDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// The two spans of a message, as the consumer and the settler make them.
macro_rules! message {
    ($span:ty, $at:expr, $traceparent:expr) => {{
        let at = $at;
        let attempt = <$span>::start(|| {
            let sender = Creation::read(Some($traceparent), None, None);
            match sender {
                Some(sender) => Start::new(Kind::Process, at, Under::Sender(sender)),
                None => Start::new(Kind::Process, at, Under::Nothing),
            }
        });
        attempt.record(|attributes| {
            attributes.text(
                "messaging.message.id",
                "5e0b8a3c-6f9d-4c43-9d8e-0f0e6a3b7c11",
            );
            attributes.number("messaging.message.body.size", 100);
            attributes.number("backstop.attempt", 1);
            attributes.text("backstop.queue", TRACEPARENT);
        });
        poll(attempt.scope(async { black_box(1) }));
        attempt.end();
        let settled = attempt.scope(async {
            let delete = <$span>::start(|| Start::new(Kind::Settle("delete"), at, Under::Current));
            delete.record(|attributes| {
                attributes.text(
                    "messaging.message.id",
                    "5e0b8a3c-6f9d-4c43-9d8e-0f0e6a3b7c11",
                );
            });
            let done = black_box(1);
            delete.end();
            done
        });
        poll(settled)
    }};
}

const ROUNDS: usize = 101;

const ABOUT: &str = "What the spans of a message cost that succeeds at once: those of the attempt and of the delete, with their attributes, and the two futures that run in them. The collector is not there, so that what is recorded is dropped. 101 rounds in turns.";

fn main() {
    let at = queue();
    let mut sides: Vec<(&str, u32, Side<'_>)> = vec![
        ("the two futures alone", 1_000, side(no_spans)),
        ("in a build without traces", 1_000, side(|| without(&at))),
        ("traces are off", 1_000, side(|| spans(&at, RECORDED))),
    ];
    let mut table = Table::new("The spans of a message")
        .column("time", Unit::Nanoseconds, Better::Less)
        .because(
            "Backstop is compared with itself: the first row does nothing but run the futures.",
        );
    // Traces are off for the whole process, or on.
    backstop_traces::stop();
    measure(&mut table, &mut sides);
    on();
    let mut sides: Vec<(&str, u32, Side<'_>)> = vec![
        (
            "traces are on, and the sender does not record the message",
            100,
            side(|| spans(&at, NOT_RECORDED)),
        ),
        (
            "the message is recorded",
            100,
            side(|| spans(&at, RECORDED)),
        ),
        (
            "the header that a worker gets is read and written",
            1_000,
            side(|| {
                let context = TraceContext::of_traceparent(black_box(RECORDED));
                context.unwrap().to_string()
            }),
        ),
    ];
    measure(&mut table, &mut sides);
    let mut chapter = Chapter::new("traces", "Traces", ABOUT);
    chapter.add(table);
    chapter.write();
}

fn measure(table: &mut Table, sides: &mut Vec<(&str, u32, Side<'_>)>) {
    let names: Vec<_> = sides.iter().map(|(name, ..)| *name).collect();
    let mut sides: Vec<_> = sides
        .drain(..)
        .map(|(_, times, side)| (times, side))
        .collect();
    for (name, figure) in names.iter().zip(timing::rounds(ROUNDS, &mut sides)) {
        table.ours(*name, [figure]);
    }
}

/// What the others are compared with.
fn no_spans() -> i32 {
    poll(async { black_box(1) });
    poll(async { black_box(1) })
}

fn without(at: &Destination) -> i32 {
    message!(disabled::Span, black_box(at), black_box(RECORDED))
}

fn spans(at: &Destination, traceparent: &str) -> i32 {
    message!(backstop_traces::Span, black_box(at), black_box(traceparent))
}

/// The result of a future that does not wait.
fn poll<T>(future: impl Future<Output = T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("it does not wait"),
    }
}

fn queue() -> Destination {
    Destination::queue("https://sqs.eu-west-1.amazonaws.com/123456789012/orders")
}

fn on() {
    let settings = Settings {
        service: "bench".to_owned(),
        sampling: Sampling {
            respects_parent: true,
            ratio: 1.0,
        },
    };
    backstop_traces::start(settings).unwrap();
}
