//! Ids that a command prints and another one is given: what an id is of, by its form, and which command takes it.

use backstop_core::text::one_line;

/// What an id is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A message or a letter: SQS's own ids.
    Message,
    /// A run of `dlq redrive`.
    Run,
    /// A version of a policy: its digest, or the twelve digits that logs show of it.
    Version,
    /// What similar letters have in common.
    Fingerprint,
}

impl Kind {
    /// What an id of this form is of.
    pub(crate) fn of(id: &str) -> Option<Self> {
        let digits = |text: &str, count: usize| {
            text.len() == count && text.bytes().all(|it| it.is_ascii_digit())
        };
        let hex = |text: &str, count: usize| {
            text.len() == count && text.bytes().all(|it| it.is_ascii_hexdigit())
        };
        let parts: Vec<_> = id.split('-').collect();
        match parts.as_slice() {
            [day, time, rest] if digits(day, 8) && digits(time, 6) && hex(rest, 4) => {
                Some(Self::Run)
            }
            [a, b, c, d, e] if hex(a, 8) && [b, c, d].iter().all(|it| hex(it, 4)) && hex(e, 12) => {
                Some(Self::Message)
            }
            [digest] => {
                let plain = digest.strip_prefix("sha256:").unwrap_or(digest);
                if hex(plain, 64) || hex(plain, 12) {
                    Some(Self::Version)
                } else {
                    hex(digest, 8).then_some(Self::Fingerprint)
                }
            }
            _ => None,
        }
    }

    /// Which command takes an id of this kind.
    fn command(self, id: &str) -> String {
        match self {
            Self::Message => format!(
                "It has the form of a message's id: `backstop why {id}` shows its life, and `backstop dlq show QUEUE {id}` its letter, if it has died"
            ),
            Self::Run => format!(
                "It has the form of a redrive's run: `backstop dlq runs {id}` shows it, for the user who started it, or with the --state of that command"
            ),
            Self::Version => format!(
                "It has the form of a policy's digest: `backstop policy status` shows which versions hosts use, and `backstop dlq list QUEUE --decided-by {id}` the letters that it decided"
            ),
            Self::Fingerprint => format!(
                "It has the form of a fingerprint: `backstop dlq list QUEUE --fingerprint {id}` shows its letters"
            ),
        }
    }
}

/// A sentence to add to an error about an id that a command does not take: which one does. Empty for an id of a `known` kind or of none.
pub(crate) fn elsewhere(id: &str, known: &[Kind]) -> String {
    match Kind::of(id).filter(|kind| !known.contains(kind)) {
        Some(kind) => format!(". {}", kind.command(&one_line(id))),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_by_its_form() {
        let digest = "a1".repeat(32);
        for (id, kind) in [
            ("20261122-032140-f0a6", Some(Kind::Run)),
            ("5fea7756-0ea4-451a-a703-a558b933e274", Some(Kind::Message)),
            ("50c6a2162ddb", Some(Kind::Version)),
            (digest.as_str(), Some(Kind::Version)),
            (&format!("sha256:{digest}"), Some(Kind::Version)),
            ("sha256:50c6a2162ddb", Some(Kind::Version)),
            ("3f2a91c0", Some(Kind::Fingerprint)),
            ("", None),
            ("orders-2", None),
            ("20261122-032140", None),
            ("2026112x-032140-f0a6", None),
            ("../..", None),
        ] {
            assert_eq!(Kind::of(id), kind, "{id}");
        }
    }

    #[test]
    fn an_id_of_another_kind_leads_to_the_command_that_takes_it() {
        let run = "20261122-032140-f0a6";
        assert!(elsewhere(run, &[Kind::Message]).contains(&format!("`backstop dlq runs {run}`")));
        assert_eq!(elsewhere(run, &[Kind::Run]), "");
        assert_eq!(elsewhere("orders-2", &[]), "");
        let version = elsewhere("50c6a2162ddb", &[Kind::Message]);
        assert!(version.contains("--decided-by 50c6a2162ddb"), "{version}");
    }
}
