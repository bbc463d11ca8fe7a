//! `backstop policy sign`: a signature beside a policy's file.

use std::path::{Path, PathBuf};

use crate::output::println;
use anyhow::Context;
use clap::Parser;

use super::{password, source_of};
use crate::exit::UsageError;
use backstop::policy::{Location, SecretKey, SigningError, Source, signature_path, signed_with};
use backstop_core::clock;
use backstop_files::atomic_write;

const EXAMPLES: &str = "\
Examples:
  backstop policy keygen team
  backstop policy sign orders.wasm --key team.key
  backstop policy verify orders.wasm --key team.pub

The signature is minisign's: `minisign -S -s team.key -m orders.wasm` makes the same.";

/// Sign a policy's file: FILE.minisig beside it says that it is from you
///
/// What is signed is the file, byte for byte: the signature stays good wherever the file goes, and ends with the smallest change. `backstop policy push --sign` signs on the way.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The path of a .wasm or .wat file, or a policy's folder, which is built where it has changed
    #[arg(value_name = "FILE|FOLDER")]
    policy: String,

    /// The secret key; an encrypted one's password is BACKSTOP_KEY_PASSWORD, or asked for
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let path = file_of(&args.policy)?;
    let file = Source::path(path.clone()).read()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let signature = signed(&args.key, &file, &name)?;
    let beside = signature_path(&path);
    atomic_write::write(&beside, signature.as_bytes(), 0o644)
        .with_context(|| format!("can't write {}", beside.display()))?;
    let id = signed_with(&signature)?;
    println!("{}: signed with the key {id}", beside.display());
    Ok(())
}

/// The signature of a file with the key in another.
pub(super) fn signed(key: &Path, file: &[u8], name: &str) -> Result<String, SigningError> {
    let shown = key.display().to_string();
    let key = SecretKey::read(key, || password::known(&shown))?;
    key.sign(file, name, clock::now())
}

/// The path of a policy's file. A built-in policy has none.
pub(super) fn file_of(policy: &str) -> anyhow::Result<PathBuf> {
    let source = source_of(policy)?;
    match source.location {
        Location::Path(path) => Ok(path),
        Location::Builtin(name) => Err(UsageError(format!(
            "`{name}` is built in and has no file to sign; expected a file or a policy's folder"
        ))
        .into()),
        Location::S3 { .. } | Location::Registry(_) => Err(UsageError(format!(
            "`{source}` is no file here: `backstop policy push --sign` signs on the way there"
        ))
        .into()),
    }
}
