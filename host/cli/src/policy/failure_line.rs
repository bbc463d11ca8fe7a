//! A failure in one line, for people.

use backstop_core::failure::Failure;

/// The attempt, the age, the error and the random number of a failure.
pub(super) fn describe(failure: &Failure) -> String {
    let Failure {
        attempt,
        age,
        error,
        ..
    } = failure;
    let status = error
        .status
        .map_or_else(String::new, |status| format!(" (HTTP {status})"));
    format!(
        "attempt {attempt}, {age} old: {error}{status}; random {:.3}",
        failure.random
    )
}
