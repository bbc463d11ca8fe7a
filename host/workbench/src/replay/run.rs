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
        let (report, _) = self.run_while(lines, threads, |bytes| {
            read(bytes);
            true
        })?;
        Ok(report)
    }

    /// The same as long as `goes_on` says so. Returns whether all records were replayed.
    pub fn run_while(
        &self,
        lines: &mut Lines,
        threads: usize,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<(Report, bool), ReadError> {
        let mut tally = Tally::new(self.samples);
        loop {
            let batch = lines.next_batch()?;
            if batch.is_empty() {
                return Ok((tally.report(), true));
            }
            let replay = |number| batch.get(number).map(|line| self.replay(line));
            let outcomes = threads::spread(batch.len(), threads, replay, || {});
            for outcome in outcomes.into_iter().flatten() {
                tally.count(outcome);
            }
            if !goes_on(lines.bytes_read()) {
                return Ok((tally.report(), false));
            }
        }
    }
}
