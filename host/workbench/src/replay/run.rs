//! Replays all records, in batches, on several threads.

use super::candidate::Replay;
use super::lines::{Lines, ReadError};
use super::report::Report;
use super::tally::Tally;
use crate::threads;

impl Replay<'_> {
    /// Replays every record of `lines`. `read` is called with the number of bytes read so far. The same lines give the same report, with any number of threads and on any machine.
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
