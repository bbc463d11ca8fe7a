//! The work of a handler with a message, in the languages that have packages.

/// What a handler does with each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Load {
    /// Nothing.
    None,
    /// It waits for 2 ms, as a call does.
    Waits,
    /// It computes for 1 ms of its own thread's time.
    Computes,
}

impl Load {
    pub(crate) const ALL: [Self; 3] = [Self::None, Self::Waits, Self::Computes];

    /// How scripts call it.
    pub(crate) fn argument(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Waits => "waits",
            Self::Computes => "computes",
        }
    }

    /// How tables call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "no work",
            Self::Waits => "2 ms of waiting",
            Self::Computes => "1 ms of processor time",
        }
    }
}
