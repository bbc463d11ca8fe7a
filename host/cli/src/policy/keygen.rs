//! `backstop policy keygen`: creates the keys that sign and verify policies.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use backstop_versions::{NewKeys, SigningError};
use clap::Parser;

use crate::error::{Context, Exit, Result};
use crate::terminal::{println, prompt};

const EXAMPLES: &str = "\
Examples:
  backstop policy keygen team
  backstop policy keygen ci --no-password

The files have minisign's format: `minisign -G` creates the same.";

/// Create a key pair for signing policies: NAME.key and NAME.pub
///
/// NAME.key is the secret key, encrypted with a password: BACKSTOP_KEY_PASSWORD, or typed at a prompt. NAME.pub is the public key, for the hosts. Existing files are never replaced.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The path of the files, without their extensions
    name: PathBuf,

    /// Do not encrypt the secret key, on a machine that protects it in another way
    #[arg(long)]
    no_password: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let secret = with_extension(&args.name, "key");
    let public = with_extension(&args.name, "pub");
    for path in [&secret, &public] {
        if path.exists() {
            let path = path.display();
            return Err(Exit::Usage.because(format!(
                "{path} already exists, and keys are never replaced"
            )));
        }
    }
    let password = if args.no_password {
        None
    } else {
        let shown = secret.display().to_string();
        let password = prompt::new_password(&shown).map_err(|cause| SigningError::Password {
            path: secret.clone(),
            cause,
        })?;
        Some(password)
    };
    let keys = NewKeys::generate(password)?;
    let unwritable = |path: &Path| format!("can't write {}", path.display());
    write(&secret, 0o600, &keys.secret).with_context(|| unwritable(&secret))?;
    write(&public, 0o644, &keys.public).with_context(|| unwritable(&public))?;
    println!(
        "created {}: the secret key, signs policies",
        secret.display()
    );
    println!(
        "created {}: the public key {}, for the hosts",
        public.display(),
        keys.id
    );
    println!();
    println!("require-signature = [\"{}\"]", keys.line);
    Ok(())
}

/// The name may have dots of its own, so `Path::with_extension` will not do.
fn with_extension(name: &Path, extension: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    PathBuf::from(path)
}

/// Writes a new file. Fails if the file exists.
fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
