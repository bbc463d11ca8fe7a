//! Policies with bits flipped, bytes moved, names changed and sections doubled: each mutant is loaded or refused, and none ends the process.
//!
//! In the suite this takes a few seconds. For a longer run with compiling and a decision, set `BACKSTOP_MUTATION_SECONDS`; `BACKSTOP_MUTATION_FILES` names more policies to start with, separated by colons, and `BACKSTOP_MUTATION_SEED` another seed.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};

use super::{Component, Limits, Part, Payload, Policy, Sandbox, builtin, encoding};
use backstop_core::{clock, examples};

/// Bytes at the limits of lengths, counts, opcodes and names.
const EDGES: [u8; 12] = [
    0, 1, 0x0b, 0x3f, 0x40, 0x60, 0x7f, 0x80, 0xc0, 0xef, 0xfe, 0xff,
];

/// A hand-written policy with features that the built-in ones do not use.
const BY_HAND: &str = include_str!("../first-policy.wat");

/// Two nested components, with types of every kind.
const NESTED: &str = r#"(component
  (import "backstop:policy/log@0.1.0" (instance $log
    (type $l (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (import "wasi:clocks/wall-clock@0.2.6" (instance $clock
    (type $d (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type $datetime (eq $d)))
    (export "now" (func (result $datetime)))))
  (core module $memory (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64)))
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (alias core export $m "realloc" (core func $realloc))
  (core func $say (canon lower (func $log "log") (memory $mem)))
  (core func $now (canon lower (func $clock "now") (memory $mem)))
  (core module $main
    (import "log" "log" (func (param i32 i32 i32)))
    (import "clock" "now" (func (param i32)))
    (table 2 funcref) (elem (i32.const 0) 0 1)
    (global (mut i32) (i32.const 7))
    (func (export "configure") (param i32 i32) (result i32) (local i64)
      (block (loop (br_table 0 1 (local.get 0)))) (call 1 (i32.const 8)) (i32.const 0)))
  (core instance $core (instantiate $main
    (with "log" (instance (export "log" (func $say))))
    (with "clock" (instance (export "now" (func $now))))))
  (type $configure (func (param "settings" (list (tuple string string))) (result (result (error string)))))
  (func $lifted (type $configure) (canon lift (core func $core "configure") (memory $mem) (realloc $realloc)))
  (component $shim
    (type $f (func (param "settings" (list (tuple string string))) (result (result (error string)))))
    (import "configure" (func $in (type $f)))
    (export "configure" (func $in)))
  (instance $exported (instantiate $shim (with "configure" (func $lifted))))
  (export "backstop:policy/settings@0.1.0" (instance $exported)))"#;

/// The files to mutate, by name.
fn originals() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for name in builtin::names() {
        let module = builtin::bytes(name).unwrap();
        files.push((name.to_owned(), module.to_vec()));
        let component = encoding::component(module, usize::MAX).unwrap();
        files.push((format!("{name} as a component"), component));
    }
    for (name, text) in [("by hand", BY_HAND), ("nested", NESTED)] {
        files.push((format!("{name}, text"), text.into()));
        files.push((name.to_owned(), wat::parse_str(text).unwrap()));
    }
    let more = std::env::var("BACKSTOP_MUTATION_FILES").unwrap_or_default();
    for path in more.split(':').filter(|path| !path.is_empty()) {
        files.push((path.to_owned(), std::fs::read(path).unwrap()));
    }
    files
}

/// Changes a file in one way.
fn mutate(file: &mut Vec<u8>, other: &[u8], rng: &mut ChaCha8Rng) {
    if file.is_empty() {
        return;
    }
    let at = rng.random_range(0..file.len());
    let length = rng.random_range(1..=64.min(file.len() - at));
    match rng.random_range(0..11) {
        0 | 1 => file[at] ^= 1 << rng.random_range(0..8),
        2 => file[at] = EDGES[rng.random_range(0..EDGES.len())],
        3 => drop(file.drain(at..at + length)),
        // Inserts bytes of this or another file, or overwrites with them.
        4 => {
            let from = if rng.random() {
                file.clone()
            } else {
                other.to_vec()
            };
            let start = rng.random_range(0..from.len());
            let end = (start + length).min(from.len());
            drop(file.splice(at..at, from[start..end].iter().copied()));
        }
        5 => {
            let start = rng.random_range(0..=file.len() - length);
            let to = at.min(file.len() - length);
            file.copy_within(start..start + length, to);
        }
        // A number of seven bits becomes a longer one.
        6 => {
            let bytes = [0xff, 0xff, 0xff, 0xff, 0x0f];
            let most = rng.random_range(1..5);
            drop(file.splice(at..=at, bytes[5 - most..].iter().copied()));
        }
        7 => drop(file.drain(at..)),
        8 => rename(file, rng),
        _ => rearrange(file, rng),
    }
}

/// Changes a letter of a name, or replaces a name by another of the file.
fn rename(file: &mut [u8], rng: &mut ChaCha8Rng) {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-:/@.#_".contains(&byte);
    let mut names = Vec::new();
    let mut start = 0;
    for at in 0..=file.len() {
        if file.get(at).is_some_and(|byte| is_of_name(*byte)) {
            continue;
        }
        if at - start >= 4 {
            names.push(start..at);
        }
        start = at + 1;
    }
    let Some(last) = names.len().checked_sub(1) else {
        return;
    };
    let name = names[rng.random_range(0..=last)].clone();
    if rng.random() {
        let at = rng.random_range(name);
        file[at] = b"abiklmz09-:/@.#_\0\x80"[rng.random_range(0..18)];
    } else {
        let other = file[names[rng.random_range(0..=last)].clone()].to_vec();
        let most = other.len().min(name.len());
        file[name.start..name.start + most].copy_from_slice(&other[..most]);
    }
}

/// Doubles, swaps, drops or lengthens a section.
fn rearrange(file: &mut Vec<u8>, rng: &mut ChaCha8Rng) {
    let mut sections = Vec::new();
    let mut at = 8;
    while at < file.len() {
        let (mut size, mut shift, mut next) = (0_usize, 0, at + 1);
        while let Some(byte) = file.get(next) {
            size |= usize::from(byte & 0x7f) << shift;
            (shift, next) = (shift + 7, next + 1);
            if byte & 0x80 == 0 || shift > 28 {
                break;
            }
        }
        let end = next.saturating_add(size).min(file.len());
        sections.push((at, next, end));
        at = end.max(at + 1);
    }
    let Some(last) = sections.len().checked_sub(1) else {
        return;
    };
    let (start, content, end) = sections[rng.random_range(0..=last)];
    let (to, _, _) = sections[rng.random_range(0..=last)];
    let section = file[start..end].to_vec();
    match rng.random_range(0..5) {
        0 => drop(file.splice(to..to, section)),
        1 => drop(file.drain(start..end)),
        2 => file[start] = rng.random_range(0..16),
        // The count at the start of most sections.
        3 if content < file.len() => {
            let counts: [&[u8]; 4] = [
                &[0],
                &[0x7f],
                &[0xff, 0x7f],
                &[0xff, 0xff, 0xff, 0xff, 0x0f],
            ];
            let count = counts[rng.random_range(0..4)];
            drop(file.splice(content..=content, count.iter().copied()));
        }
        _ => {
            let inner = file[content.min(end)..end].to_vec();
            drop(file.splice(end..end, inner));
        }
    }
}

/// The mutant with this number, the same in every run with this seed.
fn mutant(files: &[(String, Vec<u8>)], seed: u64, number: u64) -> (&str, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed.wrapping_mul(1 << 32).wrapping_add(number));
    let which = usize::try_from(number).unwrap() % files.len();
    let other = &files[rng.random_range(0..files.len())].1;
    let (name, file) = &files[which];
    let mut file = file.clone();
    for _ in 0..rng.random_range(1..=4) {
        mutate(&mut file, other, &mut rng);
    }
    (name, file)
}

