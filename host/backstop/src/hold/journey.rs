//! What a host knows of a failed message besides its failure.

use crate::decision::Reach;

/// How a failed message came to this host, and how it can be held next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Journey {
    /// How long it can be held.
    pub reach: Reach,
    /// How often it was sent again without an attempt since its last one.
    pub hops: u32,
    /// Whether another copy of it made this attempt already.
    pub is_duplicate: bool,
}

impl Journey {
    /// A message that was received once and can be held for this long.
    pub const fn direct(reach: Reach) -> Self {
        Self {
            reach,
            hops: 0,
            is_duplicate: false,
        }
    }
}
