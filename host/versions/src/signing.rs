//! Signs a policy's file, and generates keys for it, in minisign's formats: files are interchangeable with those of minisign's own tool.

use std::fmt;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use minisign::{KeyPair, PError, PublicKey, SecretKeyBox};

use super::signature::{LONGEST, key_id};
use backstop_core::failure::Timestamp;
use backstop_files::regular_file;

/// A key that signs, decrypted. `Debug` does not show its secret.
pub struct SecretKey(minisign::SecretKey);

/// A new key pair.
pub struct NewKeys {
    /// The content of the secret key's file.
    pub secret: String,
    /// The content of the public key's file.
    pub public: String,
    /// The public key's line in base64.
    pub line: String,
    /// The identifier of both.
    pub id: String,
}

/// Why a file can't be signed, or a key not be generated.
#[derive(Debug, thiserror::Error)]
pub enum SigningError {
    /// The file can't be read.
    #[error("can't read the secret key {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// Not a file that minisign or `backstop policy keygen` wrote.
    #[error(
        "{} is not a secret key of minisign; `backstop policy keygen NAME` generates one, NAME.key", path.display()
    )]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// The password can't be read.
    #[error("can't read the password of {}", path.display())]
    Password {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// The wrong password, or a damaged file.
    #[error("can't use the secret key {}", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: PError,
    },
    /// minisign failed: the machine has no random numbers, or a key is unusable.
    #[error("can't generate a key or a signature")]
    Failed(#[source] PError),
}

impl SecretKey {
    /// Reads a secret key. `password` is called if the key is encrypted.
    pub fn read(
        path: &Path,
        password: impl FnOnce() -> io::Result<String>,
    ) -> Result<Self, SigningError> {
        let path_of = || path.to_owned();
        let text = regular_file::read_text_of_any(path, LONGEST).map_err(|cause| {
            SigningError::Unreadable {
                path: path_of(),
                cause: regular_file::advise_if_missing(cause, || {
                    "correct the path, or create a pair of keys with `backstop policy keygen NAME`, whose secret one is NAME.key".to_owned()
                }),
            }
        })?;
        let encoded = text.lines().nth(1).unwrap_or_default();
        let bytes = BASE64.decode(encoded.trim()).unwrap_or_default();
        let key = SecretKeyBox::from(text);
        // The algorithm of the encryption follows that of the signature.
        let opened = match (bytes.len(), bytes.get(2..4)) {
            (158, Some([0, 0])) => key.into_unencrypted_secret_key(),
            (158, Some(b"Sc")) => {
                let password = password().map_err(|cause| SigningError::Password {
                    path: path_of(),
                    cause,
                })?;
                key.into_secret_key(Some(password))
            }
            _ => return Err(SigningError::Malformed { path: path_of() }),
        };
        opened.map(Self).map_err(|cause| SigningError::Locked {
            path: path_of(),
            cause,
        })
    }

    /// The signature of a file, as the text of `FILE.minisig`. `name` is the name of the file, `policy` that of the policy that it is for ([`policy_name`](crate::policy_name)), and `at` the time. All are signed too.
    pub fn sign(
        &self,
        file: &[u8],
        name: &str,
        policy: &str,
        at: Timestamp,
    ) -> Result<String, SigningError> {
        let public = PublicKey::from_secret_key(&self.0).map_err(SigningError::Failed)?;
        let name = name.replace(char::is_control, "_");
        let seconds = at.0 / 1_000;
        let comment = format!("timestamp:{seconds}\tfile:{name}\thashed\tpolicy:{policy}");
        let title = format!("signature with the key {}", self.id());
        minisign::sign(
            Some(&public),
            &self.0,
            Cursor::new(file),
            Some(&comment),
            Some(&title),
        )
        .map(String::from)
        .map_err(SigningError::Failed)
    }

    /// The key's identifier.
    pub fn id(&self) -> String {
        key_id(self.0.keynum())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.id())
    }
}

impl NewKeys {
    /// Generates a key pair. The secret key is encrypted if there is a password.
    pub fn generate(password: Option<String>) -> Result<Self, SigningError> {
        let generated = match password {
            Some(password) => KeyPair::generate_encrypted_keypair(Some(password)),
            None => KeyPair::generate_unencrypted_keypair(),
        };
        let KeyPair { pk, sk } = generated.map_err(SigningError::Failed)?;
        let id = key_id(pk.keynum());
        let title = format!("backstop's secret key {id}");
        let secret = sk.to_box(Some(&title)).map_err(SigningError::Failed)?;
        Ok(Self {
            secret: secret.into_string(),
            public: pk.to_box().map_err(SigningError::Failed)?.into_string(),
            line: pk.to_base64(),
            id,
        })
    }
}

impl fmt::Debug for NewKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKeys({})", self.id)
    }
}
