//! What hosts and commands write for later: decision records and the state of deliveries.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::LazyLock;

use backstop_core::settings::Settings;
use backstop_engine::{Component, Part, Policy, builtin};
use backstop_files::sealed::{Opened, open, seal};
use backstop_json::Object;
use backstop_records::{DecisionRecord, EventRecord};
use backstop_workbench::replay::{Candidate, KnownIds, Life, Lines, Replay, Report};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::edits::Edit;
use crate::policies::ON_DEMAND;
use crate::text;

/// The state of a delivery, which is a sealed object: cut or changed, it is none.
pub(crate) fn checkpoint(input: &[u8]) {
    assert!(
        !matches!(open(input), Opened::Whole(object) if seal(&object) != input.strip_suffix(b"\n").unwrap_or(input))
    );
    let Some((edit, rest)) = Edit::of(input) else {
        return;
    };
    let text = text(rest);
    let text = text.trim();
    let Ok(object) = Object::parse(text) else {
        return;
    };
    if object.is_empty() {
        return;
    }
    let sealed = seal(text.as_bytes());
    assert_eq!(open(&sealed), Opened::Whole(text.as_bytes().to_vec()));
    assert!(serde_json::from_slice::<Object<'_>>(&sealed).is_ok());
    let mut changed = sealed.clone();
    edit(changed.len()).apply(&mut changed);
    match open(&changed) {
        Opened::Whole(_) => assert_eq!(changed, sealed),
        Opened::Unsealed | Opened::Changed => assert_ne!(changed, sealed),
    }
}

static CANDIDATE: LazyLock<Candidate> = LazyLock::new(|| {
    let file = builtin::bytes("full-jitter").unwrap();
    let part = Part {
        component: Component::load(&ON_DEMAND, "full-jitter", file).unwrap(),
        settings: Settings::new(),
    };
    Candidate::Configured(Policy::single(&ON_DEMAND, part))
});

/// A record is written and read again as the same. A file of lines is replayed as a compressed one is, on any number of threads, and tells the same life.
pub(crate) fn decision_record(input: &[u8]) {
    for line in input.split(|byte| *byte == b'\n') {
        if let Ok(record) = serde_json::from_slice::<DecisionRecord>(line) {
            let written = serde_json::to_string(&record).unwrap();
            let again: DecisionRecord =
                serde_json::from_str(&written).expect("a record of ours is one");
            assert_eq!(again, record, "{written}");
            assert!(record.size() < 64 << 10 && record.ids().count() > 0);
        }
        if let Ok(event) = serde_json::from_slice::<EventRecord>(line) {
            let written = serde_json::to_string(&event).unwrap();
            let again: EventRecord =
                serde_json::from_str(&written).expect("an event of ours is one");
            assert_eq!(again, event, "{written}");
        }
    }
    // As what gzip has compressed, it may be damaged.
    if input.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("decisions.jsonl");
    std::fs::write(&path, input).unwrap();
    let report = |threads| {
        let replay = Replay {
            new: &CANDIDATE,
            old: None,
            queue: None,
            samples: 3,
        };
        let mut lines = Lines::of(vec![path.clone()]);
        replay.run(&mut lines, threads, |_| ()).unwrap()
    };
    let life = || {
        let mut lines = Lines::of(vec![path.clone()]);
        let life = Life::read(&mut KnownIds::of("m-1"), &mut lines, |_| ()).unwrap();
        (
            life.decisions.len(),
            life.events.len(),
            life.unreadable.is_some(),
        )
    };
    let (plain, told) = (report(1), life());
    assert_counts(&plain);
    let mut compressed = GzEncoder::new(std::fs::File::create(&path).unwrap(), Compression::fast());
    compressed.write_all(input).unwrap();
    compressed.finish().unwrap();
    assert_eq!(report(2), plain);
    assert_eq!(life(), told);
}

fn assert_counts(report: &Report) {
    let sum = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
    let not_comparable: usize = report.not_comparable.values().sum();
    assert_eq!(
        report.records,
        report.same + report.different + not_comparable
    );
    assert_eq!(report.records, sum(&report.queues));
}
