//! What the spans of a message cost that succeeds at once: in a build without them, while none are wanted, for a message that its sender does not record, and for one that is recorded.
//!
//! `make bench` runs it. The column to read is the median.
#![allow(clippy::unwrap_used, reason = "a benchmark that can't go on fails")]

use std::hint::black_box;
use std::task::{Context, Poll, Waker};

use backstop_traces::{
    Creation, Destination, Kind, Sampling, Settings, Start, TRACEPARENT, TraceContext, Under,
    disabled,
};
use divan::Bencher;

const RECORDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_RECORDED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn main() {
    divan::main();
}

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

/// What the others are compared with.
#[divan::bench(sample_count = 1000, sample_size = 1000)]
fn no_spans(bencher: Bencher) {
    bencher.bench(|| {
        poll(async { black_box(1) });
        poll(async { black_box(1) })
    });
}

#[divan::bench(sample_count = 1000, sample_size = 1000)]
fn a_build_without_spans(bencher: Bencher) {
    let at = queue();
    bencher.bench(|| message!(disabled::Span, black_box(&at), black_box(RECORDED)));
}

#[divan::bench(sample_count = 1000, sample_size = 1000)]
fn spans_that_nobody_wants(bencher: Bencher) {
    backstop_traces::stop();
    let at = queue();
    bencher.bench(|| message!(backstop_traces::Span, black_box(&at), black_box(RECORDED)));
}

#[divan::bench(sample_count = 1000, sample_size = 100)]
fn a_message_that_its_sender_does_not_record(bencher: Bencher) {
    on();
    let at = queue();
    bencher.bench(|| {
        message!(
            backstop_traces::Span,
            black_box(&at),
            black_box(NOT_RECORDED)
        )
    });
}

/// The collector is not there: what can't be sent is dropped.
#[divan::bench(sample_count = 1000, sample_size = 100)]
fn a_message_that_is_recorded(bencher: Bencher) {
    on();
    let at = queue();
    bencher.bench(|| message!(backstop_traces::Span, black_box(&at), black_box(RECORDED)));
}

/// The header that a worker gets.
#[divan::bench(sample_count = 1000, sample_size = 1000)]
fn the_trace_context_of_a_message_is_read_and_written(bencher: Bencher) {
    bencher.bench(|| {
        let context = TraceContext::of_traceparent(black_box(RECORDED));
        context.unwrap().to_string()
    });
}
