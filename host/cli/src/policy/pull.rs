//! `backstop policy pull`: downloads a policy from a registry or a bucket and verifies it.

use std::io;
use std::path::{Path, PathBuf};

use backstop_engine::{Limits, PolicyDigest};
use backstop_files::atomic_write;
use backstop_versions::{Fetched, Source, policy_name, signature_path, signed_with};
use clap::Parser;
use serde_json::json;

use super::remote::{RemoteArgs, file_name, parse_remote};
use super::sign::public_keys;
use crate::error::{Context, Result};
use crate::terminal::{Size, println};

const EXAMPLES: &str = "\
Examples:
  backstop policy pull oci://localhost:5000/policies/orders:1.0.0
  backstop policy pull oci://registry.example.com/acme/orders:1.4.0 --require-signature team.pub -o orders.wasm
  backstop policy pull s3://acme-policies/orders.wasm";

/// Download a policy and its signature from an OCI registry or an S3 bucket
///
/// The digests are verified, and the signature if --require-signature is given, before the file is written. The file is written atomically. If the policy is signed, its signature is written to FILE.minisig and replaces an existing one.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// oci://REGISTRY/REPOSITORY:TAG or s3://BUCKET/KEY; with @sha256:DIGEST, any other content is rejected
    #[arg(value_name = "ADDRESS", value_parser = parse_remote)]
    remote: Source,

    /// The file to write [default: the last part of the repository's name with .wasm, or of the key]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Reject the policy unless it is signed with this public key: its line in base64, or its file. May be repeated: any of the keys will do
    #[arg(long, value_name = "KEY|FILE.pub")]
    require_signature: Vec<String>,

    /// Reject the policy unless it is signed for the policy with this name
    #[arg(long, value_name = "NAME", value_parser = policy_name, requires = "require_signature")]
    signed_for: Option<String>,

    #[command(flatten)]
    remotes: RemoteArgs,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let keys = public_keys(&args.require_signature, args.signed_for.clone())?;
    let limit = Limits::default().component;
    let pulled = args.remote.fetch(&args.remotes.connect(), limit)?;
    if let Some(keys) = &keys {
        keys.verify(&pulled.file, pulled.signature.as_deref())
            .with_context(|| format!("{} is rejected", args.remote))?;
    }
    let path = match &args.output {
        Some(path) => path.clone(),
        None => PathBuf::from(file_name(&args.remote)),
    };
    write(&path, &pulled).with_context(|| format!("can't write {}", path.display()))?;
    let digest = PolicyDigest::of(&pulled.file);
    let signed_by = pulled.signature.as_deref().map(signed_with);
    if args.json {
        let result = json!({
            "place": args.remote.to_string(),
            "pinned": args.remote.pinned(&pulled.pin),
            "pin": pulled.pin,
            "digest": digest,
            "bytes": pulled.file.len(),
            "path": path,
            "signed-by": signed_by.and_then(Result::ok),
            "verified": keys.is_some(),
        });
        println!("{result}");
        return Ok(());
    }
    println!("pulled     {}", args.remote.pinned(&pulled.pin));
    let size = Size(pulled.file.len());
    println!("file       {}, {digest}, {size}", path.display());
    match (signed_by, keys) {
        (None, _) => println!("signed     no"),
        (Some(Ok(id)), Some(_)) => println!("signed     with the key {id}, verified"),
        (Some(Ok(id)), None) => {
            println!("signed     with the key {id}, not verified: use `--require-signature`")
        }
        (Some(Err(error)), _) => println!("signed     no: {error}"),
    }
    Ok(())
}

/// Writes the signature first, so that a host that watches the file finds it signed. Removes the signature of an earlier version if this one has none.
fn write(path: &Path, pulled: &Fetched) -> io::Result<()> {
    let signature = signature_path(path);
    match &pulled.signature {
        Some(text) => atomic_write::write(&signature, text.as_bytes(), 0o644)?,
        None if signature.exists() => std::fs::remove_file(&signature)?,
        None => {}
    }
    atomic_write::write(path, &pulled.file, 0o644)
}
