//! `backstop policy verify`: checks the signature of a policy's file.

use std::path::{Path, PathBuf};

use backstop_files::regular_file;
use backstop_versions::{LONGEST_SIGNATURE, Source, policy_name, signature_path};
use clap::Parser;

use super::sign::{self, public_keys};
use crate::error::{Context, Result};
use crate::terminal::println;

/// Verify the signature of a policy's file, as a host with `require-signature` does
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// The path of a .wasm or .wat file, or a policy's folder (built first if it changed)
    #[arg(value_name = "FILE|FOLDER")]
    policy: String,

    /// An accepted public key: its line in base64, or its file; may be repeated
    #[arg(long = "key", value_name = "KEY|FILE.pub", required = true)]
    keys: Vec<String>,

    /// Reject the file unless it is signed for the policy with this name
    #[arg(long, value_name = "NAME", value_parser = policy_name)]
    signed_for: Option<String>,

    /// The signature [default: FILE.minisig]
    #[arg(long, value_name = "FILE.minisig")]
    signature: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let keys = public_keys(&args.keys, args.signed_for.clone())?;
    let path = sign::file_of(&args.policy)?;
    let file = Source::path(path.clone()).read()?;
    let signature = match &args.signature {
        Some(path) => Some(read(path)?),
        None => {
            let default = signature_path(&path);
            default.exists().then(|| read(&default)).transpose()?
        }
    };
    if let Some(keys) = keys {
        let signed = keys
            .verify(&file, signature.as_deref())
            .with_context(|| format!("{} is rejected", path.display()))?;
        println!("{}: signed with {signed}", path.display());
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    let bytes = regular_file::read(path, LONGEST_SIGNATURE)
        .map_err(sign::unsigned)
        .with_context(|| format!("can't read the signature {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
