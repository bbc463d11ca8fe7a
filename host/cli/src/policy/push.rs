//! `backstop policy push`: uploads a policy to a registry or a bucket, and optionally signs it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backstop_core::settings::parse_pair;
use backstop_engine::PolicyDigest;
use backstop_files::regular_file;
use backstop_versions::{
    LONGEST_SIGNATURE, Location, Package, Remotes, SIGNATURE_SUFFIX, Source, policy_name,
    signed_with,
};
use clap::Parser;
use serde_json::json;

use super::named_policy::{self, NamedPolicy};
use super::remote::{RemoteArgs, file_name, parse_remote};
use super::sign;
use crate::error::{Context, Exit, Result};
use crate::terminal::{Size, println};

const EXAMPLES: &str = "\
Examples:
  backstop policy push card-payments oci://localhost:5000/policies/card-payments:1.0.0
  backstop policy push orders.wasm oci://registry.example.com/acme/orders:1.4.0 --sign team.key
  backstop policy push orders.wasm s3://acme-policies/orders.wasm --sign team.key

Registries use the credentials of `docker login`; S3 uses those of the AWS SDK.
Pushing the same file again creates the same manifest: its creation time is SOURCE_DATE_EPOCH, or 1970.";

/// Upload a policy to an OCI registry or an S3 bucket
///
/// The policy is loaded and validated first, as a host does; a policy that a host would reject is not uploaded. In a registry, it becomes an artifact in the WebAssembly OCI layout, which other tools can read. Its signature, if there is one, is uploaded before it. The last line of the output is the setting for backstop.toml.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    policy: NamedPolicy,

    /// oci://REGISTRY/REPOSITORY:TAG or s3://BUCKET/KEY
    #[arg(value_name = "ADDRESS", value_parser = parse_remote)]
    remote: Source,

    /// Sign the policy with this secret key; the password of an encrypted key is BACKSTOP_KEY_PASSWORD, or typed at a prompt
    #[arg(long, value_name = "KEY", conflicts_with = "signature")]
    sign: Option<PathBuf>,

    /// With --sign: the name of the policy that the file is for, which a host with `signed-for` requires [default: the last part of the repository's name, or of the key without .wasm]
    #[arg(long = "for", value_name = "NAME", value_parser = policy_name, requires = "sign")]
    policy_name: Option<String>,

    /// Upload this existing signature with the policy
    #[arg(long, value_name = "FILE.minisig")]
    signature: Option<PathBuf>,

    /// An annotation of the manifest, such as org.opencontainers.image.source=https://...; may be repeated. The name, version, description, authors, licences, source and homepage in the policy's metadata become annotations too
    #[arg(long = "annotation", value_name = "NAME=VALUE", value_parser = parse_pair)]
    annotations: Vec<(String, String)>,

    #[command(flatten)]
    remotes: RemoteArgs,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    if args.remote.is_pinned() {
        return Err(Exit::Usage.because(format!(
            "{} is pinned to a digest, which is known only after a push: leave out the @ and what follows it",
            args.remote
        )));
    }
    let file = named_policy::source(&args.policy.policy)?.read()?;
    let digest = PolicyDigest::of(&file);
    if args.policy.load()?.digests() != [digest] {
        return Err(Exit::Unexpected.because(format!(
            "{} changed while it was being read",
            args.policy.policy
        )));
    }
    let signature = signature(args, &file)?;
    let signed_by = signature.as_deref().map(signed_with).transpose()?;
    let bytes = file.len();
    let remotes = args.remotes.connect();
    let pin = remotes.wait(push(args, &remotes, file, signature.as_deref()))??;
    let pinned = args.remote.pinned(&pin);
    if args.json {
        let result = json!({
            "place": args.remote.to_string(),
            "pinned": pinned,
            "pin": pin,
            "digest": digest,
            "bytes": bytes,
            "signed-by": signed_by,
        });
        println!("{result}");
        return Ok(());
    }
    println!("pushed     {}", args.remote);
    if matches!(args.remote.location, Location::Registry(_)) {
        println!("manifest   {pin}");
    }
    println!("file       {digest}, {}", Size(bytes));
    match signed_by {
        Some(id) => println!("signed     with the key {id}"),
        None => println!("signed     no: a host with `require-signature` rejects it"),
    }
    println!();
    println!("policy = \"{pinned}\"");
    Ok(())
}

/// The signature: made now, read from a file, or none.
fn signature(args: &Args, file: &[u8]) -> Result<Option<String>> {
    if let Some(key) = &args.sign {
        let (name, policy) = (file_name(&args.remote), args.policy_name.as_deref());
        return Ok(Some(sign::sign(key, file, &name, policy)?));
    }
    let read = |path: &PathBuf| {
        regular_file::read_text(path, LONGEST_SIGNATURE)
            .map_err(sign::unsigned)
            .with_context(|| format!("can't read the signature {}", path.display()))
    };
    args.signature.as_ref().map(read).transpose()
}

/// Uploads the signature and then the policy. Returns what a host can pin the policy to.
async fn push(
    args: &Args,
    remotes: &Remotes,
    file: Vec<u8>,
    signature: Option<&str>,
) -> Result<String> {
    match &args.remote.location {
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
            Err(Exit::Usage.because(format!("{} is on this machine", args.remote)))
        }
    }
}

/// The creation time in the manifest. It is never the clock's, so that pushing again changes nothing.
fn created() -> Result<jiff::Timestamp> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(jiff::Timestamp::UNIX_EPOCH);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let created = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    created.ok_or_else(|| {
        let text = Path::new(&text).display();
        Exit::Usage.because(format!(
            "SOURCE_DATE_EPOCH is `{text}`; expected seconds since 1970"
        ))
    })
}
