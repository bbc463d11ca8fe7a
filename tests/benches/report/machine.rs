//! What the figures were measured on, and of which commit.

use std::process::Command;

use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) processors: usize,
    pub(crate) memory: String,
    pub(crate) kernel: String,
    pub(crate) rust: String,
    /// With `-dirty` if the files differ from it.
    pub(crate) commit: String,
    pub(crate) day: String,
}

pub(crate) fn this() -> Machine {
    let file = |name: &str| std::fs::read_to_string(name).unwrap_or_default();
    let value = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    Machine {
        processor: value(&file("/proc/cpuinfo"), "model name"),
        processors: std::thread::available_parallelism().unwrap().get(),
        memory: gibibytes(&value(&file("/proc/meminfo"), "MemTotal")),
        kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
        rust: said("rustc", &["--version"]),
        commit: said("git", &["describe", "--always", "--dirty", "--exclude=*"]),
        day: said("date", &["--utc", "+%F"]),
    }
}

/// What the kernel says in kB, which are KiB.
fn gibibytes(kilobytes: &str) -> String {
    let number = kilobytes.trim_end_matches(" kB").parse::<f64>();
    number.map_or("unknown".to_owned(), |it| {
        format!("{:.0} GiB", it / 1_048_576.0)
    })
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    output.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
