//! Reads the lines of record files in batches, so that no file is in memory as a whole. Each line has its file and number.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, vec};

use serde::{Serialize, Serializer};
use serde_json::error::Category;

use backstop::record::DecisionRecord;

/// The longest line that can be a record: each of a policy's three parts may read 16 MiB of the payload, and JSON in JSON doubles its quotes.
const MAX_LINE: u64 = 128 << 20;

/// A batch ends at this many lines or bytes, whichever comes first.
const BATCH_LINES: usize = 4_096;
const BATCH_BYTES: u64 = 16 << 20;

/// A file and a line number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRef {
    /// The file, as named on the command line.
    pub file: Arc<str>,
    /// The number of the line, from 1.
    pub line: u64,
}

impl fmt::Display for LineRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

impl Serialize for LineRef {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A line, with its file and number.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) place: LineRef,
    /// `None` if the line is longer than any record.
    pub(super) text: Option<Vec<u8>>,
}

impl Line {
    /// Whether this text occurs in the line. A line that is too long or no text has none.
    pub(super) fn contains(&self, text: &str) -> bool {
        let line = self.text.as_deref().unwrap_or_default();
        std::str::from_utf8(line).is_ok_and(|line| line.contains(text))
    }

    /// Parses the record, or explains why the line is not one.
    pub(super) fn record(&self) -> Result<DecisionRecord, String> {
        let text = self.text.as_deref().ok_or("longer than any record")?;
        serde_json::from_slice(text.trim_ascii_end()).map_err(|error| {
            let column = error.column();
            let why = error.to_string();
            let place = format!(" at line {} column {column}", error.line());
            let why = why.strip_suffix(&place).unwrap_or(&why);
            match error.classify() {
                Category::Eof => format!("cut short after {column} bytes"),
                Category::Data => format!("not a decision record: {why}"),
                Category::Syntax | Category::Io => format!("not JSON: {why}, at byte {column}"),
            }
        })
    }
}

/// A file with records can't be read.
#[derive(Debug, thiserror::Error)]
#[error("can't read the records in {file}")]
pub struct ReadError {
    /// The file.
    pub file: Arc<str>,
    /// Why.
    #[source]
    pub cause: io::Error,
}

/// The lines of files, one file after the other. Blank lines are skipped. `-` is standard input.
#[derive(Debug)]
pub struct Lines {
    files: vec::IntoIter<PathBuf>,
    open: Option<OpenFile>,
    read: u64,
}

impl Lines {
    /// The lines of these files. Each file is opened when its turn comes.
    pub fn of(files: Vec<PathBuf>) -> Self {
        Self {
            files: files.into_iter(),
            open: None,
            read: 0,
        }
    }

    /// The number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The next lines. Empty at the end of the last file.
    pub(super) fn next_batch(&mut self) -> Result<Vec<Line>, ReadError> {
        let mut batch = Vec::new();
        let until = self.read + BATCH_BYTES;
        while batch.len() < BATCH_LINES && self.read < until {
            match self.next()? {
                Some(line) => batch.push(line),
                None => break,
            }
        }
        Ok(batch)
    }

    fn next(&mut self) -> Result<Option<Line>, ReadError> {
        loop {
            if let Some(open) = &mut self.open {
                let line = open.next(&mut self.read).map_err(|cause| ReadError {
                    file: Arc::clone(&open.place.file),
                    cause,
                })?;
                if line.is_some() {
                    return Ok(line);
                }
            }
            let Some(path) = self.files.next() else {
                return Ok(None);
            };
            self.open = Some(OpenFile::at(path)?);
        }
    }
}

/// An open file, and the line that was read last.
struct OpenFile {
    place: LineRef,
    reader: Box<dyn BufRead>,
}

impl fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.place, f)
    }
}

impl OpenFile {
    fn at(path: PathBuf) -> Result<Self, ReadError> {
        let (name, reader): (_, Box<dyn BufRead>) = if path.as_os_str() == "-" {
            ("standard input".to_owned(), Box::new(io::stdin().lock()))
        } else {
            let name = path.display().to_string();
            match File::open(&path) {
                Ok(file) => (name, Box::new(BufReader::new(file))),
                Err(cause) => {
                    let file = name.into();
                    return Err(ReadError { file, cause });
                }
            }
        };
        let place = LineRef {
            file: name.into(),
            line: 0,
        };
        Ok(Self { place, reader })
    }

    /// The next line that is not blank. Adds the number of bytes read to `read`.
    fn next(&mut self, read: &mut u64) -> io::Result<Option<Line>> {
        loop {
            let mut text = Vec::new();
            let mut taken = (&mut self.reader)
                .take(MAX_LINE)
                .read_until(b'\n', &mut text)? as u64;
            if taken == 0 {
                return Ok(None);
            }
            self.place.line += 1;
            let is_complete = taken < MAX_LINE || text.ends_with(b"\n");
            if !is_complete {
                taken += self.reader.skip_until(b'\n')? as u64;
            }
            *read += taken;
            if is_complete && text.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            return Ok(Some(Line {
                place: self.place.clone(),
                text: is_complete.then_some(text),
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_files_have_their_location_and_blank_ones_are_skipped() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b", "c"].map(|name| folder.path().join(name));
        for (path, text) in paths.iter().zip(["{}\n\n \r\n[1]\r\n", "", "last"]) {
            std::fs::write(path, text).unwrap();
        }
        let mut lines = Lines::of(paths.to_vec());
        let found = lines.next_batch().unwrap();
        let found: Vec<_> = found
            .into_iter()
            .map(|line| (line.place.to_string(), line.text.unwrap()))
            .collect();
        let [a, _, c] = paths.map(|path| path.display().to_string());
        assert_eq!(
            found,
            [
                (format!("{a}:1"), b"{}\n".to_vec()),
                (format!("{a}:4"), b"[1]\r\n".to_vec()),
                (format!("{c}:1"), b"last".to_vec()),
            ]
        );
        assert_eq!(lines.bytes_read(), 16);
        assert!(lines.next_batch().unwrap().is_empty());
    }

    #[test]
    fn a_missing_file_is_named_in_the_error() {
        let mut lines = Lines::of(vec!["no/such/file".into()]);
        let error = lines.next_batch().unwrap_err();
        assert_eq!(error.to_string(), "can't read the records in no/such/file");
    }

    #[test]
    fn a_line_that_is_not_a_record_is_explained() {
        let line = |text: Option<&str>| Line {
            place: LineRef {
                file: "a".into(),
                line: 1,
            },
            text: text.map(|text| text.as_bytes().to_vec()),
        };
        for (text, expected) in [
            ("{\"time\":1,\"queue\":\"or\r\n", "cut short after 21 bytes"),
            (
                r#"{"level":"info"}"#,
                "not a decision record: missing field `",
            ),
            ("ready to serve", "not JSON: expected value, at byte 1"),
            ("[1]", "not a decision record: "),
        ] {
            let why = line(Some(text)).record().unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
        let overlong = line(None).record().unwrap_err();
        assert_eq!(overlong, "longer than any record");
    }
}
