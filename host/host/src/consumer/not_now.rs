//! A message that is not attempted now.

use std::time::Duration;

/// Why a message is not attempted now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotNow {
    /// The whole queue is down.
    QueueDown,
    /// What is behind its key is down.
    Down(String),
    /// Its key is at a limit.
    Limited(String),
}

/// A message that is made invisible without an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeldBack {
    pub(super) why: NotNow,
    /// When an attempt may be worthwhile again, at the earliest.
    pub(super) wait: Duration,
}

const DOWN: &str = "HeldBack ";
const LIMITED: &str = "Limited ";

impl NotNow {
    /// What `backstop waiting` shows as the cause. Messages that are received again at once have none.
    pub(super) fn code(&self) -> Option<String> {
        match self {
            Self::QueueDown => None,
            Self::Down(key) => Some(format!("{DOWN}{key}")),
            Self::Limited(key) => Some(format!("{LIMITED}{key}")),
        }
    }

    /// The cause that has this code.
    pub(super) fn of_code(code: &str) -> Option<Self> {
        let down = code.strip_prefix(DOWN);
        let limited = code.strip_prefix(LIMITED);
        down.map(|key| Self::Down(key.to_owned()))
            .or_else(|| limited.map(|key| Self::Limited(key.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_leads_back_to_its_cause() {
        for why in [
            NotNow::Down("acme".to_owned()),
            NotNow::Limited("HeldBack a".to_owned()),
        ] {
            assert_eq!(NotNow::of_code(&why.code().unwrap()), Some(why));
        }
        assert_eq!(NotNow::of_code("HTTP 503"), None);
        assert_eq!(NotNow::QueueDown.code(), None);
    }
}
