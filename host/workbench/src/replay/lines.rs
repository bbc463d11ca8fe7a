//! Reads the lines of record files in batches, so that no file is in memory as a whole. Each line has its file and number. What gzip has compressed is read as it was before.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, vec};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::error::Category;

use super::known_ids::KnownIds;
use backstop_files::regular_file;
use backstop_records::{DecisionRecord, EventRecord};

/// The longest line that can be a record: each of a policy's three parts may read 16 MiB of the payload, and JSON in JSON doubles its quotes.
const MAX_LINE: u64 = 128 << 20;

/// A batch ends at this many lines or bytes, whichever comes first.
const BATCH_LINES: usize = 4_096;
const BATCH_BYTES: usize = 16 << 20;

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
pub struct Line {
    /// Where it is.
    pub place: LineRef,
    /// `None` if the line is longer than any record.
    pub(super) text: Option<Vec<u8>>,
}

impl Line {
    /// Its text. One that is too long or no text has none.
    pub fn text(&self) -> &str {
        let line = self.text.as_deref().unwrap_or_default();
        std::str::from_utf8(line).unwrap_or_default()
    }

    /// Parses the record, or explains why the line is not one.
    pub(super) fn record(&self) -> Result<Record, String> {
        let text = self.text.as_deref().ok_or("longer than any record")?;
        let text = text.trim_ascii_end();
        serde_json::from_slice(text)
            .map(|decision| Record::Decision(Box::new(decision)))
            .or_else(|error| event(text).ok_or_else(|| why_no_record(&error)))
    }
}

/// A line of records.
#[derive(Debug)]
pub(super) enum Record {
    Decision(Box<DecisionRecord>),
    Event(Box<EventRecord>),
    /// An event of a newer version.
    UnknownEvent,
}

/// The event of a line, if it has one.
fn event(text: &[u8]) -> Option<Record> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(rename = "event")]
        _event: String,
    }
    serde_json::from_slice::<Named>(text).ok()?;
    Some(match serde_json::from_slice(text) {
        Ok(event) => Record::Event(Box::new(event)),
        Err(_) => Record::UnknownEvent,
    })
}

