//! The dead-letter queues of a queue, before their URLs are checked.

use backstop_files::text_or_table;
use serde::Deserializer;

use super::*;

/// `"https://…"`, or a table of URLs by class: `{ permanent = "https://…", default = "https://…" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeadLetterQueues(pub(crate) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for DeadLetterQueues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_table(
            deserializer,
            "the URL of a queue, or a table of URLs by class such as { permanent = \"https://…\", default = \"https://…\" }",
            |url| {
                let mut queues = Self::default();
                queues.set(None, url.to_owned());
                Some(queues)
            },
            Self,
        )
    }
}
