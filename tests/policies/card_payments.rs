//! The expected answers of the templates of all languages: those of the Rust template, run natively.

use std::path::Path;
use std::sync::Arc;

use backstop_core::decision::{Action, Answer, ErrorClass};
use backstop_core::failure::{Failure, Milliseconds};
use backstop_core::settings::Settings;
use backstop_core::text::one_line;
use backstop_engine::{Compiled, EvaluationError, Limits, Payload, Sandbox};
use backstop_policy::{Policy, Verdict, testing, whole_milliseconds};
use backstop_versions::{Source, Store};
use backstop_workbench::check;
use backstop_workbench::scenario::Suite;
use backstop_workbench::subject::Subject;

use backstop_tests::backstop::cache;
use backstop_tests::toolchain::example;
use template::Payments;

#[path = "../../examples/policies/rust/src/lib.rs"]
#[allow(
    unreachable_pub,
    clippy::wildcard_enum_match_arm,
    reason = "it is a crate of its own"
)]
mod template;

/// How many failures the languages are compared on, for each set of settings.
const FAILURES: usize = 1_500;

/// A live instance is replaced after this many evaluations: the C template never frees memory.
const LIVE: usize = 100;

/// Values that operators may set for the number of attempts, valid and invalid.
const ATTEMPTS: [&str; 16] = [
    "1",
    "8",
    "007",
    "4294967295",
    "0",
    "4294967296",
    "99999999999999999999",
    "-1",
    "+5",
    "5.0",
    "1e3",
    "12abc",
    " 5",
    "",
    "५",
    "many\0é😀",
];

/// A policy's file, compiled by the command.
pub(crate) fn compiled(component: &Path) -> Subject {
    let kept = Store::open(&cache()).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    let sandbox = sandbox.with_compiled(Compiled::default().kept_in(Some(kept.code())));
    Subject::load(
        &sandbox,
        &Source::path(component.to_owned()),
        "card-payments",
    )
    .unwrap()
}

/// Settings with this number of attempts.
pub(crate) fn attempts(number: &str) -> Settings {
    [("attempts", number)].into()
}

/// Fails if the component's answers differ from those of the Rust template.
pub(crate) fn assert_same_decisions(component: &Path) {
    let subject = compiled(component);
    let suite = Suite::read(&example("scenarios.toml")).unwrap();
    let payload = Arc::<Payload>::default();
    let failures: Vec<_> = check::failures(7, &suite.scenarios)
        .map(|(failure, _)| failure)
        .take(FAILURES)
        .collect();
    for settings in [Settings::new(), attempts("4294967295")] {
        let policy = subject.policy(&settings);
        let payments = Payments::configure(&settings).unwrap();
        for failures in failures.chunks(LIVE) {
            let mut session = policy.session(&payload);
            for failure in failures {
                let answered = session.evaluate(failure);
                let expected = expected(&payments, failure);
                assert_eq!(answered, expected, "{settings:?} {failure:#?}");
            }
        }
    }
    let unknown = Settings::from([("attempt\0é", "8")]);
    for settings in ATTEMPTS.map(attempts).into_iter().chain([unknown]) {
        let failure = backstop_tests::failure("lock_timeout");
        let evaluation = subject.policy(&settings).evaluate(&failure, &payload);
        assert!(!evaluation.read_clock, "{settings:?}");
        let expected = match Payments::configure(&settings) {
            Ok(payments) => expected(&payments, &failure),
            // The host shows what a policy says in one line.
            Err(refusal) => Err(EvaluationError::Settings(one_line(&refusal))),
        };
        assert_eq!(evaluation.answer, expected, "{settings:?}");
    }
}

fn expected(payments: &Payments, failure: &Failure) -> Result<Answer, EvaluationError> {
    let told = as_told(failure);
    let class = payments.classify(&told.error);
    let action = match payments.judge(&told, &class) {
        Verdict::DeadLetter(reason) => Action::DeadLetter { reason },
        Verdict::Discard(reason) => Action::Discard { reason },
        Verdict::Retry => {
            let delay = Milliseconds(whole_milliseconds(payments.delay(&told, &class)));
            Action::Retry { delay }
        }
    };
    let class = match class {
        backstop_policy::ErrorClass::Transient => ErrorClass::Transient,
        backstop_policy::ErrorClass::Throttled => ErrorClass::Throttled,
        backstop_policy::ErrorClass::Permanent => ErrorClass::Permanent,
        backstop_policy::ErrorClass::Other(name) => ErrorClass::Other(name),
    };
    Ok(Answer::new(class, action).validate()?)
}

/// A failure as the SDK represents it.
fn as_told(failure: &Failure) -> backstop_policy::Failure {
    let Failure { error, .. } = failure;
    backstop_policy::Failure {
        message_id: failure.message_id.clone(),
        source: failure.source.clone(),
        attempt: failure.attempt.get(),
        age: failure.age.0,
        previous_delay: failure.previous_delay.map(|delay| delay.0),
        error: backstop_policy::Error {
            code: error.code.clone(),
            message: error.message.clone(),
            status: error.status,
            retry_after: error.retry_after.map(|delay| delay.0),
            details: error.details.clone(),
        },
        attributes: failure.attributes.clone(),
        random: failure.random,
        ..testing::failure("")
    }
}
