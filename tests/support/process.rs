//! What a process has taken: processor time and memory.

use std::time::Duration;

use nix::time::ClockId;
use nix::unistd::Pid;

/// The processor time of a process so far, of its own code and of the system for it, in seconds.
pub fn processor_seconds(id: u32) -> f64 {
    let process = Pid::from_raw(id.cast_signed());
    let clock = ClockId::pid_cpu_clock_id(process).unwrap();
    Duration::from(clock.now().unwrap()).as_secs_f64()
}

/// The most memory that a process has had resident, in MiB.
pub fn peak_memory(id: u32) -> f64 {
    mebibytes(id, "VmHWM:")
}

/// The memory that a process has resident, in MiB.
pub fn resident_memory(id: u32) -> f64 {
    mebibytes(id, "VmRSS:")
}

fn mebibytes(id: u32, field: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kibibytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes / 1024.0
}
