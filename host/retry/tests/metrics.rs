//! The metrics of calls that end in every way, as an exporter sees them.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use backstop_retry::telemetry::METRICS;
use backstop_retry::{
    Breaker, BreakerSettings, Budget, BudgetSettings, Bulkhead, Error, Event, Linear, Retrier,
    TestClock,
};
use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// An exporter that keeps every value in memory, by name and labels.
#[derive(Default)]
struct Exporter {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    recorded: Arc<Mutex<BTreeMap<String, Vec<f64>>>>,
}

struct Recorded(String, Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

impl HistogramFn for Recorded {
    fn record(&self, value: f64) {
        let mut all = self.1.lock().unwrap();
        all.entry(self.0.clone()).or_default().push(value);
    }
}

fn series(key: &Key) -> String {
    let values = key.labels().map(|label| label.value().to_owned());
    let values: Vec<_> = values.collect();
    format!("{} {}", key.name(), values.join(" "))
}

impl Recorder for Exporter {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(series(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.gauges.lock().unwrap();
        Gauge::from_arc(Arc::clone(gauges.entry(series(key)).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Recorded(series(key), Arc::clone(&self.recorded))))
    }
}

impl Exporter {
    /// The counters that are not 0.
    fn counted(&self) -> BTreeMap<String, u64> {
        let counters = self.counters.lock().unwrap();
        let counted = counters
            .iter()
            .map(|(series, value)| (series.clone(), value.load(Ordering::Relaxed)));
        counted.filter(|(_, value)| *value > 0).collect()
    }

    fn gauge(&self, series: &str) -> f64 {
        let gauges = self.gauges.lock().unwrap();
        f64::from_bits(gauges.get(series).unwrap().load(Ordering::Relaxed))
    }
}

#[test]
fn every_attempt_failure_end_delay_and_refusal_is_counted() {
    let exporter = Exporter::default();
    let clock = TestClock::new();
    let settings = BudgetSettings::AWS_2_0.capacity(40).floor_per_second(0.0);
    let (retrier, small) = metrics::with_local_recorder(&exporter, || {
        let policy = Linear::default()
            .base(Duration::from_secs(1))
            .max_attempts(3);
        let builder = || {
            Retrier::builder()
                .policy(policy.clone())
                .clock(clock.clone())
        };
        let builder = |name| builder().name(name);
        let retrier = builder("articles").build().unwrap();
        let budget = Budget::new("small", settings);
        (retrier, builder("orders").budget(&budget).build().unwrap())
    });
    // Counters exist from the start, so that an alert sees their first increase.
    assert_eq!(exporter.counters.lock().unwrap().len(), 2 * 13 + 1);

    let fail = |code: &'static str| async move { Err::<(), _>(Error::new(code, "")) };
    clock
        .block_on(retrier.run(|_| async { Ok::<_, Error>(()) }))
        .unwrap();
    clock
        .block_on(retrier.run(|_| fail("HTTP 503")))
        .unwrap_err();
    clock
        .block_on(retrier.run(|_| fail("AccessDenied")))
        .unwrap_err();
    let call = retrier.run(|_| fail("Throttling"));
    clock
        .block_on(call.deadline(Duration::from_secs(1)))
        .unwrap_err();
    {
        let mut call = pin!(retrier.run(|_| fail("HTTP 503")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    // Never polled: not a call.
    drop(retrier.run(|_| fail("HTTP 503")));

    clock.block_on(small.run(|_| fail("HTTP 503"))).unwrap_err();
    assert_eq!(exporter.gauge("backstop_retry_budget_tokens small"), 20.0);
    clock.block_on(small.run(|_| fail("HTTP 503"))).unwrap_err();
    clock.block_on(small.run(|_| fail("HTTP 503"))).unwrap_err();
    assert_eq!(exporter.gauge("backstop_retry_budget_tokens small"), 0.0);

    let expected = [
        ("attempts_total articles", 7),
        ("attempts_total orders", 7),
        ("budget_refusals_total small", 1),
        ("ends_total articles cancelled", 1),
        ("ends_total articles deadline-exceeded", 1),
        ("ends_total articles gave-up", 1),
        ("ends_total articles permanent", 1),
        ("ends_total articles succeeded", 1),
        ("ends_total orders budget-exhausted", 1),
        ("ends_total orders gave-up", 2),
        ("failures_total articles permanent", 1),
        ("failures_total articles throttled", 1),
        ("failures_total articles transient", 4),
        ("failures_total orders transient", 7),
    ];
    let expected = expected.map(|(series, count)| (format!("backstop_retry_{series}"), count));
    assert_eq!(exporter.counted(), expected.into());
    let recorded = exporter.recorded.lock().unwrap();
    let delays = recorded
        .get("backstop_retry_delay_seconds articles")
        .unwrap();
    assert_eq!(delays, &[1.0, 2.0, 1.0]);

    let names: Vec<_> = exporter.counters.lock().unwrap().keys().cloned().collect();
    let gauges: Vec<_> = exporter.gauges.lock().unwrap().keys().cloned().collect();
    for series in names.iter().chain(&gauges).chain(recorded.keys()) {
        let name = series.split(' ').next().unwrap();
        assert!(METRICS.iter().any(|metric| metric.name == name), "{name}");
    }
}

#[test]
fn what_a_breaker_and_a_bulkhead_refuse_is_counted() {
    let exporter = Exporter::default();
    let clock = TestClock::new();
    let settings = BreakerSettings::default()
        .minimum(2)
        .shortest_outage(Duration::ZERO);
    let (breaker, bulkhead) = metrics::with_local_recorder(&exporter, || {
        let breaker = Breaker::new("down", settings);
        (breaker, Bulkhead::new("small", 1).without_waiting())
    });
    assert_eq!(exporter.counters.lock().unwrap().len(), 2);
    let retrier = Retrier::builder().clock(clock.clone()).max_attempts(1);
    let retrier = retrier.breaker(&breaker).bulkhead(&bulkhead);
    let retrier = retrier.build().unwrap();
    let gauges = || {
        ["breaker_open down", "bulkhead_in_use small"]
            .map(|it| exporter.gauge(&format!("backstop_retry_{it}")))
    };
    assert_eq!(gauges(), [0.0, 0.0]);
    {
        let mut held = pin!(retrier.run(|_| pending::<Result<(), Error>>()));
        let mut context = Context::from_waker(Waker::noop());
        assert!(held.as_mut().poll(&mut context).is_pending());
        assert_eq!(gauges(), [0.0, 1.0]);
        clock
            .block_on(retrier.run(async |_| Ok::<_, Error>(())))
            .unwrap_err();
    }
    let down = async || Err::<(), _>(Error::new("HTTP 503", ""));
    for _ in 0..5 {
        clock.block_on(retrier.run(|_| down())).unwrap_err();
    }
    assert_eq!(gauges(), [1.0, 0.0]);
    clock.advance(Duration::from_secs(4));
    clock
        .block_on(retrier.run(async |_| Ok::<_, Error>(())))
        .unwrap();
    assert_eq!(gauges(), [0.0, 0.0]);
    let expected = [
        ("breaker_refusals_total down", 3),
        ("bulkhead_refusals_total small", 1),
    ];
    let expected = expected.map(|(series, count)| (format!("backstop_retry_{series}"), count));
    assert_eq!(exporter.counted(), expected.into());
}

#[test]
fn a_call_that_a_panic_ends_is_counted_once() {
    for (panics_at, end) in [
        ("retrying", "cancelled"),
        ("ended", "gave-up"),
        ("deadline", "deadline-exceeded"),
        ("succeeded", "succeeded"),
    ] {
        let exporter = Exporter::default();
        let clock = TestClock::new();
        let retrier = metrics::with_local_recorder(&exporter, || {
            let policy = Linear::default().base(Duration::from_secs(1));
            Retrier::builder()
                .policy(policy.max_attempts(2))
                .clock(clock.clone())
                .observe(move |event: &Event<'_>| {
                    let name = match event {
                        Event::Succeeded { .. } => "succeeded",
                        Event::Retrying { .. } => "retrying",
                        Event::Ended { failed: None, .. } => "deadline",
                        Event::Ended { .. } => "ended",
                        other => panic!("{other:?}"),
                    };
                    assert_ne!(name, panics_at);
                })
                .build()
                .unwrap()
        });
        let call = retrier.run(|_| async {
            match panics_at {
                "succeeded" => Ok(()),
                "deadline" => pending().await,
                _ => Err(Error::new("HTTP 503", "")),
            }
        });
        let call = call.deadline(Duration::from_secs(60));
        let panicked = catch_unwind(AssertUnwindSafe(|| clock.block_on(call)));
        assert!(panicked.is_err());
        let counted = exporter.counted().into_iter();
        let ends = counted.filter(|(series, _)| series.contains("ends_total"));
        let expected = format!("backstop_retry_ends_total default {end}");
        assert_eq!(ends.collect::<Vec<_>>(), [(expected, 1)]);
    }
}
