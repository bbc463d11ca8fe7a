//! The token of the admin interface: a secret that the operator chooses, from a file or from the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use backstop_files::regular_file;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

pub(super) use backstop_handlers::TOKEN_VARIABLE;

/// The fewest and the most characters of a token. A short one could be guessed.
const CHARACTERS: std::ops::RangeInclusive<usize> = 16..=1_024;

/// The most bytes of a token's file: one line.
const FILE_BYTES: usize = 4 << 10;

/// A token. It is not shown by `Debug`, and has no `Display`.
#[derive(Clone)]
pub struct Token(String);

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read.
    #[error("can't read a token of the admin interface from {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The text is no token.
    #[error(
        "{place}: expected a token of {} to {} characters: letters, digits and punctuation, without spaces, such as the output of `openssl rand -hex 32`",
        CHARACTERS.start(), CHARACTERS.end()
    )]
    Invalid {
        /// The file, or the environment variable.
        place: String,
    },
}

impl Token {
    /// One that nobody knows.
    pub(super) fn random() -> Self {
        Self(hex::encode(rand::random::<[u8; 32]>()))
    }

    /// The token in a file: its only line. The file must be a regular one.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let text = regular_file::read_text(path, FILE_BYTES);
        let text = text.map_err(|cause| TokenError::Unreadable {
            path: path.to_owned(),
            cause: regular_file::advise_if_missing(cause, || {
                let path = path.display();
                format!("write one with `(umask 077; openssl rand -hex 32 > {path})`")
            }),
        })?;
        Self::parse(&text, || path.display().to_string())
    }

    /// The token in the environment variable [`TOKEN_VARIABLE`], if it is set and not empty.
    pub fn from_environment() -> Result<Option<Self>, TokenError> {
        match std::env::var_os(TOKEN_VARIABLE) {
            Some(value) if !value.is_empty() => Self::from_variable(value).map(Some),
            Some(_) | None => Ok(None),
        }
    }

    fn from_variable(value: OsString) -> Result<Self, TokenError> {
        let place = || TOKEN_VARIABLE.to_owned();
        let text = value.into_string().unwrap_or_default();
        Self::parse(&text, place)
    }

    fn parse(text: &str, place: impl FnOnce() -> String) -> Result<Self, TokenError> {
        let token = text.trim();
        let is_valid =
            CHARACTERS.contains(&token.len()) && token.bytes().all(|b| b.is_ascii_graphic());
        if is_valid {
            Ok(Self(token.to_owned()))
        } else {
            Err(TokenError::Invalid { place: place() })
        }
    }

    /// Whether this text is the token. How long that takes says nothing about the token, not even its length.
    pub(super) fn matches(&self, given: &[u8]) -> bool {
        let (own, given) = (Sha256::digest(&self.0), Sha256::digest(given));
        own.as_slice().ct_eq(given.as_slice()).into()
    }

    /// The token as the client sends it.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_token_matches_itself_only_and_is_never_shown() {
        let token = Token::parse(&format!("{TOKEN}\n"), String::new).unwrap();
        assert!(token.matches(TOKEN.as_bytes()));
        let long = TOKEN.repeat(100_000);
        for other in [
            "",
            "0",
            &TOKEN[..31],
            &long,
            "0123456789abcdef0123456789abcdeg",
        ] {
            assert!(!token.matches(other.as_bytes()));
        }
        assert_eq!(format!("{token:?}"), "Token(…)");
    }

    #[test]
    fn a_text_that_is_no_token_is_rejected_without_being_shown() {
        let long = "x".repeat(1_025);
        for text in [
            "",
            "\n",
            "short",
            "0123456789 abcdef0123",
            "pässwörter-und-mehr",
            &long,
        ] {
            let error = Token::parse(text, || "token.txt".to_owned()).unwrap_err();
            let shown = error.to_string();
            assert!(
                shown.starts_with("token.txt: expected a token of 16 to 1024 characters"),
                "{shown}"
            );
            assert!(
                text.trim().is_empty() || !shown.contains(text.trim()),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_file_that_is_a_folder_a_pipe_a_device_or_too_long_is_rejected_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::RWXU;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let long = folder.path().join("long");
        std::fs::write(&long, "x".repeat(5_000)).unwrap();
        let missing = folder.path().join("missing");
        for (path, reason) in [
            (folder.path(), "it is a folder"),
            (&pipe, "it is a pipe"),
            (Path::new("/dev/zero"), "it is a device"),
            (&long, "it has more than 4096 bytes"),
            (&missing, "there is no such file; write one with"),
        ] {
            let error = Token::read(path).unwrap_err();
            let shown = backstop_core::text::chain(&error);
            assert!(shown.contains(reason), "{shown}");
        }
        let link = folder.path().join("link");
        let file = folder.path().join("file");
        std::fs::write(&file, TOKEN).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(Token::read(&link).unwrap().matches(TOKEN.as_bytes()));
    }
}
