//! Reads files whose paths come from users. Every read has a size limit. Where waiting would be a problem, only regular files are read, because a device or a pipe may block the reader.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// The largest size of a file that people write, in bytes: a configuration, a manifest, scenarios.
pub const WRITTEN: usize = 16 << 20;

/// The largest size of a failure, a decision record or a message body as the input of a command, in bytes.
pub const GIVEN: usize = 128 << 20;

/// The flags that open a file without waiting for another program, and without making a terminal this program's own.
pub const WITHOUT_WAITING: i32 = (OFlags::NONBLOCK.bits() | OFlags::NOCTTY.bits()).cast_signed();

/// Reads a regular file of at most `most` bytes; a larger one is an [`io::ErrorKind::FileTooLarge`]. Never waits for another program.
pub fn read(path: &Path, most: usize) -> io::Result<Vec<u8>> {
    whole(open(path)?, most)
}

/// Reads a regular file into as much memory as it has bytes. One that is too large is not read at all.
fn whole(file: File, most: usize) -> io::Result<Vec<u8>> {
    match usize::try_from(file.metadata()?.len()) {
        Ok(length) if length <= most => read_into(Vec::with_capacity(length), file, most),
        Ok(_) | Err(_) => Err(too_large(most)),
    }
}

/// Like [`read_text`], for a secret: a file that every user of the machine may read is an [`io::ErrorKind::PermissionDenied`]. Its group may read it, as where a container's secrets belong to a group.
pub fn read_secret(path: &Path, most: usize) -> io::Result<String> {
    let file = open(path)?;
    if file.metadata()?.mode() & 0o004 != 0 {
        let reason = "every user of this machine may read it: expected a secret that only its owner and its group may read (chmod o-r)";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    text(whole(file, most)?)
}

/// Opens a regular file for reading. Never waits for another program.
pub fn open(path: &Path) -> io::Result<File> {
    // Without NONBLOCK, opening a pipe blocks until another process opens it for writing.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(WITHOUT_WAITING)
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
    Ok(file)
}

/// Like [`read`], but returns text.
pub fn read_text(path: &Path, most: usize) -> io::Result<String> {
    text(read(path, most)?)
}

/// Opens any file but a folder for reading. Blocks on a pipe such as a shell's `<(…)`.
pub fn open_any(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    no_folder(&file.metadata()?)?;
    Ok(file)
}

/// What kind of file it is, without opening it: the writer of a pipe would see that it closes. A folder is an error.
pub fn described(path: &Path) -> io::Result<Metadata> {
    let metadata = path.metadata()?;
    no_folder(&metadata)?;
    Ok(metadata)
}

fn no_folder(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        let reason = "it is a folder; expected a file";
        return Err(io::Error::new(io::ErrorKind::IsADirectory, reason));
    }
    Ok(())
}

/// Reads text of at most `most` bytes from any file. Blocks on a pipe such as a shell's `<(…)`.
pub fn read_text_of_any(path: &Path, most: usize) -> io::Result<String> {
    text(capped(open_any(path)?, most)?)
}

/// Reads to the end, and fails if there are more than `most` bytes.
pub fn capped(reader: impl Read, most: usize) -> io::Result<Vec<u8>> {
    read_into(Vec::new(), reader, most)
}

fn read_into(mut bytes: Vec<u8>, reader: impl Read, most: usize) -> io::Result<Vec<u8>> {
    let limit = u64::try_from(most).unwrap_or(u64::MAX);
    reader
        .take(limit.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() > most {
        return Err(too_large(most));
    }
    Ok(bytes)
}

fn too_large(most: usize) -> io::Error {
    let reason = format!("it has more than {most} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, reason)
}

/// Says of a file that is missing what would be right: `advice`. Every other error stays as it is.
pub fn advise_if_missing(error: io::Error, advice: impl FnOnce() -> String) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    io::Error::new(error.kind(), format!("there is no such file; {}", advice()))
}

/// Converts UTF-8 bytes to text.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| {
        let reason = "it is not text: expected UTF-8";
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_read_completely_or_not_at_all() {
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
    fn a_file_takes_as_much_memory_as_it_has_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // One more than what doubling fits well.
        let length = (1 << 20) + 1;
        std::fs::write(&path, vec![7; length]).unwrap();
        let read = read(&path, 64 << 20).unwrap();
        assert_eq!(read.len(), length);
        assert!(read.capacity() < length + 4096, "{}", read.capacity());
    }

    #[test]
    fn only_a_missing_file_gets_advice() {
        let advised = |path: &Path| {
            let error = read(path, 4).unwrap_err();
            advise_if_missing(error, || "write one".to_owned())
        };
        let missing = advised(Path::new("/no/such/file"));
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(missing.to_string(), "there is no such file; write one");
        let folder = advised(Path::new("/"));
        assert_eq!(
            folder.to_string(),
            "it is a folder; expected a regular file"
        );
    }

    #[test]
    fn a_secret_that_every_user_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, "four").unwrap();
        for (mode, is_read) in [(0o600, true), (0o440, true), (0o644, false), (0o604, false)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read_secret(&path, 4);
            assert_eq!(read.is_ok(), is_read, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod o-r"), "{error}");
            }
        }
        assert!(read_secret(&path, 3).is_err());
    }

    #[test]
    fn a_file_that_is_not_regular_is_rejected_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for (path, what) in [
            (pipe.as_path(), "a pipe"),
            (folder.path(), "a folder"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = read(path, 4).unwrap_err().to_string();
            assert_eq!(error, format!("it is {what}; expected a regular file"));
        }
        let endless = read_text_of_any(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(endless.kind(), io::ErrorKind::FileTooLarge);
    }
}
