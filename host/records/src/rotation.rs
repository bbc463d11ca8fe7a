//! Files of records that are put aside: when, under which names, and how many are kept.

use std::fs;
#[cfg(feature = "gzip")]
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_core::clock;
#[cfg(feature = "gzip")]
use flate2::{Compression, write::GzEncoder};

/// How old the rest of a compression is that nobody works on any more.
#[cfg(feature = "gzip")]
const ABANDONED: Duration = Duration::from_secs(3_600);

/// When a file of records is put aside, and how much is kept. By default it grows for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotation {
    /// A file that would have more bytes is put aside.
    pub size: Option<u64>,
    /// A file that is older is put aside.
    pub after: Option<Duration>,
    /// The most bytes of the files that were put aside, as they are on the disk: the oldest are deleted.
    pub keep: Option<u64>,
}

impl Rotation {
    /// Whether files are put aside at all.
    pub fn is_set(&self) -> bool {
        self.size.is_some() || self.after.is_some()
    }
}

/// The files with the records of a host, the oldest first: those that were put aside, and the one that it writes.
pub fn files_of(path: &Path) -> Vec<PathBuf> {
    let mut files = aside(path);
    // One that is compressed at the moment is there twice.
    let compressed: Vec<_> = files
        .iter()
        .filter(|it| is_compressed(it))
        .cloned()
        .collect();
    files.retain(|it| is_compressed(it) || !compressed.contains(&with_gz(it)));
    files.push(path.to_owned());
    files
}

/// The files that were put aside, the oldest first.
fn aside(path: &Path) -> Vec<PathBuf> {
    let (Some(folder), Some((stem, extension))) = (folder_of(path), parts(path)) else {
        return Vec::new();
    };
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<_> = names
        .filter(|name| is_aside(name, stem, &extension))
        .collect();
    names.sort();
    names.into_iter().map(|name| folder.join(name)).collect()
}

/// Whether a file was put aside for one with this stem and extension: `decisions-20261126T071500.123Z-4711.jsonl`, or with `.gz`.
fn is_aside(name: &str, stem: &str, extension: &str) -> bool {
    let marks = || {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let marks = name
            .strip_suffix(extension)?
            .strip_prefix(stem)?
            .strip_prefix('-')?;
        marks.split_once('-')
    };
    let is_time = |time: &str| {
        let shape = time
            .bytes()
            .map(|it| if it.is_ascii_digit() { b'0' } else { it });
        shape.eq(*b"00000000T000000.000Z")
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    marks().is_some_and(|(time, process)| is_time(time) && is_number(process))
}

/// The stem of a file's name, and the rest with its dot.
fn parts(path: &Path) -> Option<(&str, String)> {
    let stem = path.file_stem()?.to_str()?;
    let extension = path.extension().map_or(Some(""), |it| it.to_str())?;
    let dot = if extension.is_empty() { "" } else { "." };
    Some((stem, format!("{dot}{extension}")))
}

fn folder_of(path: &Path) -> Option<&Path> {
    match path.parent()? {
        folder if folder.as_os_str().is_empty() => Some(Path::new(".")),
        folder => Some(folder),
    }
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "gz")
}

fn with_gz(path: &Path) -> PathBuf {
    with(path, ".gz")
}

