//! The hash of everything that was read of a file: a delivery that goes on compares it with the file.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::{Digest, Sha256};

/// How much is hashed at once.
const PIECE: usize = 1 << 20;

/// The hash of the bytes that were read, from the start of the file.
#[derive(Clone, Default)]
pub(super) struct ReadHash(Sha256);

/// The hashes at two places of a file.
#[derive(Debug)]
pub(super) struct Start {
    /// Where the first line starts that is read again.
    pub(super) first: ReadHash,
    /// Where the first line starts that was never read.
    pub(super) position: ReadHash,
    /// Whether a line ends there.
    pub(super) ends_line: bool,
}

impl ReadHash {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Such as `sha256:2c26…`.
    pub(super) fn digest(&self) -> String {
        let hash = self.0.clone().finalize();
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{digits}")
    }

    /// Hashes the first `position` bytes of a file; `None` if it has fewer. `first` is no larger.
    pub(super) fn of_start(
        mut file: &File,
        first: u64,
        position: u64,
    ) -> io::Result<Option<Start>> {
        file.rewind()?;
        let mut piece = vec![0; PIECE];
        let (mut hash, mut last) = (Self::default(), b'\n');
        let mut at_first = None;
        let mut at = 0;
        while at < position {
            let next = if at < first { first } else { position };
            let most = usize::try_from(next - at).unwrap_or(PIECE).min(PIECE);
            let Some(room) = piece.get_mut(..most) else {
                break;
            };
            if at == first {
                at_first = Some(hash.clone());
            }
            let read = file.read(room)?;
            let Some(bytes) = piece.get(..read).filter(|it| !it.is_empty()) else {
                return Ok(None);
            };
            hash.add(bytes);
            last = bytes.last().copied().unwrap_or(last);
            at += u64::try_from(read).unwrap_or_default();
        }
        Ok(Some(Start {
            first: at_first.unwrap_or_else(|| hash.clone()),
            position: hash,
            ends_line: last == b'\n',
        }))
    }
}

impl fmt::Debug for ReadHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(bytes: &[u8]) -> String {
        let mut hash = ReadHash::default();
        hash.add(bytes);
        hash.digest()
    }

    #[test]
    fn the_start_of_a_file_has_the_hash_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let bytes = b"line\n".repeat(500_000);
        std::fs::write(&path, &bytes).unwrap();
        let file = File::open(&path).unwrap();
        let length = bytes.len();
        for (first, position) in [
            (0, 0),
            (0, 5),
            (5, 5),
            (5, 7),
            (PIECE - 1, PIECE + 4),
            (7, length),
        ] {
            let start = ReadHash::of_start(&file, first as u64, position as u64);
            let start = start.unwrap().unwrap();
            assert_eq!(start.first.digest(), hash(&bytes[..first]), "{first}");
            assert_eq!(start.position.digest(), hash(&bytes[..position]));
            assert_eq!(start.ends_line, position % 5 == 0);
        }
        let more = ReadHash::of_start(&file, 0, length as u64 + 1);
        assert!(more.unwrap().is_none());
    }
}
