//! The template of each language, as `backstop policy new` makes it, before bodies and errors that a sender or a worker chose.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_core::failure::{Error, Failure, MESSAGE_BYTES, Milliseconds};
use backstop_core::settings::Settings;
use backstop_core::text::cut;
use backstop_engine::{Compiled, EvaluationError, Limits, Payload, Policy, Sandbox};
use backstop_tests::backstop::{cache, text as shown};
use backstop_tests::toolchain::{Author, example};
use backstop_versions::{Source, Store};
use backstop_workbench::Language;
use backstop_workbench::subject::Subject;
use sha2::{Digest, Sha256};

use crate::text;

/// The languages that are compared, the Rust template first: the others must answer as it does.
const LANGUAGES: [Language; 6] = [
    Language::Rust,
    Language::C,
    Language::Go,
    Language::JavaScript,
    Language::TypeScript,
    Language::Python,
];

/// Their policies, each built and compiled once.
static POLICIES: LazyLock<Vec<(Language, Policy)>> = LazyLock::new(|| {
    let kept = Store::open(&cache()).unwrap();
    let limits = Limits {
        time: Duration::from_secs(20),
        ..Limits::default()
    };
    let sandbox = Sandbox::new(limits).unwrap();
    let sandbox = sandbox.with_compiled(Compiled::default().kept_in(Some(kept.code())));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let built = |language: Language| {
        let component = runtime.block_on(built(language));
        let subject = Subject::load(&sandbox, &Source::path(component), "card-payments").unwrap();
        (language, subject.policy(&Settings::new()))
    };
    LANGUAGES.map(built).into()
});

/// The component of a language's template. It is kept for the next run, as long as its sources are the same.
async fn built(language: Language) -> PathBuf {
    let mut sources = Sha256::new();
    hash(&example(&language.to_string()), &mut sources);
    let digest = sources.finalize();
    let name = format!(
        "fuzz-{language}-{:02x}{:02x}{:02x}{:02x}.wasm",
        digest[0], digest[1], digest[2], digest[3]
    );
    let kept = cache().with_file_name(name);
    if !kept.exists() {
        let author = Author::new(&language.to_string()).await;
        let ended = author.backstop(&["policy", "build"]).await;
        assert!(
            ended.status.success(),
            "{language}: {}",
            shown(&ended.stderr)
        );
        let file = std::fs::read(author.component()).unwrap();
        backstop_files::atomic_write::write(&kept, &file, 0o600).unwrap();
    }
    kept
}

/// Hashes the files of a folder in their order.
fn hash(folder: &Path, sources: &mut Sha256) {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash(&path, sources);
        } else {
            sources.update(std::fs::read(path).unwrap());
        }
    }
}

/// A body, and a failure that is made of it: no template traps, and all answer the same.
pub(crate) fn templates(input: &[u8]) {
    let text = text(input);
    let failure = failure(&text).within_bounds().into_owned();
    let payload = Arc::new(Payload::new(text.as_ref()));
    let mut expected = None;
    for (language, policy) in POLICIES.iter() {
        let answer = policy.evaluate(&failure, &payload).answer;
        if matches!(answer, Err(EvaluationError::OutOfTime(..))) {
            continue;
        }
        assert!(answer.is_ok(), "{language}: {answer:?}\n{failure:#?}");
        let expected = expected.get_or_insert_with(|| answer.clone());
        assert_eq!(&answer, expected, "{language}: {failure:#?}");
    }
}

/// A failure whose texts and numbers are pieces of the input.
fn failure(text: &str) -> Failure {
    let mut lines = text.lines().map(str::to_owned);
    let mut line = || lines.next().unwrap_or_default();
    let number = text
        .bytes()
        .fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(byte));
    let (code, message, name, value) = (line(), line(), line(), line());
    let mut whole = text.to_owned();
    cut(&mut whole, MESSAGE_BYTES);
    let error = Error::new(code, if message.is_empty() { whole } else { message })
        .status(
            u16::try_from(400 + (number >> 8) % 200)
                .ok()
                .filter(|_| number & 1 == 0),
        )
        .retry_after((number & 2 == 0).then_some(Milliseconds(number)))
        .details([(name.clone(), value.clone())]);
    Failure {
        attempt: NonZeroU32::new(number % 12).unwrap_or(NonZeroU32::MAX),
        age: Milliseconds(number.rotate_left(7)),
        previous_delay: (number & 4 == 0).then_some(Milliseconds(number / 2)),
        attributes: vec![(name, value)],
        random: f64::from(number) / (f64::from(u32::MAX) + 1.0),
        error,
        ..backstop_tests::failure("")
    }
}
