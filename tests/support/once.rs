//! What the tests of a run make once, although cargo-nextest gives each of them a process.

use std::fs::File;
use std::io::{Read, Seek, Write};

use crate::emulator::running;

/// The text that `make` returns. The first process of this run that asks for this name makes it; the others wait for it.
pub fn once_per_run(name: &str, make: impl FnOnce() -> String) -> String {
    let run = std::env::var("NEXTEST_RUN_ID")
        .unwrap_or_else(|_| format!("process {}", std::process::id()));
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(running().join(name))
        .unwrap();
    // Held until the file is closed, which happens however this process ends.
    file.lock().unwrap();
    let mut made = String::new();
    file.read_to_string(&mut made).unwrap();
    if let Some((maker, text)) = made.split_once('\n')
        && maker == run
    {
        return text.to_owned();
    }
    let text = make();
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    write!(file, "{run}\n{text}").unwrap();
    text
}
