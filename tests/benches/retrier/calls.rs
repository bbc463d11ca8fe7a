//! The time that a call takes: one that succeeds at once, and one that fails twice. The clock is paused, so that no delay counts.

use std::cell::Cell;
use std::hint::black_box;
use std::io;
use std::time::Duration;

use backstop_core::clock;
use backstop_retry::{Breaker, BreakerSettings, Budget, BudgetSettings, Bulkhead};
use tests_benches::{Better, Figure, Table, Unit};
use tower::{Service, service_fn};

use crate::sides::{builder, by_hand, retrier, with_backon, with_tower};

const ROUNDS: usize = 15;

/// The failures before the success.
#[derive(Clone, Copy)]
struct Call {
    failures: u32,
    calls: u32,
}

/// The function that is called: fails so often, then succeeds.
async fn function(failures_left: &Cell<u32>) -> Result<u32, io::Error> {
    match black_box(failures_left.get()) {
        0 => Ok(7),
        left => {
            failures_left.set(left - 1);
            Err(io::Error::from(io::ErrorKind::ConnectionReset))
        }
    }
}

/// The times of all sides.
pub(crate) fn compare() -> Table {
    let sides = [
        "by hand",
        "backon",
        "tower",
        "Backstop",
        "Backstop, with a budget",
        "Backstop, with a breaker",
        "Backstop, with a bulkhead",
    ];
    let cases = [(0, 20_000), (2, 2_000)].map(|(failures, calls)| Call { failures, calls });
    let mut took: [[Vec<f64>; 2]; 7] = Default::default();
    for _ in 0..ROUNDS {
        for (side, took) in sides.iter().zip(&mut took) {
            for (call, took) in cases.iter().zip(took) {
                took.push(nanoseconds(side, *call));
            }
        }
    }
    let mut table = Table::new("A call")
        .column("succeeds at once", Unit::Nanoseconds, Better::Less)
        .column("fails twice, then succeeds", Unit::Nanoseconds, Better::Less)
        .because("A policy classifies each failure, judges it and computes the delay, and a record of it is there for whoever observes; the others compute a delay.");
    for (side, rounds) in sides.iter().zip(took) {
        let figures = rounds.map(Figure::of);
        table.row(side.starts_with("Backstop"), *side, figures);
    }
    table
}

fn nanoseconds(side: &str, call: Call) -> f64 {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let took = runtime.block_on(timed(side, call));
    took.as_secs_f64() * 1e9 / f64::from(call.calls)
}

async fn timed(side: &str, call: Call) -> Duration {
    let plain = retrier(None);
    // More than the calls take.
    let budget = Budget::new("bench", BudgetSettings::AWS_2_1.capacity(u32::MAX));
    let limited = retrier(Some(&budget));
    let breaker = Breaker::new("bench", BreakerSettings::default());
    let broken = builder().breaker(&breaker).build().unwrap();
    let bulkhead = builder().bulkhead(&Bulkhead::new("bench", 1));
    let bulkhead = bulkhead.build().unwrap();
    let start = clock::instant();
    for _ in 0..call.calls {
        let left = &Cell::new(call.failures);
        let value = match side {
            "by hand" => by_hand(|| function(left)).await.unwrap(),
            "backon" => with_backon(|| function(left)).await.unwrap(),
            "tower" => {
                let mut service = with_tower(service_fn(|()| function(left)));
                service.call(()).await.unwrap()
            }
            "Backstop" => plain.run(|_| function(left)).await.unwrap(),
            "Backstop, with a breaker" => broken.run(|_| function(left)).await.unwrap(),
            "Backstop, with a bulkhead" => bulkhead.run(|_| function(left)).await.unwrap(),
            _ => limited.run(|_| function(left)).await.unwrap(),
        };
        black_box(value);
    }
    start.elapsed()
}
