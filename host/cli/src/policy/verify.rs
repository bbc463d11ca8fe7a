//! `backstop policy verify`: whether a policy's file is signed by who should have.

use std::path::{Path, PathBuf};

use crate::output::println;
use anyhow::Context;
use clap::Parser;

use super::{keys_of, sign};
use backstop::policy::{LONGEST_SIGNATURE, Source, signature_path, signed_with};
use backstop_files::regular_file;

/// Verify the signature of a policy's file, as a host with `require-signature` does
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// The path of a .wasm or .wat file, or a policy's folder, which is built where it has changed
    #[arg(value_name = "FILE|FOLDER")]
    policy: String,

    /// A public key that is accepted: its line in base64 or its file; may be repeated
    #[arg(long = "key", value_name = "KEY|FILE.pub", required = true)]
    keys: Vec<String>,

    /// The signature [default: FILE.minisig]
    #[arg(long, value_name = "FILE.minisig")]
    signature: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let keys = keys_of(&args.keys)?;
    let path = sign::file_of(&args.policy)?;
    let file = Source::path(path.clone()).read()?;
    let signature = match &args.signature {
        Some(path) => Some(read(path)?),
        None => {
            let beside = signature_path(&path);
            beside.exists().then(|| read(&beside)).transpose()?
        }
    };
    if let Some(keys) = keys {
        keys.verify(&file, signature.as_deref())
            .with_context(|| format!("{} is refused", path.display()))?;
    }
    let id = signature.as_deref().map(signed_with).transpose()?;
    println!(
        "{}: signed with the key {}",
        path.display(),
        id.unwrap_or_default()
    );
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    let read = regular_file::read(path, LONGEST_SIGNATURE);
    let bytes = read.with_context(|| format!("can't read the signature {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
