//! What is written about messages: envelopes, archives, journals.

use std::io::Cursor;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_core::failure::{Milliseconds, Timestamp};
use backstop_dead_letters::redrive::{Entry, RunFolder, Runs};
use backstop_dead_letters::{ArchivedLetter, ArchivedLetters};
use backstop_queue::envelope::{ENVELOPE, EnvelopeKeys};
use backstop_queue::{
    Attribute, Connections, Description, Message, MessageEnvelope, Queue, Requests,
    ordinary_message,
};
use backstop_settle::hold::{HoldMode, HoldSettings, Holds};

use crate::answers::RUNTIME;
use crate::edits::Edit;
use crate::{assert_readable, text};

const NOW: Timestamp = Timestamp(1_767_225_600_000);
const MAX_AGE: Milliseconds = Milliseconds(86_400_000);

/// A queue, with the keys of its fleet.
struct Holding {
    description: Description,
    keys: EnvelopeKeys,
    holds: Holds,
}

static HOLDING: LazyLock<Holding> = LazyLock::new(|| {
    let _runtime = RUNTIME.enter();
    let queue: Arc<dyn Queue> = Connections::default().local.named("orders");
    let description = RUNTIME.block_on(queue.describe()).unwrap();
    let keys = EnvelopeKeys::of_this_process([7; 32]);
    let settings = HoldSettings {
        mode: HoldMode::Resend,
        keys: Some(keys.clone()),
        max_age: Some(MAX_AGE),
    };
    let requests = Arc::<Requests>::default();
    let holds = Holds::start(
        settings,
        "orders",
        &queue,
        &description,
        Duration::ZERO,
        &requests,
    );
    Holding {
        description,
        keys,
        holds,
    }
});

fn received(envelope: &str) -> Message {
    let mut message = ordinary_message();
    (message.sent, message.kept_since) = (NOW, NOW);
    let attribute = Attribute::string(envelope);
    message.attributes.insert(ENVELOPE.to_owned(), attribute);
    message
}

/// An envelope that no key verifies changes nothing by which the message could be taken for another one, and is due within the bounds of the queue. One of ours is read as it was written, and is none of ours if a byte is another one.
pub(crate) fn message_envelope(input: &[u8]) {
    let Some((edit, rest)) = Edit::of(input) else {
        return;
    };
    let Holding {
        description,
        keys,
        holds,
    } = &*HOLDING;
    let text = text(rest);
    let before = received(&text);
    let mut opened = before.clone();
    holds.open(&mut opened, NOW);
    assert_eq!((&opened.id, &opened.body), (&before.id, &before.body));
    assert_eq!(
        (&opened.sender, &opened.group),
        (&before.sender, &before.group)
    );
    assert!(opened.sent <= before.sent && opened.receive_count >= before.receive_count);
    if let Some(envelope) = &opened.envelope {
        assert!(!envelope.is_verified && envelope.id == before.id);
        assert!(envelope.due <= NOW.plus(description.retention.as_duration()));
        assert!(envelope.due <= NOW.plus(MAX_AGE.as_duration()));
        assert!(!opened.attributes.contains_key(ENVELOPE));
    }
    let Ok(envelope) = serde_json::from_str::<MessageEnvelope>(&text) else {
        return;
    };
    let written = serde_json::to_string(&envelope).unwrap();
    assert_eq!(
        serde_json::from_str::<MessageEnvelope>(&written).unwrap(),
        envelope
    );
    let signed = keys.sign(&description.arn, (&before).into(), &written);
    assert!(keys.verify(&description.arn, &before, &signed));
    let mut changed = signed.clone().into_bytes();
    edit(changed.len()).apply(&mut changed);
    let changed = String::from_utf8_lossy(&changed);
    // The last digit of a code in base64 has two bits that say nothing.
    let is_same = changed == signed
        || changed.len() == signed.len()
            && changed.get(..changed.len() - 3) == signed.get(..signed.len() - 3);
    assert!(
        is_same || !keys.verify(&description.arn, &before, &changed),
        "{signed}\n{changed}"
    );
    let mut ours = received(&signed);
    holds.open(&mut ours, NOW);
    if let Some(found) = &ours.envelope {
        assert!(found.is_verified);
        assert_eq!((&ours.id, ours.sent), (&envelope.id, envelope.sent));
    }
}

