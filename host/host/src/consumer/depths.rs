//! The depths of a queue and of its dead-letter queues, as they were read last.

use std::collections::BTreeMap;
use std::sync::Mutex;

use backstop_core::lock::lock;

/// The last depths; none of what was never read.
#[derive(Debug, Default)]
pub(crate) struct Depths(Mutex<Read>);

#[derive(Debug, Default)]
struct Read {
    visible: Option<u64>,
    /// By the name of each queue.
    dead_letters: BTreeMap<String, u64>,
}

impl Depths {
    /// The queue has this many visible messages.
    pub(crate) fn set_visible(&self, messages: u64) {
        lock(&self.0).visible = Some(messages);
    }

    /// The dead-letter queue with this name has this many messages.
    pub(crate) fn set_dead_letters(&self, queue: &str, messages: u64) {
        let mut read = lock(&self.0);
        read.dead_letters.insert(queue.to_owned(), messages);
    }

    /// The visible messages.
    pub(crate) fn visible(&self) -> Option<u64> {
        lock(&self.0).visible
    }

    /// The messages in all dead-letter queues.
    pub(crate) fn dead_letters(&self) -> Option<u64> {
        let read = lock(&self.0);
        let is_read = !read.dead_letters.is_empty();
        is_read.then(|| read.dead_letters.values().sum())
    }
}