#[test]
fn mutants_are_encoded_or_refused() {
    let files = originals();
    let (mut taken, mut refused) = (0, 0);
    for number in 0..2_000 {
        match encoding::component(&mutant(&files, 0, number).1, 1 << 20) {
            Ok(_) => taken += 1,
            Err(_) => refused += 1,
        }
    }
    // Both happen, so the mutations reach the parts that are checked.
    assert!(
        taken > 100 && refused > 500,
        "{taken} accepted, {refused} refused"
    );
}

#[test]
fn mutants_are_loaded_and_evaluated_or_refused() {
    let files: Vec<_> = originals();
    let small = |(_, file): &&(String, Vec<u8>)| file.len() < 8 << 10;
    let seconds = std::env::var("BACKSTOP_MUTATION_SECONDS").ok();
    let limits = Limits {
        fuel: 1_000_000,
        ..Limits::default()
    };
    let sandbox = Sandbox::on_demand(limits).unwrap();
    let Some(seconds) = seconds else {
        // Those that compile quickly.
        let files: Vec<_> = files.iter().filter(small).cloned().collect();
        for number in 0..200 {
            let (_, file) = mutant(&files, 0, number);
            load_and_evaluate(&sandbox, &file);
        }
        return;
    };
    let until = clock::instant() + Duration::from_secs(seconds.parse().unwrap());
    let seed = std::env::var("BACKSTOP_MUTATION_SEED").map_or(1, |seed| seed.parse().unwrap());
    let kept = std::env::temp_dir().join(format!("backstop-mutant-{}", std::process::id()));
    let mut ended: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    let mut slowest = (Duration::ZERO, 0);
    let mut number = 0;
    while clock::instant() < until {
        let (name, file) = mutant(&files, seed, number);
        // Remains if the process ends here.
        std::fs::write(&kept, &file).unwrap();
        let started: Instant = clock::instant();
        let outcome = catch_unwind(AssertUnwindSafe(|| load_and_evaluate(&sandbox, &file)));
        let took = started.elapsed();
        if took > slowest.0 {
            slowest = (took, number);
        }
        let outcome = outcome.unwrap_or_else(|_| {
            panic!("mutant {number} of {name}, seed {seed}: {}", kept.display())
        });
        ended.entry(name).or_default()[outcome] += 1;
        number += 1;
    }
    std::fs::remove_file(&kept).unwrap();
    eprintln!(
        "{number} mutants, the slowest {slowest:?}; refused before compiling, refused, loaded:"
    );
    for (name, counts) in ended {
        eprintln!("  {name}: {counts:?}");
    }
}

/// 0 if it is refused before it is compiled, 1 if it is refused later, 2 if it is loaded and evaluated.
fn load_and_evaluate(sandbox: &Sandbox, file: &[u8]) -> usize {
    use super::ComponentError;
    let component: Arc<Component> = match Component::load(sandbox, "mutant", file) {
        Ok(component) => component,
        Err(ComponentError::Encoding(_)) => return 0,
        Err(_) => return 1,
    };
    let part = Part {
        component,
        settings: backstop_core::settings::Settings::new(),
    };
    let policy = Policy::single(sandbox, part);
    let [failure, ..] = examples::failures();
    let _ = policy.evaluate(&failure, &Arc::<Payload>::default()).answer;
    2
}
