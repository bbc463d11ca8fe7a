use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use std::collections::BTreeSet;
use std::time::Duration;

use super::refusals::REMEMBERED;
use super::sweep::{FORGOTTEN, UNUSED, UNUSED_BYTES, entries};
use super::*;

fn found(bytes: &[u8]) -> Arc<FetchedFile> {
    Arc::new(FetchedFile::new(
        bytes.to_vec(),
        Some("signature".to_owned()),
        Some("tag".to_owned()),
    ))
}

#[test]
fn stored_state_is_recalled_for_the_same_policy_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    assert!(store.recall("one").is_none());
    let files = vec![found(b"one")];
    store.keep(&files);
    let known = PersistedState {
        live: files.iter().map(StoredFile::from).collect(),
        ..PersistedState::default()
    };
    store.persist("one", &known);
    let again = Store::open(&folder.path().join("store")).unwrap();
    let recalled = again.recall("one").unwrap();
    assert_eq!(again.files_of(&recalled.live).unwrap(), files);
    assert!(again.files_of(&recalled.before).is_none());
    assert!(again.recall("other").is_none());
}

#[test]
fn a_damaged_file_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let file = found(b"one");
    let version = [StoredFile::from(&file)];
    store.keep(&[Arc::clone(&file)]);
    std::fs::write(store.file(file.digest), "on").unwrap();
    assert!(store.files_of(&version).is_none());
    std::fs::remove_file(store.file(file.digest)).unwrap();
    assert!(store.files_of(&version).is_none());
}

#[test]
fn incomplete_state_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.persist("one", &PersistedState::default());
    let path = store.known().join(file_name("one"));
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(store.recall("one").is_none());
}

#[test]
fn a_folder_that_others_may_write_to_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    Store::open(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
    let refused = Store::open(&path).unwrap_err();
    assert!(
        refused.to_string().contains("written to by others"),
        "{refused}"
    );
    std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    std::fs::remove_dir(path.join("code")).unwrap();
    std::os::unix::fs::symlink("/tmp", path.join("code")).unwrap();
    assert!(Store::open(&path).is_err());
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(Store::open(&folder.path().join("file")).is_err());
}

fn age(path: &Path, age: Duration) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(backstop_core::clock::system() - age)
        .unwrap();
}

#[test]
fn an_incomplete_file_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let file = found(b"one");
    store.keep(&[Arc::clone(&file)]);
    std::fs::write(store.file(file.digest), "o").unwrap();
    store.keep(&[Arc::clone(&file)]);
    assert!(store.files_of(&[StoredFile::from(&file)]).is_some());
}

#[test]
fn files_that_a_policy_needs_stay_and_others_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (needed, other) = (found(b"needed"), found(b"other"));
    store.keep(&[Arc::clone(&needed), Arc::clone(&other)]);
    let known = PersistedState {
        live: vec![StoredFile::from(&needed)],
        ..PersistedState::default()
    };
    store.persist("one", &known);
    let code = |file: &FetchedFile| {
        store
            .code()
            .join(format!("{}.0.compiled", file.digest.hex()))
    };
    for file in [&needed, &other] {
        std::fs::write(code(file), "code").unwrap();
    }
    store.sweep();
    assert!(
        store.files_of(&[StoredFile::from(&other)]).is_some(),
        "too new to be removed"
    );
    for file in [&needed, &other] {
        age(&store.file(file.digest), UNUSED * 2);
        age(&code(file), UNUSED * 2);
    }
    store.sweep();
    assert!(store.file(needed.digest).exists() && code(&needed).exists());
    assert!(!store.file(other.digest).exists() && !code(&other).exists());
    // State that no host has used for half a year is removed, and then its files are not needed.
    age(&store.known().join(file_name("one")), FORGOTTEN * 2);
    age(&store.file(needed.digest), UNUSED * 2);
    store.sweep();
    store.sweep();
    assert!(!store.file(needed.digest).exists());
    assert!(store.recall("one").is_none());
}

#[test]
fn unneeded_code_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (name, days) in [("old", 3), ("older", 4), ("new", 1)] {
        let path = store.code().join(name);
        let file = std::fs::File::create(&path).unwrap();
        // Sparse: nothing is written.
        file.set_len(UNUSED_BYTES / 2).unwrap();
        age(&path, Duration::from_secs(days * 86_400));
    }
    store.sweep();
    let left: BTreeSet<_> = entries(&store.code())
        .into_iter()
        .map(|it| it.path)
        .collect();
    assert_eq!(
        left,
        BTreeSet::from([store.code().join("new"), store.code().join("old")])
    );
}

#[test]
fn a_refusal_is_remembered_for_a_day_and_forgiven_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.refuse("key", "why".to_owned(), true);
    let (refusal, path) = store.refusal("key").unwrap();
    assert!(refusal.why == "why" && refusal.is_transient && path.exists());
    assert!(store.refusal("another").is_none());
    let text = std::fs::read_to_string(&path).unwrap();
    let yesterday = refusal.at.0 - 86_400_000;
    let old = text.replace(&refusal.at.0.to_string(), &yesterday.to_string());
    std::fs::write(&path, old).unwrap();
    assert!(store.refusal("key").is_none());
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(store.refusal("key").is_none());
    store.refuse("key", "why".to_owned(), false);
    store.forgive("key");
    assert!(store.refusal("key").is_none());
    store.refuse("key", "why".to_owned(), false);
    age(&path, REMEMBERED * 2);
    store.sweep();
    assert!(!path.exists());
}

#[test]
fn a_mark_is_dead_when_nobody_holds_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let path = store.loading().join("key");
    assert!(!store.take_dead_mark("key"));
    let mark = store.mark("key").unwrap();
    assert!(path.exists() && !store.take_dead_mark("key"));
    assert!(store.mark("key").is_none(), "it is marked already");
    drop(mark);
    assert!(!path.exists() && !store.take_dead_mark("key"));
    // The mark of a process that has ended.
    std::fs::write(&path, "loading\n").unwrap();
    assert!(store.take_dead_mark("key"));
    assert!(!store.take_dead_mark("key"), "it is reported once");
    std::fs::write(&path, "loading\n").unwrap();
    age(&path, REMEMBERED * 2);
    assert!(!store.take_dead_mark("key"));
    // A dead mark does not prevent the next one.
    std::fs::write(&path, "loading\n").unwrap();
    drop(store.mark("key").unwrap());
    assert!(!path.exists());
}
