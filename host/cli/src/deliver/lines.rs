//! The lines of the input, read by a thread of its own, a bounded number ahead.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use tokio::sync::mpsc;

use super::checkpoint::Checkpoint;
use crate::error::{Context, Result};

/// How many lines are read ahead.
const AHEAD: usize = 1_000;

/// The longest line: a message or an item of the largest size, with every character escaped.
const LONGEST: u64 = 16 << 20;

/// One line of the input.
#[derive(Debug)]
pub(super) struct Line {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Where it starts and where the next one starts, in bytes.
    pub(super) span: (u64, u64),
    /// Its text without the line ending.
    pub(super) text: String,
}

/// The input.
#[derive(Debug)]
pub(super) struct Input {
    reader: BufReader<Reader>,
    /// The length of a regular file.
    pub(super) length: Option<u64>,
    /// Where an interrupted delivery goes on.
    resumed: Option<Checkpoint>,
}

#[derive(Debug)]
enum Reader {
    Stdin(io::Stdin),
    File(File),
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Stdin(stdin) => stdin.read(buffer),
            Self::File(file) => file.read(buffer),
        }
    }
}

impl Input {
    /// Opens a file, or standard input as `-`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (reader, length) = if path == Path::new("-") {
            (Reader::Stdin(io::stdin()), None)
        } else {
            let file = File::open(path)
                .with_context(|| format!("can't read the entries in {}", path.display()))?;
            let metadata = file.metadata().context(path.display())?;
            let length = metadata.is_file().then_some(metadata.len());
            (Reader::File(file), length)
        };
        Ok(Self {
            reader: BufReader::with_capacity(1 << 20, reader),
            length,
            resumed: None,
        })
    }

    /// Goes on in a regular file.
    pub(super) fn resume(&mut self, checkpoint: Checkpoint) -> Result<()> {
        if let Reader::File(file) = self.reader.get_mut() {
            file.seek(SeekFrom::Start(checkpoint.first()))?;
        }
        self.resumed = Some(checkpoint);
        Ok(())
    }

    /// Starts to read.
    pub(super) fn read(self) -> mpsc::Receiver<io::Result<Line>> {
        let (sender, lines) = mpsc::channel(AHEAD);
        // Not a task that the end of the command would wait for.
        std::thread::spawn(move || {
            let (mut reader, resumed) = (self.reader, self.resumed);
            let (mut start, first) = match &resumed {
                Some(checkpoint) => (checkpoint.first(), checkpoint.line),
                None => (0, 1),
            };
            for number in first.. {
                let line = match next(&mut reader, start, number) {
                    Ok(None) => return,
                    Ok(Some(line)) => {
                        let is_settled = |it: &Checkpoint| it.is_settled(start);
                        let skipped = resumed.as_ref().is_some_and(is_settled);
                        start = line.span.1;
                        if skipped {
                            continue;
                        }
                        Ok(line)
                    }
                    Err(error) => Err(error),
                };
                let is_last = line.is_err();
                if sender.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        });
        lines
    }
}

fn next(reader: &mut impl BufRead, start: u64, number: u64) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    let read = reader.take(LONGEST + 1).read_until(b'\n', &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    let read = u64::try_from(read).unwrap_or(u64::MAX);
    let invalid =
        |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {what}"));
    if read > LONGEST {
        return Err(invalid("longer than 16 MiB"));
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
        bytes.pop_if(|end| *end == b'\r');
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid("not UTF-8"))?;
    Ok(Some(Line {
        number,
        span: (start, start + read),
        text,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_place_in_the_file() {
        let mut input = &b"one\r\n\ntwo"[..];
        let mut lines = Vec::new();
        let mut start = 0;
        while let Some(line) = next(&mut input, start, 1).unwrap() {
            start = line.span.1;
            lines.push((line.text, line.span));
        }
        let expected = [("one", (0, 5)), ("", (5, 6)), ("two", (6, 9))];
        assert_eq!(lines, expected.map(|(text, span)| (text.to_owned(), span)));
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_is_an_error_with_its_number() {
        let long = vec![b'x'; 17 << 20];
        let error = next(&mut &long[..], 0, 7).unwrap_err();
        assert_eq!(error.to_string(), "line 7: longer than 16 MiB");
        let error = next(&mut &b"\xff\n"[..], 0, 7).unwrap_err();
        assert_eq!(error.to_string(), "line 7: not UTF-8");
    }
}
