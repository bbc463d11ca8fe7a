//! `backstop policy pull`: a policy out of a registry or a bucket, checked before it is written.

use std::io;
use std::path::{Path, PathBuf};

use crate::output::println;
use anyhow::Context;
use clap::Parser;
use serde_json::json;

use super::keys_of;
use super::place::{Reached, Remote};
use backstop::policy::{Fetched, Limits, PolicyDigest, signature_path, signed_with};
use backstop_files::atomic_write;

const EXAMPLES: &str = "\
Examples:
  backstop policy pull oci://localhost:5000/policies/orders:1.0.0
  backstop policy pull oci://registry.example.com/acme/orders:1.4.0 --require-signature team.pub -o orders.wasm
  backstop policy pull s3://acme-policies/orders.wasm";

/// Pull a policy from an OCI registry or an S3 bucket, with its signature
///
/// Its digests are checked, and its signature where one is required; only then the file is written, whole or not at all. A signature that it has is put beside it as FILE.minisig, in place of one that is there.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// oci://REGISTRY/REPOSITORY:TAG or s3://BUCKET/KEY; with @sha256:DIGEST only that very one is taken
    #[arg(value_name = "PLACE")]
    place: Remote,

    /// Where to write it [default: the last part of the repository's name with .wasm, or of the key]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Refuse it unless it is signed with this public key: its line in base64 or its file. With several, any of them will do
    #[arg(long, value_name = "KEY|FILE.pub")]
    require_signature: Vec<String>,

    #[command(flatten)]
    reached: Reached,

    /// Print what was pulled as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let keys = keys_of(&args.require_signature)?;
    let most = Limits::default().component;
    let pulled = args.place.0.fetch(&args.reached.remotes(), most)?;
    if let Some(keys) = &keys {
        keys.verify(&pulled.file, pulled.signature.as_deref())
            .with_context(|| format!("{} is refused", args.place))?;
    }
    let path = match &args.output {
        Some(path) => path.clone(),
        None => PathBuf::from(args.place.file_name()),
    };
    write(&path, &pulled).with_context(|| format!("can't write {}", path.display()))?;
    let digest = PolicyDigest::of(&pulled.file);
    let signed_by = pulled.signature.as_deref().map(signed_with);
    if args.json {
        let found = json!({
            "place": args.place.to_string(),
            "pinned": args.place.0.pinned(&pulled.pin),
            "pin": pulled.pin,
            "digest": digest,
            "bytes": pulled.file.len(),
            "path": path,
            "signed-by": signed_by.and_then(Result::ok),
            "verified": keys.is_some(),
        });
        println!("{found}");
        return Ok(());
    }
    println!("pulled     {}", args.place.0.pinned(&pulled.pin));
    let size = pulled.file.len() as f64 / 1_024.0;
    println!("file       {}, {digest}, {size:.1} KiB", path.display());
    match (signed_by, keys) {
        (None, _) => println!("signed     no"),
        (Some(Ok(id)), Some(_)) => println!("signed     with the key {id}, verified"),
        (Some(Ok(id)), None) => println!(
            "signed     with the key {id}, by its own account: `--require-signature` verifies it"
        ),
        (Some(Err(error)), _) => println!("signed     no: {error}"),
    }
    Ok(())
}

/// The signature first, so that a host that watches the file finds it signed. Without one, that of a former version goes.
fn write(path: &Path, pulled: &Fetched) -> io::Result<()> {
    let signature = signature_path(path);
    match &pulled.signature {
        Some(text) => atomic_write::write(&signature, text.as_bytes(), 0o644)?,
        None if signature.exists() => std::fs::remove_file(&signature)?,
        None => {}
    }
    atomic_write::write(path, &pulled.file, 0o644)
}
