//! `backstop policy inspect`: what a policy's file contains, what it imports and what it uses.

use std::sync::Arc;

use backstop_core::examples::ordinary_failure;
use backstop_core::text::one_line;
use backstop_engine::{INTERFACES, Limits, Payload, PolicyDigest};
use backstop_workbench::Metadata;
use clap::Parser;
use serde_json::json;

use super::named_policy::{self, NamedPolicy};
use crate::error::Result;
use crate::terminal::{Size, println};

/// Show a policy's metadata, exports and imports, and what it uses of its limits
///
/// Loads the policy as a host does: compiles it, checks its imports, applies its settings and validates it. If a host would reject it, the command fails with the reason.
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(flatten)]
    policy: NamedPolicy,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let file = named_policy::source(&args.policy.policy)?.read()?;
    let policy = args.policy.load()?;
    let metadata = Metadata::of(&file);
    let exports: Vec<_> = policy.components().flat_map(|it| it.exports()).collect();
    let imports: Vec<_> = policy.components().flat_map(|it| it.imports()).collect();
    let evaluation = policy.evaluate(&ordinary_failure(), &Arc::<Payload>::default());
    let (limits, digest) = (Limits::default(), PolicyDigest::of(&file));
    let defaulted = || {
        INTERFACES
            .into_iter()
            .filter(|name| !exports.contains(name))
    };
    let is_granted = |name: &&String| name.starts_with("backstop:");
    if args.json {
        let result = json!({
            "name": args.policy.policy,
            "digest": digest,
            "bytes": file.len(),
            "metadata": {"name": metadata.name, "version": metadata.version, "language": metadata.language},
            "exports": exports,
            "defaulted": defaulted().collect::<Vec<_>>(),
            "imports": {
                "granted": imports.iter().filter(is_granted).collect::<Vec<_>>(),
                "stubbed": imports.iter().filter(|name| !is_granted(name)).collect::<Vec<_>>(),
            },
            "decision": {"fuel": evaluation.fuel, "memory": evaluation.memory, "limits": {"fuel": limits.fuel, "memory": limits.memory}},
        });
        println!("{result}");
        return Ok(());
    }
    let line = |name: &str, value: String| println!("{name:<10} {}", one_line(&value));
    line("policy", args.policy.policy.clone());
    line("digest", digest.to_string());
    let metadata = [metadata.name, metadata.version, metadata.language];
    let metadata: Vec<_> = metadata.into_iter().flatten().collect();
    if !metadata.is_empty() {
        line("metadata", metadata.join(", "));
    }
    line("size", Size(file.len()).to_string());
    for name in &exports {
        line("exports", (*name).to_owned());
    }
    for name in defaulted() {
        line("default", format!("{name}: the host's own"));
    }
    for name in imports.iter().filter(is_granted) {
        line("granted", name.clone());
    }
    for name in imports.iter().filter(|name| !is_granted(name)) {
        line("stubbed", format!("{name}: present, but grants nothing"));
    }
    line(
        "uses",
        format!(
            "{} of {} fuel and {} of {} for one ordinary decision",
            evaluation.fuel,
            limits.fuel,
            Size(evaluation.memory),
            Size(limits.memory)
        ),
    );
    Ok(())
}
