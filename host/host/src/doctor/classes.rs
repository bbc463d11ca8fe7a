//! The classes that have a dead-letter queue of their own: one that no policy answers has a queue that is never used. Pure: makes no requests.

use backstop_files::nearest::nearest;

use super::{Findings, Severity};
use crate::config::{DeadLetterQueues, DeciderConfig};
use crate::policy::{Location, PolicySpec};

/// The classes of the contract.
const CLASSES: [&str; 3] = ["permanent", "throttled", "transient"];

/// Reports classes that the policy can't or may not answer.
pub(super) fn check(findings: &mut Findings, queues: &DeadLetterQueues, decider: &DeciderConfig) {
    let known = CLASSES.join(", ");
    for class in queues.classes.keys() {
        if CLASSES.contains(&class.as_str()) {
            continue;
        }
        let near = nearest(class, CLASSES);
        let meant = near.map(|near| format!(" (`{near}`?)")).unwrap_or_default();
        if !defines_classes(&decider.policy) {
            findings.add(
                Severity::Warning,
                format!(
                    "dead-letter-queue names the class `{class}`{meant}, which the policy never answers, so its queue gets no letters: the classes are {known}, and `default` for all others"
                ),
            );
        } else if near.is_some() {
            findings.add(
                Severity::Warning,
                format!(
                    "dead-letter-queue names the class `{class}`{meant}: unless the policy defines it, its queue gets no letters. The classes of every policy are {known}"
                ),
            );
        } else {
            findings.add(
                Severity::Unknown,
                format!(
                    "not checked: whether the policy defines the class `{class}` of dead-letter-queue. If not, its queue gets no letters"
                ),
            );
        }
    }
}

/// Whether the policy may answer classes of its own: the built-in ones and the host's default don't.
fn defines_classes(policy: &PolicySpec) -> bool {
    let classifier = match policy {
        PolicySpec::Single(part) => Some(part),
        PolicySpec::Composed(parts) => parts.classifier.as_ref(),
    };
    classifier.is_some_and(|part| !matches!(part.source.location, Location::Builtin(_)))
}

#[cfg(test)]
mod tests {
    use super::super::documented::expect_row;
    use super::*;
    use crate::config::Config;

    /// The verdicts and texts for a queue with this policy, and this class of its dead-letter queues.
    fn found(policy: &str, class: &str) -> Vec<(Severity, String)> {
        let text = format!(
            "[queues.orders]\nurl = \"local:orders\"\nhandler = {{ exec = \"cat\" }}\npolicy = {policy}\ndead-letter-queue = {{ {class} = \"local:invalid\", default = \"local:dead\" }}\n"
        );
        let config = Config::parse(&text, "backstop.toml".as_ref()).unwrap();
        let queue = &config.queues[0];
        let mut findings = Findings::about("queue orders");
        check(&mut findings, &queue.dead_letter_queues, &queue.decider);
        let found = findings.found.into_iter();
        let found = found.inspect(|it| expect_row(it.severity, &it.text));
        found.map(|it| (it.severity, it.text)).collect()
    }

    #[test]
    fn a_class_that_the_policy_never_answers_is_reported_with_the_right_ones() {
        for class in CLASSES {
            assert_eq!(found("\"linear\"", class), [], "{class}");
            assert_eq!(found("\"./mine.wasm\"", class), [], "{class}");
        }
        let builtin = found("\"linear\"", "permanant");
        assert_eq!((builtin.len(), builtin[0].0), (1, Severity::Warning));
        for part in [
            "`permanant` (`permanent`?)",
            "permanent, throttled, transient",
        ] {
            assert!(builtin[0].1.contains(part), "{builtin:?}");
        }
        let builtin = found("\"linear\"", "card");
        assert!(
            builtin[0].1.contains("the class `card`, which"),
            "{builtin:?}"
        );
        let own = found("\"./mine.wasm\"", "permenant");
        assert_eq!(own[0].0, Severity::Warning);
        assert!(own[0].1.contains("(`permanent`?): unless"), "{own:?}");
        let own = found("\"./mine.wasm\"", "card");
        assert_eq!(own[0].0, Severity::Unknown);
        // Only the part that classifies has a say.
        let composed = found("{ backoff = \"./mine.wasm\" }", "card");
        assert_eq!(composed[0].0, Severity::Warning, "{composed:?}");
    }
}