fn with(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Puts a file aside under a name that no other has. Returns it.
pub(crate) fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let (Some(folder), Some((stem, extension))) = (folder_of(path), parts(path)) else {
        return Err(io::Error::other("its name is no text"));
    };
    let now = clock::now();
    let time = now.rfc3339().replace(['-', ':', 'Z'], "");
    let name = format!(
        "{stem}-{time}.{:03}Z-{}{extension}",
        now.0 % 1_000,
        std::process::id()
    );
    let aside = folder.join(name);
    if aside.exists() || with_gz(&aside).exists() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// Compresses what was put aside, also by a process before, and deletes the oldest beyond what is kept.
pub(crate) fn tidy(path: &Path, rotation: Rotation) -> io::Result<()> {
    let compressed = aside(path)
        .iter()
        .filter(|it| !is_compressed(it))
        .try_for_each(|file| compress(file));
    if let Some(keep) = rotation.keep {
        let mut files = aside(path);
        let size = |file: &PathBuf| fs::metadata(file).map_or(0, |it| it.len());
        let mut total: u64 = files.iter().map(size).sum();
        files.reverse();
        while total > keep
            && let Some(oldest) = files.pop()
        {
            total -= size(&oldest).min(total);
            fs::remove_file(&oldest)?;
        }
    }
    compressed
}

/// Nothing is compressed without the feature.
#[cfg(not(feature = "gzip"))]
fn compress(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Compresses a file, unless another process does. It is there until the compressed one is complete.
#[cfg(feature = "gzip")]
fn compress(file: &Path) -> io::Result<()> {
    let part = with(file, ".gz.part");
    let is_abandoned = fs::metadata(&part)
        .and_then(|it| it.modified())
        .is_ok_and(|at| {
            clock::system()
                .duration_since(at)
                .is_ok_and(|it| it > ABANDONED)
        });
    if is_abandoned {
        fs::remove_file(&part)?;
    }
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let target = match options.open(&part) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        target => target?,
    };
    let written = || {
        let mut encoder = GzEncoder::new(target, Compression::default());
        io::copy(&mut File::open(file)?, &mut encoder)?;
        encoder.finish()?.sync_all()?;
        fs::rename(&part, with_gz(file))
    };
    if let Err(error) = written() {
        let _ = fs::remove_file(&part);
        // Another process was quicker.
        return if file.exists() { Err(error) } else { Ok(()) };
    }
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(all(test, feature = "gzip"))]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn names(files: &[PathBuf]) -> Vec<&str> {
        let names = files.iter().filter_map(|it| it.file_name()?.to_str());
        names.collect()
    }

    #[test]
    fn files_that_were_put_aside_are_known_by_their_names_alone() {
        for (name, expected) in [
            ("decisions-20261126T071500.123Z-4711.jsonl", true),
            ("decisions-20261126T071500.123Z-4711.jsonl.gz", true),
            ("decisions-20261126T071500.123Z-4711.jsonl.gz.part", false),
            ("decisions-20261126T071500.123Z-.jsonl", false),
            ("decisions-20261126T071500Z-1.jsonl", false),
            ("decisions-old.jsonl", false),
            ("decisions-2-20261126T071500.123Z-4711.jsonl", false),
            ("decisions.jsonl", false),
            ("others-20261126T071500.123Z-4711.jsonl", false),
        ] {
            assert_eq!(is_aside(name, "decisions", ".jsonl"), expected, "{name}");
        }
    }

    #[test]
    fn what_was_put_aside_is_compressed_and_the_oldest_is_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        let old = |second: u32, size: usize| {
            let name = format!("decisions-20260101T0000{second:02}.000Z-1.jsonl");
            // Such text does not become smaller by much.
            let numbers = (0..size).scan(7_u32, |state, _| {
                *state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
                char::from_u32(33 + (*state >> 16) % 90)
            });
            let text: String = numbers.collect();
            fs::write(folder.path().join(name), &text).unwrap();
            text
        };
        old(1, 5_000);
        let text = old(2, 5_000);
        fs::write(folder.path().join("decisions-mine.jsonl"), "x").unwrap();
        fs::write(&path, "{}\n").unwrap();
        let put_aside = put_aside(&path).unwrap();
        assert!(!path.exists());
        fs::write(&path, "{}\n").unwrap();
        tidy(&path, Rotation::default()).unwrap();
        let files = files_of(&path);
        assert_eq!(files.len(), 4);
        assert!(names(&files)[2].starts_with(put_aside.file_name().unwrap().to_str().unwrap()));
        let mut read = String::new();
        GzDecoder::new(File::open(&files[1]).unwrap())
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, text);
        let keep = Rotation {
            keep: Some(fs::metadata(&files[1]).unwrap().len() + 100),
            ..Rotation::default()
        };
        tidy(&path, keep).unwrap();
        assert_eq!(files_of(&path), files[1..]);
        assert!(folder.path().join("decisions-mine.jsonl").exists());
        tidy(
            &path,
            Rotation {
                keep: Some(0),
                ..keep
            },
        )
        .unwrap();
        assert_eq!(files_of(&path), [path]);
    }

    #[test]
    fn a_compression_that_another_process_makes_is_left_to_it_and_one_that_was_cut_off_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("decisions.jsonl");
        fs::write(&path, "{}\n").unwrap();
        let file = put_aside(&path).unwrap();
        let part = with(&file, ".gz.part");
        fs::write(&part, "half").unwrap();
        tidy(&path, Rotation::default()).unwrap();
        assert!(file.exists() && part.exists());
        let long_ago = clock::system() - 2 * ABANDONED;
        File::options()
            .write(true)
            .open(&part)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        tidy(&path, Rotation::default()).unwrap();
        assert!(!file.exists() && !part.exists() && with_gz(&file).exists());
    }
}
