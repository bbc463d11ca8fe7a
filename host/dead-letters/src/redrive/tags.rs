//! The tags of a queue: who has its lock, and who has asked a run to stop.

use std::collections::HashMap;

use backstop_core::failure::Timestamp;
use backstop_core::text::cut;
use backstop_queue::{Queue, QueueError};

use crate::requests::read;

/// The key of the tag.
pub const TAG: &str = "backstop-redrive";

/// The key of the tag that asks a run to stop.
pub const STOP_TAG: &str = "backstop-redrive-stop";

/// The most bytes of an owner in a tag. A value has 256 characters at most.
const WHO_BYTES: usize = 100;

/// Who has the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The run.
    pub run: String,
    /// When the lock ends if it is not renewed.
    pub until: Timestamp,
    /// The process that works on the run, if the tag names it.
    pub process: String,
    /// Who has started the run.
    pub who: String,
}

impl Holder {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ' ');
        let run = parts.next()?.to_owned();
        let until = parts.next()?;
        let (until, process) = until.split_once('/').unwrap_or((until, ""));
        Some(Self {
            run,
            until: Timestamp(until.parse().ok()?),
            process: process.to_owned(),
            who: parts.next().unwrap_or_default().to_owned(),
        })
    }

    /// The value of the tag.
    pub(super) fn text(&self) -> String {
        let (run, until) = (&self.run, self.until.0);
        let text = format!("{run} {until}/{} {}", self.process, allowed(&self.who));
        text.trim().to_owned()
    }
}

/// A name as a tag can have it: SQS allows letters, digits, spaces and some signs.
fn allowed(who: &str) -> String {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.:/=+-@ ".contains(c);
    let mut who = who.replace(|c| !is_allowed(c), "_");
    cut(&mut who, WHO_BYTES);
    who.trim().to_owned()
}

/// Whose run has the lock of a queue, or has left its tag there.
pub async fn holder(queue: &dyn Queue) -> Result<Option<Holder>, QueueError> {
    let tags = read(|| queue.tags()).await?;
    Ok(held_by(&tags))
}

/// Asks the run to stop that has the lock of a queue.
pub async fn ask_to_stop(queue: &dyn Queue, run: &str, who: &str) -> Result<(), QueueError> {
    let who = allowed(who);
    let who = if who.is_empty() { "somebody" } else { &who };
    let text = format!("{run} {who}");
    read(|| queue.set_tag(STOP_TAG, Some(&text))).await
}

pub(super) fn held_by(tags: &HashMap<String, String>) -> Option<Holder> {
    let text = tags.get(TAG).filter(|text| !text.is_empty())?;
    Some(Holder::parse(text).unwrap_or_else(|| Holder {
        run: text.clone(),
        until: Timestamp(0),
        process: String::new(),
        who: String::new(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_what_its_tag_says() {
        let holder = Holder {
            run: "20261125-230000-7f3a".to_owned(),
            until: Timestamp(1_795_000_000_000),
            process: "5eb1".to_owned(),
            who: "ana@box (night shift) ✓".to_owned(),
        };
        let text = holder.text();
        assert_eq!(
            text,
            "20261125-230000-7f3a 1795000000000/5eb1 ana@box _night shift_ _"
        );
        let parsed = Holder::parse(&text).unwrap();
        assert_eq!((&parsed.run, parsed.until), (&holder.run, holder.until));
        assert_eq!(parsed.process, "5eb1");
        let long = Holder {
            who: "x".repeat(1_000),
            ..holder
        };
        assert!(long.text().len() < 256);
        for odd in ["", "run", "run soon ana"] {
            assert!(Holder::parse(odd).is_none(), "{odd}");
        }
    }
}
