//! Files that no host should have to read.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use backstop_tests::policies::{AT_WORK, Rule};
use rand::rngs::ChaCha8Rng;
use rand::{Rng, RngExt};

use crate::files::replace;

/// Puts a file that no host should load in the place of a policy. Returns what it is.
pub(crate) fn policy(path: &Path, which: usize) -> &'static str {
    let at_work =
        |then: &str| format!("(if (result i32) {AT_WORK} (then {then}) (else (i32.const 1500)))");
    let delays = |body: &str| {
        Rule {
            delay: Some(body),
            ..Rule::default()
        }
        .text()
    };
    let (what, text) = match which % 13 {
        0 => ("no policy", "\0asm and nothing else".to_owned()),
        1 => ("an empty file", String::new()),
        2 => ("a policy that traps", delays("(unreachable)")),
        3 => ("a policy that loops", delays(Rule::LOOP)),
        4 => (
            "a policy that recurses",
            delays("(call $recurse (i32.const 0))"),
        ),
        5 => (
            "a policy that traps at work",
            delays(&at_work("(unreachable)")),
        ),
        6 => ("a policy that loops at work", delays(&at_work(Rule::LOOP))),
        7 => (
            "a file of 70 MiB",
            "(module)".to_owned() + &" ".repeat(70 << 20),
        ),
        8 => (
            "a policy whose start traps",
            Rule {
                start: "(unreachable)",
                ..Rule::default()
            }
            .text(),
        ),
        9 => {
            let text = delays("(i32.const 1500)");
            ("half a policy", text[..text.len() / 2].to_owned())
        }
        10 => (
            "a policy that answers nothing valid",
            Rule {
                judge: Some("(i32.const 2000000)"),
                ..Rule::default()
            }
            .text(),
        ),
        11 => (
            "a policy that takes all memory at work",
            delays(&at_work(
                "(drop (memory.grow (i32.const 9000))) (unreachable)",
            )),
        ),
        _ => {
            let _ = std::fs::remove_file(path);
            let name = CString::new(path.as_os_str().as_bytes()).unwrap();
            // A pipe that nobody writes: whoever opens it as a file waits for ever.
            let made = std::process::Command::new("mkfifo").arg(path).status();
            drop((name, made));
            return "a pipe";
        }
    };
    replace(path, text.as_bytes());
    what
}

/// Texts that are no configuration.
pub(crate) fn configuration(good: &str, which: usize) -> String {
    match which % 7 {
        0 => String::new(),
        1 => "queues = 7\n".to_owned(),
        2 => good.replace("max-attempts = 6", "max-attempts = -1"),
        3 => good[..good.len() / 2].to_owned(),
        4 => good.replace("visibility-timeout", "visibility-time"),
        5 => "\u{feff}\0\u{1}[[[[".repeat(1_000),
        _ => good.replace("hold = ", "hold = \"\u{202e}\" # "),
    }
}

/// Damages up to three files below a folder. Which, and how.
pub(crate) fn damage(folder: &Path, random: &mut ChaCha8Rng) -> Vec<String> {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let mut damaged = Vec::new();
    for _ in 0..3 {
        if files.is_empty() {
            break;
        }
        let path = files.swap_remove(random.random_range(0..files.len()));
        if let Some(how) = damage_file(&path, random) {
            let name = path.strip_prefix(folder).unwrap_or(&path);
            damaged.push(format!("{} {how}", name.display()));
        }
    }
    damaged
}

/// Damages one file. How.
pub(crate) fn damage_file(path: &Path, random: &mut ChaCha8Rng) -> Option<&'static str> {
    let mut bytes = std::fs::read(path).ok()?;
    let length = bytes.len();
    let how = match random.random_range(0..5) {
        0 => {
            bytes.truncate(random.random_range(0..=length));
            "cut short"
        }
        1 if length > 0 => {
            let at = random.random_range(0..length);
            bytes[at] ^= 1 << random.random_range(0..8);
            "with another bit"
        }
        2 => {
            bytes.clear();
            "empty"
        }
        3 => {
            let mut more = vec![0; 200];
            random.fill_bytes(&mut more);
            bytes.extend(more);
            "longer"
        }
        _ => {
            random.fill_bytes(&mut bytes);
            "with other bytes"
        }
    };
    std::fs::write(path, bytes).ok()?;
    Some(how)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            collect(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}
