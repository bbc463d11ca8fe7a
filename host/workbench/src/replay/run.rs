//! All records put before the policies, some at a time, by several threads.

use super::tally::Tally;
use super::{Candidate, Lines, ReadError, Report};
use crate::threads;

/// What is replayed.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// The policy in question.
    pub new: &'a Candidate,
    /// What it is compared with; the recorded decisions where there is none.
    pub old: Option<&'a Candidate>,
    /// The queue whose records are replayed; all where there is none.
    pub queue: Option<&'a str>,
    /// How many records are shown of each kind of difference.
    pub samples: usize,
}

impl Replay<'_> {
    /// Replays every record of `lines`, by so many threads; `read` is told how many bytes have been read by now. The same lines give the same report, whatever the threads and the machine.
    pub fn run(
        &self,
        lines: &mut Lines,
        threads: usize,
        mut read: impl FnMut(u64),
    ) -> Result<Report, ReadError> {
        let mut tally = Tally::new(self.samples);
        loop {
            let batch = lines.next_batch()?;
            if batch.is_empty() {
                return Ok(tally.report());
            }
            let replay = |number| batch.get(number).map(|line| self.replay(line));
            let outcomes = threads::spread(batch.len(), threads, replay, || {});
            for outcome in outcomes.into_iter().flatten() {
                tally.count(outcome);
            }
            read(lines.bytes_read());
        }
    }
}
