//! What the messages of a queue are grouped by: a text of each, such as its tenant. Bodies are not remembered, so it is taken when a message begins to wait.

use std::fmt;

use super::Waiting;
use crate::queue::Message;

/// Takes the text from a message: one line of a bounded length.
type Take = Box<dyn Fn(&Message) -> Option<String> + Send + Sync>;

/// What the messages of a queue are grouped by.
pub struct Grouping {
    by: String,
    of: Take,
}

impl Grouping {
    /// By the text that `of` takes from a message: one line of a bounded length. `by` is its name in the configuration, such as `/tenant`.
    pub fn new(
        by: impl fmt::Display,
        of: impl Fn(&Message) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            by: by.to_string(),
            of: Box::new(of),
        }
    }
}

impl Waiting {
    /// Groups the messages that fail from now on. To be called before anything is remembered.
    pub fn group_by(&self, grouping: Grouping) {
        let _ = self.grouping.set(grouping);
    }

    /// What messages are grouped by, if they are.
    pub fn grouped_by(&self) -> Option<&str> {
        self.grouping.get().map(|grouping| grouping.by.as_str())
    }

    /// The group of a message; empty if it has none.
    pub(super) fn group(&self, message: &Message) -> String {
        let grouping = self.grouping.get();
        let group = grouping.and_then(|grouping| (grouping.of)(message));
        group.unwrap_or_default()
    }
}
