//! One seed decides everything: the system's randomness and its clocks are replaced in this program.
//!
//! The C library's `getrandom` and `clock_gettime` are defined here, so that the program's own are used in their place, by the standard library (the keys of hash maps, and with them the order of tokio's `select!`), by `rand` and by `uuid`. Inside of a simulation, bytes come from the seed, and both clocks follow tokio's, which is paused.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

/// The time of day at which each simulation begins: 2027-01-01T00:00:00Z.
pub(crate) const BEGIN: Duration = Duration::from_secs(1_798_761_600);

thread_local! {
    static RANDOM: RefCell<Option<ChaCha8Rng>> = const { RefCell::new(None) };
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
    static STEPPED: Cell<i64> = const { Cell::new(0) };
}

/// Sets the time of day of this simulation's machines, by seconds from where it was at first. What measures durations is not concerned.
pub(crate) fn step_clock(seconds: i64) {
    STEPPED.set(seconds);
}

/// Runs a future to its end in virtual time. The same seed does the same, in every process.
pub(crate) fn simulated<T: Send + 'static>(
    seed: u64,
    simulation: impl AsyncFnOnce() -> T + Send + 'static,
) -> T {
    // A thread of its own: the keys of its hash maps are drawn after the seed is set.
    let thread = std::thread::Builder::new().name("simulation".to_owned());
    let running = thread.spawn(move || {
        RANDOM.set(Some(ChaCha8Rng::seed_from_u64(seed)));
        // The SDK's jitter and the ids of its requests.
        fastrand::seed(seed);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let result = runtime.block_on(async {
            STARTED.set(Some(Instant::now()));
            simulation().await
        });
        STARTED.set(None);
        runtime.shutdown_background();
        result
    });
    match running.unwrap().join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// The virtual time since the simulation began, if this thread runs one.
fn elapsed() -> Option<Duration> {
    let started = STARTED.try_with(Cell::get).ok()??;
    Some(started.elapsed())
}

fn time_of_day(elapsed: Duration) -> Duration {
    let stepped = STEPPED.try_with(Cell::get).unwrap_or_default();
    let step = Duration::from_secs(stepped.unsigned_abs());
    let now = BEGIN + elapsed;
    if stepped < 0 { now - step } else { now + step }
}

/// Fills bytes from the seed, if this thread runs a simulation.
fn fill(bytes: &mut [u8]) -> bool {
    let filled = RANDOM.try_with(|random| {
        let mut random = random.try_borrow_mut().ok()?;
        random.as_mut()?.fill_bytes(bytes);
        Some(())
    });
    matches!(filled, Ok(Some(())))
}

/// What the C library's function of this name does, from the seed.
///
/// # Safety
///
/// `buffer` has room for `length` bytes, as for the C library's.
#[expect(unsafe_code, reason = "the interface of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(
    buffer: *mut libc::c_void,
    length: libc::size_t,
    flags: libc::c_uint,
) -> libc::ssize_t {
    if !buffer.is_null() {
        // SAFETY: the caller has this many bytes there.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
        if fill(bytes) {
            return libc::ssize_t::try_from(length).unwrap_or(libc::ssize_t::MAX);
        }
    }
    // SAFETY: the same arguments, to the system itself.
    let result = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
    libc::ssize_t::try_from(result).unwrap_or(-1)
}

/// What the C library's function of this name does, in virtual time.
///
/// # Safety
///
/// `time` points to a time, as for the C library's.
#[expect(unsafe_code, reason = "the interface of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let since = match clock {
        libc::CLOCK_REALTIME => elapsed().map(time_of_day),
        libc::CLOCK_MONOTONIC | libc::CLOCK_BOOTTIME => {
            elapsed().map(|elapsed| Duration::from_secs(1_000) + elapsed)
        }
        _ => None,
    };
    let Some(since) = since.filter(|_| !time.is_null()) else {
        // SAFETY: the same arguments, to the system itself.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return libc::c_int::try_from(result).unwrap_or(-1);
    };
    let virtual_time = libc::timespec {
        tv_sec: libc::time_t::try_from(since.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: since.subsec_nanos().into(),
    };
    // SAFETY: the caller has a time there.
    unsafe { time.write(virtual_time) };
    0
}

/// What the C library's function of this name does. Files of a simulation have changed when it began: their real times would be another day each day.
///
/// # Safety
///
/// The arguments are as for the C library's.
#[expect(unsafe_code, reason = "the interface of the C library")]
#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    folder: libc::c_int,
    path: *const libc::c_char,
    flags: libc::c_int,
    mask: libc::c_uint,
    status: *mut libc::statx,
) -> libc::c_int {
    // SAFETY: the same arguments, to the system itself.
    let result = unsafe { libc::syscall(libc::SYS_statx, folder, path, flags, mask, status) };
    if result == 0 && !status.is_null() && elapsed().is_some() {
        // SAFETY: the caller has the status of a file there, and the system has just filled it.
        unsafe {
            (*status).stx_mtime.tv_sec = i64::try_from(BEGIN.as_secs()).unwrap_or_default();
            (*status).stx_mtime.tv_nsec = 0;
        }
    }
    libc::c_int::try_from(result).unwrap_or(-1)
}
