//! Folders with other changes than a complete file that is renamed into place.

use std::io::Write;
use std::sync::mpsc::Receiver;

use backstop_core::clock;

use super::*;

fn watched(policy: &Arc<LivePolicy>) -> (Watcher, Receiver<Reload>) {
    let (sender, reloads) = std::sync::mpsc::channel();
    let watcher = Watcher::start(vec![Arc::clone(policy)], move |_, reload| {
        let _ = sender.send(reload);
    });
    (watcher.unwrap(), reloads)
}

/// Appends `text` to the file in pieces for this long, and opens and closes the file each time, like a shell's `>>`.
fn append(path: &Path, text: &str, pieces: usize, time: Duration) {
    for piece in text.as_bytes().chunks(text.len().div_ceil(pieces)) {
        let mut file = std::fs::File::options();
        let mut file = file.create(true).append(true).open(path).unwrap();
        file.write_all(piece).unwrap();
        drop(file);
        std::thread::sleep(time / u32::try_from(pieces).unwrap());
    }
}

#[test]
fn a_file_that_is_written_for_seconds_is_refused_once_or_twice_and_not_for_each_piece() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (_watcher, reloads) = watched(&policy);
    // Longer than the debounce, but shorter than the limit.
    std::fs::remove_file(world.at("policy.wat")).unwrap();
    append(
        &world.at("policy.wat"),
        &waits(2),
        60,
        Duration::from_secs(3),
    );
    let mut refused = 0;
    while let Reload::Refused { .. } = next(&reloads) {
        refused += 1;
    }
    assert_eq!(wait_of(&policy), 2);
    assert!((1..=2).contains(&refused), "{refused}");
}

#[test]
fn a_log_next_to_the_policy_neither_causes_constant_checks_nor_delays_a_version() {
    let world = World::new();
    world.write("policy.wat", &waits(1));
    let policy = world.start("./policy.wat");
    let (_watcher, reloads) = watched(&policy);
    let log = world.at("decisions.jsonl");
    let logging = std::thread::spawn(move || {
        append(&log, &"{}\n".repeat(500), 500, Duration::from_secs(4));
    });
    let mut checks = std::collections::BTreeSet::new();
    for _ in 0..100 {
        checks.insert(policy.status().checked);
        std::thread::sleep(Duration::from_millis(20));
    }
    // The one at the start, and one each second.
    assert!((2..=5).contains(&checks.len()), "{}", checks.len());
    let began = clock::instant();
    world.write("new", &waits(2));
    std::fs::rename(world.at("new"), world.at("policy.wat")).unwrap();
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    let took = began.elapsed();
    assert!(
        !logging.is_finished() && took < Duration::from_secs(2),
        "{took:?}"
    );
    logging.join().unwrap();
}

/// Another folder gets the same name, and its changes are noticed too.
#[test]
fn a_replaced_folder_is_still_watched() {
    let world = World::new();
    for (folder, wait) in [("live", 1), ("next", 2)] {
        std::fs::create_dir(world.at(folder)).unwrap();
        world.write(&format!("{folder}/policy.wat"), &waits(wait));
    }
    let policy = world.start("./live/policy.wat");
    let (_watcher, reloads) = watched(&policy);
    std::thread::sleep(Duration::from_millis(500));
    std::fs::rename(world.at("live"), world.at("old")).unwrap();
    std::fs::rename(world.at("next"), world.at("live")).unwrap();
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
    world.write("live/policy.wat", &waits(3));
    assert!(matches!(next(&reloads), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 3);
}
