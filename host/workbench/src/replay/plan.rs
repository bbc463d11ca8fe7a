//! What to replay.

use super::candidate::Candidate;

/// What to replay. `run` replays all records, `replay` a single one.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The new policy.
    pub new: &'a Candidate,
    /// The policy to compare with. Without it, the recorded decisions are compared.
    pub old: Option<&'a Candidate>,
    /// Replays only the records of this queue.
    pub queue: Option<&'a str>,
    /// The number of samples for each kind of difference.
    pub samples: usize,
}
