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
fn what_is_kept_comes_back_for_the_same_policy_alone() {
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
fn a_file_that_is_not_what_it_was_does_not_come_back() {
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
fn knowledge_that_was_cut_short_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    store.persist("one", &PersistedState::default());
    let path = store.known().join(file_name("one"));
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    assert!(store.recall("one").is_none());
}

#[test]
fn a_folder_that_others_may_write_to_is_no_store() {
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
fn a_file_that_was_cut_short_is_mended() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let file = found(b"one");
    store.keep(&[Arc::clone(&file)]);
    std::fs::write(store.file(file.digest), "o").unwrap();
    store.keep(&[Arc::clone(&file)]);
    assert!(store.files_of(&[StoredFile::from(&file)]).is_some());
}

#[test]
fn what_a_policy_needs_stays_however_old_and_the_rest_goes() {
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
        "too new to go"
    );
    for file in [&needed, &other] {
        age(&store.file(file.digest), UNUSED * 2);
        age(&code(file), UNUSED * 2);
    }
    store.sweep();
    assert!(store.file(needed.digest).exists() && code(&needed).exists());
    assert!(!store.file(other.digest).exists() && !code(&other).exists());
    // Forgotten, when nobody has served it for half a year; and then not needed any more.
    age(&store.known().join(file_name("one")), FORGOTTEN * 2);
    age(&store.file(needed.digest), UNUSED * 2);
    store.sweep();
    store.sweep();
    assert!(!store.file(needed.digest).exists());
    assert!(store.recall("one").is_none());
}

#[test]
fn there_is_no_more_unneeded_code_than_so_much() {
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
    // As a process leaves it that ended.
    std::fs::write(&path, "loading\n").unwrap();
    assert!(store.take_dead_mark("key"));
    assert!(!store.take_dead_mark("key"), "it is taken once");
    std::fs::write(&path, "loading\n").unwrap();
    age(&path, REMEMBERED * 2);
    assert!(!store.take_dead_mark("key"));
    // One that is left is no hindrance to the next.
    std::fs::write(&path, "loading\n").unwrap();
    drop(store.mark("key").unwrap());
    assert!(!path.exists());
}
