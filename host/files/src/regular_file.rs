//! Reads files that someone has named: no more of one than it may have, and where it matters regular files only, so that neither a device nor a pipe keeps the reader waiting.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The most that a file written by a person may have: a configuration, a manifest, scenarios.
pub const WRITTEN: usize = 16 << 20;

/// The most of a failure, a decision record or a message's body that a command is given.
pub const GIVEN: usize = 128 << 20;

/// The whole file. One that is not regular is refused, and so is one with more than `most` bytes, as [`io::ErrorKind::FileTooLarge`]. Never waits for another program.
pub fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    // Without this flag, to open a pipe waits until somebody writes to it.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() {
        let what = match () {
            () if kind.is_dir() => "a folder",
            () if kind.is_fifo() => "a pipe",
            () if kind.is_socket() => "a socket",
            () => "a device",
        };
        let reason = format!("it is {what}; expected a regular file");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    capped(file, most)
}

/// The same, as text.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    text(read(path, most)?)
}

/// Text of any file, a pipe such as a shell's `<(…)` too, which may keep the reader waiting. Refuses more than `most` bytes.
pub fn read_text_of_any(path: &Path, most: usize) -> io::Result<String> {
    text(capped(File::open(path)?, most)?)
}

/// All that there is to read, at most `most` bytes.
pub fn capped(reader: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > most {
        let reason = format!("it has more than {most} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// Text of bytes.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        let reason = "it is not text: expected UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read(&path, 4).unwrap(), b"four");
        assert_eq!(read_text(&path, 5).unwrap(), "four");
        let error = read(&path, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "it has more than 3 bytes");
        let missing = read(&folder.path().join("missing"), 4).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path, 4).is_err());
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a pipe"),
            (folder.path(), "a folder"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let refused = read(path, 4).unwrap_err().to_string();
            assert_eq!(refused, format!("it is {what}; expected a regular file"));
        }
        let endless = read_text_of_any(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
