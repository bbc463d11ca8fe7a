//! `backstop policy push`: a policy to a registry or a bucket, signed on the way.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::output::println;
use anyhow::Context;
use clap::Parser;
use serde_json::json;

use super::place::{Reached, Remote};
use super::{Named, sign, source_of};
use crate::exit::UsageError;
use backstop::config::parse_pair;
use backstop::policy::{
    LONGEST_SIGNATURE, Location, Package, PolicyDigest, Remotes, SIGNATURE_SUFFIX, signed_with,
};
use backstop_files::regular_file;

const EXAMPLES: &str = "\
Examples:
  backstop policy push card-payments oci://localhost:5000/policies/card-payments:1.0.0
  backstop policy push orders.wasm oci://registry.example.com/acme/orders:1.4.0 --sign team.key
  backstop policy push orders.wasm s3://acme-policies/orders.wasm --sign team.key

Credentials for registries are those of `docker login`, those for S3 the AWS SDK's.
The same file makes the same manifest: its time of creation is SOURCE_DATE_EPOCH, or 1970.";

/// Push a policy to an OCI registry or an S3 bucket
///
/// The policy is first loaded as a host loads it, and not pushed if a host would refuse it. In a registry it is an artifact of the WebAssembly OCI layout, which other tools read as well; its signature, if it has one, goes first. What is printed last goes into backstop.toml.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    policy: Named,

    /// oci://REGISTRY/REPOSITORY:TAG or s3://BUCKET/KEY
    #[arg(value_name = "PLACE")]
    place: Remote,

    /// Sign it with this secret key; an encrypted key's password is BACKSTOP_KEY_PASSWORD, or asked for
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    sign: Option<PathBuf>,

    /// Push this signature with it, which was made before
    #[arg(long, value_name = "FILE.minisig")]
    signature: Option<PathBuf>,

    /// Say something of it in the registry, such as org.opencontainers.image.source=https://...; may be repeated. Its name, version, description, authors, licences, source and homepage are said where the file has them
    #[arg(long = "annotation", value_name = "NAME=VALUE", value_parser = parse_pair)]
    annotations: Vec<(String, String)>,

    #[command(flatten)]
    reached: Reached,

    /// Print what was pushed as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    if args.place.0.is_pinned() {
        return Err(UsageError(format!(
            "{} is pinned to a digest, which is told after a push: leave out what follows the @",
            args.place
        ))
        .into());
    }
    let file = source_of(&args.policy.policy)?.read()?;
    let digest = PolicyDigest::of(&file);
    if args.policy.load()?.digests() != [digest] {
        anyhow::bail!("{} changed while it was looked at", args.policy.policy);
    }
    let signature = signature(args, &file)?;
    let signed_by = signature.as_deref().map(signed_with).transpose()?;
    let bytes = file.len();
    let remotes = args.reached.remotes();
    let pin = remotes.wait(push(args, &remotes, file, signature.as_deref()))??;
    let pinned = args.place.0.pinned(&pin);
    if args.json {
        let pushed = json!({
            "place": args.place.to_string(),
            "pinned": pinned,
            "pin": pin,
            "digest": digest,
            "bytes": bytes,
            "signed-by": signed_by,
        });
        println!("{pushed}");
        return Ok(());
    }
    println!("pushed     {}", args.place);
    if matches!(args.place.0.location, Location::Registry(_)) {
        println!("manifest   {pin}");
    }
    println!("file       {digest}, {:.1} KiB", bytes as f64 / 1_024.0);
    match signed_by {
        Some(id) => println!("signed     with the key {id}"),
        None => println!("signed     no: a host with `require-signature` refuses it"),
    }
    println!();
    println!("policy = \"{pinned}\"");
    Ok(())
}

/// Made now, or read, or none.
fn signature(args: &Args, file: &[u8]) -> anyhow::Result<Option<String>> {
    if let Some(key) = &args.sign {
        return Ok(Some(sign::signed(key, file, &args.place.file_name())?));
    }
    let read = |path: &PathBuf| {
        regular_file::read_text(path, LONGEST_SIGNATURE)
            .with_context(|| format!("can't read the signature {}", path.display()))
    };
    args.signature.as_ref().map(read).transpose()
}

/// Pushes, the signature first; what the place can be pinned to.
async fn push(
    args: &Args,
    remotes: &Remotes,
    file: Vec<u8>,
    signature: Option<&str>,
) -> anyhow::Result<String> {
    match &args.place.0.location {
        Location::Registry(reference) => {
            let annotations: BTreeMap<_, _> = args.annotations.iter().cloned().collect();
            let package = Package::policy(file, annotations, created()?)
                .with_context(|| format!("can't push {}", args.policy.policy))?;
            let pushing = remotes.registry().push(reference, &package, signature);
            Ok(pushing.await?)
        }
        Location::S3 { bucket, key } => {
            let pin = PolicyDigest::of(&file).to_string();
            let s3 = remotes.bucket().await;
            if let Some(signature) = signature {
                let key = format!("{key}{SIGNATURE_SUFFIX}");
                s3.put(bucket, &key, signature.into()).await?;
            }
            s3.put(bucket, key, file).await?;
            Ok(pin)
        }
        Location::Builtin(_) | Location::Path(_) => {
            anyhow::bail!("{} is on this machine", args.place)
        }
    }
}

/// The time that the artifact says it was made at: never the clock's, so that pushing again changes nothing.
fn created() -> anyhow::Result<jiff::Timestamp> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(jiff::Timestamp::UNIX_EPOCH);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let created = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    created.ok_or_else(|| {
        let text = Path::new(&text).display();
        UsageError(format!(
            "SOURCE_DATE_EPOCH is `{text}`; expected seconds since 1970"
        ))
        .into()
    })
}