/// A line that is a letter is written and read again as the same, and fits into a queue as far as it did. A file is read as a stream of the same bytes.
pub(crate) fn archive(input: &[u8]) {
    let path = Path::new("letters.jsonl");
    let of_stream: Vec<_> = ArchivedLetters::new(Cursor::new(input), path)
        .take(100)
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letters.jsonl");
    std::fs::write(&file, input).unwrap();
    let of_file: Vec<_> = ArchivedLetters::open(&file).unwrap().take(100).collect();
    assert_eq!(of_stream.len(), of_file.len());
    for (one, other) in of_stream.into_iter().zip(of_file) {
        let letter = match (one, other) {
            (Ok(one), Ok(other)) => {
                assert_eq!(one, other);
                one
            }
            (Err(one), Err(_)) => {
                assert_readable(&one.to_string());
                return;
            }
            (one, other) => panic!("{one:?} of a stream, {other:?} of a file"),
        };
        let line = letter.line();
        assert_eq!(line.matches('\n').count(), 1);
        let again = ArchivedLetter::parse(&line).expect("a line of ours is one");
        assert_eq!(again, letter);
        let mut description = HOLDING.description.clone();
        for fifo in [false, true] {
            description.fifo = fifo;
            let outgoing = letter.outgoing(&description);
            assert_eq!(outgoing.body, letter.body);
            assert!(!fifo || outgoing.group.is_some() && outgoing.deduplication_id.is_some());
            let of_letter = letter.letter().message.size();
            assert!(outgoing.size() <= description.max_message_bytes.max(of_letter + 400));
        }
    }
}

/// A run whose journal has these bytes.
fn run(journal: &[u8]) -> (tempfile::TempDir, RunFolder) {
    let runs = tempfile::tempdir().unwrap();
    let folder = runs.path().join("run-1");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("plan.json"), "{}").unwrap();
    std::fs::write(folder.join("journal.jsonl"), journal).unwrap();
    let run = Runs::at(runs.path()).find("run-1").unwrap();
    (runs, run)
}

/// The entries of a journal, and the lines that can't be read.
fn read(journal: &[u8]) -> (Vec<Entry>, Vec<u64>) {
    let (_folder, run) = run(journal);
    let mut entries = Vec::new();
    run.entries(|_, entry| entries.push(entry)).unwrap();
    let ledger = run.ledger().unwrap();
    let counts = ledger.counts();
    assert!(ledger.letters_left() <= counts.not_deleted + counts.in_doubt);
    let _ = (
        ledger.uncertain(),
        ledger.refused(),
        ledger.came_back().count(),
    );
    (entries, ledger.damaged().to_vec())
}

/// A journal that was cut, or of which a byte was changed, is a part of what was written, and damaged lines are named: nothing else was ever done.
pub(crate) fn journal(input: &[u8]) {
    let _ = read(input);
    let Some((edit, rest)) = Edit::of(input) else {
        return;
    };
    let lines = rest.split(|byte| *byte == b'\n');
    let written: Vec<Entry> = lines
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    let mut bytes: Vec<_> = written
        .iter()
        .flat_map(|entry| entry.line().unwrap())
        .collect();
    assert_eq!(read(&bytes), (written.clone(), Vec::new()));
    let edit = edit(bytes.len());
    let whole = bytes.clone();
    edit.apply(&mut bytes);
    let (found, damaged) = read(&bytes);
    let mut left = written.iter();
    let are_of_these = found.iter().all(|entry| left.any(|it| it == entry));
    assert!(are_of_these, "{edit:?}: {found:?} of {written:?}");
    let is_cut = written.starts_with(&found) && !bytes.ends_with(b"\n");
    let is_whole = bytes == whole || found == written;
    assert!(
        is_whole
            || is_cut
            || bytes.is_empty()
            || !damaged.is_empty()
            || written.starts_with(&found) && matches!(edit, Edit::Cut(_)),
        "{edit:?}: {found:?} of {written:?}"
    );
}
