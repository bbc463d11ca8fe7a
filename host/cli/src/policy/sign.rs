//! `backstop policy sign`: writes a signature next to a policy's file.

use std::path::{Path, PathBuf};

use backstop_core::clock;
use backstop_files::{atomic_write, regular_file};
use backstop_versions::{
    KeyError, Keys, Location, SecretKey, SigningError, Source, policy_name, policy_of_file,
    signature_path, signed_with,
};
use clap::Parser;

use super::named_policy;
use crate::error::{Context, Exit, Result};
use crate::terminal::{println, prompt};

const EXAMPLES: &str = "\
Examples:
  backstop policy keygen team
  backstop policy sign orders.wasm --key team.key
  backstop policy verify orders.wasm --key team.pub

The signature has minisign's format: `minisign -S -s team.key -m orders.wasm` creates one, without the name of a policy.";

/// Sign a policy's file: writes the signature to FILE.minisig
///
/// The signature covers the bytes of the file: it stays valid wherever the file is copied, and becomes invalid with any change. `backstop policy push --sign` signs and uploads in one step.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The path of a .wasm or .wat file, or a policy's folder (built first if it changed)
    #[arg(value_name = "FILE|FOLDER")]
    policy: String,

    /// The secret key; the password of an encrypted key is BACKSTOP_KEY_PASSWORD, or typed at a prompt
    #[arg(long, value_name = "KEY")]
    key: PathBuf,

    /// The name of the policy that the file is for: a host with `signed-for` accepts no other [default: the file's name without .wasm]
    #[arg(long = "for", value_name = "NAME", value_parser = policy_name)]
    policy_name: Option<String>,
}

/// Says how a signature that is missing is made.
pub(super) fn unsigned(error: std::io::Error) -> std::io::Error {
    regular_file::advise_if_missing(error, || {
        "correct the path, or sign the policy with `backstop policy sign FILE --key NAME.key`"
            .to_owned()
    })
}

pub(super) fn run(args: &Args) -> Result<()> {
    let path = file_of(&args.policy)?;
    let file = Source::path(path.clone()).read()?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let policy = args.policy_name.as_deref();
    let signature = sign(&args.key, &file, &name, policy)?;
    let output = signature_path(&path);
    atomic_write::write(&output, signature.as_bytes(), 0o644)
        .with_context(|| format!("can't write {}", output.display()))?;
    let id = signed_with(&signature)?;
    let policy = policy.map_or_else(|| policy_of_file(&name), str::to_owned);
    println!(
        "{}: signed with the key {id} for the policy {policy}",
        output.display()
    );
    Ok(())
}

/// Signs a file with this name with the secret key at the path `key`, for the policy or the one that the file is named after.
pub(super) fn sign(
    key: &Path,
    file: &[u8],
    name: &str,
    policy: Option<&str>,
) -> Result<String, SigningError> {
    let shown = key.display().to_string();
    let key = SecretKey::read(key, || prompt::password(&shown))?;
    let policy = policy.map_or_else(|| policy_of_file(name), str::to_owned);
    key.sign(file, name, &policy, clock::now())
}

/// The public keys that flags name, which may have to sign for one policy. `None` if no flag names one.
pub(super) fn public_keys(
    named: &[String],
    signed_for: Option<String>,
) -> Result<Option<Keys>, KeyError> {
    if named.is_empty() {
        return Ok(None);
    }
    let keys = Keys::read(named, Path::new(""))?;
    Ok(Some(keys.signed_for(signed_for)))
}

/// The path of a policy's file. Built-in and remote policies are rejected: they have none.
pub(super) fn file_of(policy: &str) -> Result<PathBuf> {
    let source = named_policy::source(policy)?;
    match source.location {
        Location::Path(path) => Ok(path),
        Location::Builtin(name) => Err(Exit::Usage.because(format!(
            "`{name}` is built in and has no file to sign; expected a file or a policy's folder"
        ))),
        Location::S3 { .. } | Location::Registry(_) => Err(Exit::Usage.because(format!(
            "`{source}` is not a local file; `backstop policy push --sign` signs a file as it uploads it"
        ))),
    }
}