fn why_no_record(error: &serde_json::Error) -> String {
    let column = error.column();
    let why = error.to_string();
    let place = format!(" at line {} column {column}", error.line());
    let why = why.strip_suffix(&place).unwrap_or(&why);
    match error.classify() {
        Category::Eof => format!("cut short after {column} bytes"),
        Category::Data => format!("not a decision record: {why}"),
        Category::Syntax | Category::Io => format!("not JSON: {why}, at byte {column}"),
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
    /// A copy of standard input, which can be read once.
    stdin: Option<PathBuf>,
    /// The bytes that were read from the files.
    read: Arc<AtomicU64>,
}

impl Lines {
    /// The lines of these files. Each file is opened when its turn comes.
    pub fn of(files: Vec<PathBuf>) -> Self {
        Self {
            files: files.into_iter(),
            open: None,
            stdin: None,
            read: Arc::default(),
        }
    }

    /// Reads this copy in place of standard input.
    pub fn with_copy_of_stdin(self, copy: Option<PathBuf>) -> Self {
        Self {
            stdin: copy,
            ..self
        }
    }

    /// Calls `each` with the lines that may name one of the `ids`, which may grow meanwhile, or that contain one of these `texts`; and `read` with the number of bytes read so far.
    pub fn naming(
        &mut self,
        ids: &mut KnownIds,
        texts: &[&str],
        mut read: impl FnMut(u64),
        mut each: impl FnMut(&mut KnownIds, &Line),
    ) -> Result<(), ReadError> {
        loop {
            let batch = self.next_batch()?;
            if batch.is_empty() {
                return Ok(());
            }
            for line in batch {
                let is_named = ids.occur_in(line.text());
                if is_named || texts.iter().any(|text| line.text().contains(text)) {
                    each(ids, &line);
                }
            }
            read(self.bytes_read());
        }
    }

    /// The number of bytes read so far, of a compressed file as they are in it.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The next lines. Empty at the end of the last file.
    pub(super) fn next_batch(&mut self) -> Result<Vec<Line>, ReadError> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_LINES && bytes < BATCH_BYTES {
            match self.next()? {
                Some(line) => {
                    bytes += line.text.as_ref().map_or(0, Vec::len);
                    batch.push(line);
                }
                None => break,
            }
        }
        Ok(batch)
    }

    fn next(&mut self) -> Result<Option<Line>, ReadError> {
        loop {
            if let Some(open) = &mut self.open {
                let line = open.next().map_err(|cause| ReadError {
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
            self.open = Some(OpenFile::at(path, self.stdin.as_deref(), &self.read)?);
        }
    }
}

/// A reader that counts the bytes that it reads.
struct Counted<R> {
    reader: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        let more = u64::try_from(read).unwrap_or_default();
        self.read.fetch_add(more, Ordering::Relaxed);
        Ok(read)
    }
}

/// What compressed files start with, and the program that reads them.
const COMPRESSED: [(&[u8], &str); 3] = [
    (b"\x28\xb5\x2f\xfd", "zstdcat"),
    (b"\xfd7zXZ\x00", "xzcat"),
    (b"BZh", "bzcat"),
];

/// The text of a file, also of one that gzip has compressed. Another compression is an error: its bytes would be lines that are no records.
fn plain(mut file: impl BufRead + 'static) -> io::Result<Box<dyn BufRead>> {
    let start = file.fill_buf()?;
    if start.starts_with(b"\x1f\x8b") {
        return Ok(Box::new(BufReader::new(MultiGzDecoder::new(file))));
    }
    let is = |(magic, _): &&(&[u8], &str)| start.starts_with(magic);
    match COMPRESSED.iter().find(is) {
        Some((_, program)) => {
            let reason = format!("it is compressed: pipe it through `{program}`");
            Err(io::Error::new(io::ErrorKind::InvalidData, reason))
        }
        None => Ok(Box::new(file)),
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
    fn at(path: PathBuf, stdin: Option<&Path>, read: &Arc<AtomicU64>) -> Result<Self, ReadError> {
        let is_stdin = path.as_os_str() == "-";
        let file: Arc<str> = if is_stdin {
            "standard input".into()
        } else {
            path.display().to_string().into()
        };
        let opened: io::Result<Box<dyn Read>> = match (is_stdin, stdin) {
            (true, None) => Ok(Box::new(io::stdin().lock())),
            (true, Some(copy)) => File::open(copy).map(|file| Box::new(file) as _),
            (false, _) => regular_file::open_any(&path).map(|file| Box::new(file) as _),
        };
        let counted = opened.map(|reader| Counted {
            reader,
            read: Arc::clone(read),
        });
        let reader = counted.and_then(|it| plain(BufReader::new(it)));
        let place = LineRef {
            file: Arc::clone(&file),
            line: 0,
        };
        match reader {
            Ok(reader) => Ok(Self { place, reader }),
            Err(cause) => Err(ReadError { file, cause }),
        }
    }

    /// The next line that is not blank.
    fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut text = Vec::new();
            let taken = (&mut self.reader)
                .take(MAX_LINE)
                .read_until(b'\n', &mut text)? as u64;
            if taken == 0 {
                return Ok(None);
            }
            self.place.line += 1;
            let is_complete = taken < MAX_LINE || text.ends_with(b"\n");
            if !is_complete {
                self.reader.skip_until(b'\n')?;
            }
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
    use std::io::Write;

    use flate2::write::GzEncoder;

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
    fn what_gzip_has_compressed_is_read_and_other_compression_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gz");
        // Two members, as of two days in one file.
        let mut bytes = Vec::new();
        for line in ["first\n", "second\n"] {
            let mut writer = GzEncoder::new(&mut bytes, flate2::Compression::fast());
            writer.write_all(line.as_bytes()).unwrap();
            writer.finish().unwrap();
        }
        std::fs::write(&path, &bytes).unwrap();
        let mut lines = Lines::of(vec![path.clone()]);
        let found = lines.next_batch().unwrap();
        let texts: Vec<_> = found.iter().map(|it| it.text.as_deref().unwrap()).collect();
        assert_eq!(texts, [&b"first\n"[..], b"second\n"]);
        assert_eq!(lines.bytes_read(), u64::try_from(bytes.len()).unwrap());

        for (magic, program) in COMPRESSED {
            std::fs::write(&path, [magic, b"rest"].concat()).unwrap();
            let error = Lines::of(vec![path.clone()]).next_batch().unwrap_err();
            let cause = error.cause.to_string();
            assert!(cause.ends_with(&format!("through `{program}`")), "{cause}");
        }
        std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
        let error = Lines::of(vec![path]).next_batch().unwrap_err();
        assert!(error.to_string().ends_with("a.gz"), "{error}");
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
        let event = r#"{"time":1,"queue":"q","message-id":"m","event":"succeeded","attempt":2}"#;
        assert!(matches!(line(Some(event)).record(), Ok(Record::Event(_))));
        let newer = r#"{"time":1,"queue":"q","event":"teleported"}"#;
        assert!(matches!(
            line(Some(newer)).record(),
            Ok(Record::UnknownEvent)
        ));
        let overlong = line(None).record().unwrap_err();
        assert_eq!(overlong, "longer than any record");
    }
}
