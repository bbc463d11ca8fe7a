//! Files of JSON lines: what is read of them, and the last line, which a killed process may have cut off.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// How much is read at once when the end of the last complete line is searched.
const STEP: u64 = 64 << 10;

/// Calls `each` with the number of every line, from 1, and its first `most` bytes. Returns whether there is such a file.
pub(crate) fn each_line(
    path: &Path,
    most: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if Read::take(&mut reader, most).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        each(number, &line)?;
    }
    Ok(true)
}

/// Ends the last line with a line break if `is_whole` says that only this is missing, as after some editors, and removes it if it is the beginning of a line. A line of more than `most` bytes is never whole.
pub(crate) fn end(
    file: &mut File,
    most: u64,
    is_whole: impl FnOnce(&[u8]) -> bool,
) -> io::Result<()> {
    let length = file.seek(SeekFrom::End(0))?;
    let mut end = length;
    while end > 0 {
        let start = end.saturating_sub(STEP);
        let part = part(file, start, end)?;
        if let Some(at) = part.iter().rposition(|byte| *byte == b'\n') {
            end = start + u64::try_from(at).unwrap_or_default() + 1;
            break;
        }
        end = start;
    }
    if end == length {
        return Ok(());
    }
    if length - end <= most && is_whole(&part(file, end, length)?) {
        file.seek(SeekFrom::End(0))?;
        file.write_all(b"\n")
    } else {
        file.set_len(end)
    }
}

/// The bytes from `start` to `end`.
fn part(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(start))?;
    let mut part = Vec::new();
    file.take(end - start).read_to_end(&mut part)?;
    Ok(part)
}
