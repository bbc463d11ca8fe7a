//! The memory that a call takes while it waits for its second attempt.

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};

use backstop_retry::{Budget, BudgetSettings};
use tests_benches::{Better, Figure, Table, Unit};
use tower::{Service, service_fn};

use crate::sides::{by_hand, retrier, with_backon, with_tower};

const CALLS: usize = 10_000;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, with a count of the bytes that are allocated.
pub(crate) struct Counting;

#[expect(
    unsafe_code,
    reason = "an allocator is unsafe; this one passes everything on"
)]
// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }
}

async fn fails() -> Result<(), io::Error> {
    Err(io::Error::from(io::ErrorKind::ConnectionReset))
}

/// The memory of all sides.
pub(crate) fn compare() -> Table {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    let _entered = runtime.enter();
    let budget = Budget::new("bench", BudgetSettings::AWS_2_1.capacity(u32::MAX));
    let (plain, limited) = (retrier(None), retrier(Some(&budget)));
    let mut table = Table::new("A call that waits for its second attempt, its future included")
        .column("memory", Unit::Bytes, Better::Less)
        .because("A call has its failure with code, status and text, which its policy and its observers get.");
    table.theirs("by hand", [bytes(|| by_hand(fails))]);
    table.theirs("backon", [bytes(|| with_backon(fails))]);
    let tower = || with_tower(service_fn(|()| fails())).call(());
    table.theirs("tower", [bytes(tower)]);
    table.ours("Backstop", [bytes(|| plain.run(|_| fails()))]);
    let with_budget = bytes(|| limited.run(|_| fails()));
    table.ours("Backstop, with a budget", [with_budget]);
    table
}

fn bytes<F: Future>(call: impl Fn() -> F) -> Figure {
    let mut waiting: Vec<Pin<Box<F>>> = Vec::with_capacity(CALLS);
    let before = ALLOCATED.load(Ordering::Relaxed);
    // Some delays are zero.
    while waiting.len() < CALLS {
        let mut call = Box::pin(call());
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if polled.is_pending() {
            waiting.push(call);
        }
    }
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    Figure::exact(bytes as f64 / CALLS as f64)
}
