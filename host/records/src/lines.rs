//! Whole lines, several in one call of the system, and which of them are lost where a disk is full.

use std::io::{self, Write};

/// Where lines go, one after another.
pub(crate) trait LineWriter {
    /// Writes lines with their breaks.
    fn write_lines(&mut self, lines: &[Vec<u8>]) -> Result<(), Lost>;
}

/// Lines that could not be written.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) lines: u64,
    pub(crate) bytes: usize,
    /// Why the first of them could not be written.
    pub(crate) error: io::Error,
}

impl Lost {
    /// These and those that were lost before.
    pub(crate) fn after(self, before: Result<(), Self>) -> Self {
        match before {
            Ok(()) => self,
            Err(before) => Self {
                lines: before.lines + self.lines,
                bytes: before.bytes + self.bytes,
                error: before.error,
            },
        }
    }
}

/// A writer of whole lines, as many in one call of the system as there are: one that was cut off is ended before the next.
pub(crate) struct WholeLines<W> {
    /// It keeps nothing back.
    writer: W,
    is_torn: bool,
    /// The lines of one call. Its memory is used again.
    together: Vec<u8>,
}

impl<W: Write> WholeLines<W> {
    pub(crate) fn to(writer: W, is_torn: bool) -> Self {
        Self {
            writer,
            is_torn,
            together: Vec::new(),
        }
    }

    /// Writes as much as possible: the number of bytes before an error.
    fn write(&mut self, lines: &[u8]) -> Result<(), (usize, io::Error)> {
        if self.is_torn {
            self.writer.write_all(b"\n").map_err(|error| (0, error))?;
            self.is_torn = false;
        }
        let mut written = 0;
        while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
            let error = match self.writer.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(more) => {
                    written += more;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error,
            };
            let last = written.checked_sub(1).and_then(|last| lines.get(last));
            self.is_torn = last.is_some_and(|last| *last != b'\n');
            return Err((written, error));
        }
        Ok(())
    }
}

impl<W: Write> LineWriter for WholeLines<W> {
    fn write_lines(&mut self, lines: &[Vec<u8>]) -> Result<(), Lost> {
        let mut together = std::mem::take(&mut self.together);
        together.clear();
        lines.iter().for_each(|line| together.extend(line));
        let (mut rest, mut all) = (together.as_slice(), Ok(()));
        while !rest.is_empty()
            && let Err((written, error)) = self.write(rest)
        {
            // The line that could not be written to its end is lost; those behind it are tried.
            let (_, left) = rest.split_at(written);
            let end = left.iter().position(|byte| *byte == b'\n');
            let (lost, left) = left.split_at(end.map_or(left.len(), |at| at + 1));
            let lost = Lost {
                lines: 1,
                bytes: lost.len(),
                error,
            };
            all = Err(lost.after(all));
            rest = left;
        }
        self.together = together;
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk that takes three bytes and is full from then on.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(3 - self.0);
            self.0 += taken;
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_disk_that_stays_full_costs_each_line_and_no_more() {
        let mut lines = WholeLines::to(Full(0), false);
        for lost in [2, 3] {
            let batch = vec![b"{\"a\":1}\n".to_vec(); lost];
            let error = lines.write_lines(&batch).unwrap_err();
            assert_eq!(error.lines, u64::try_from(lost).unwrap());
            assert_eq!(error.error.kind(), io::ErrorKind::StorageFull);
        }
    }
}
