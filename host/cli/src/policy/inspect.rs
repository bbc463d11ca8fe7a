//! `backstop policy inspect`: what a policy's file is, what it answers, what it asks for, what it uses.

use std::sync::Arc;

use crate::output::println;
use clap::Parser;
use serde_json::json;

use super::{Named, source_of};
use backstop::policy::{INTERFACES, Limits, Payload, PolicyDigest};
use backstop_core::examples::ordinary_failure;
use backstop_core::text::one_line;
use backstop_workbench::Metadata;

/// Look into a policy: what it answers, what it imports, what it uses of its limits
///
/// The policy is loaded as a host loads it: compiled, its imports checked, its settings taken, probed. What is refused is told with the reason.
#[derive(Debug, Parser)]
pub(super) struct Args {
    #[command(flatten)]
    policy: Named,

    /// Print it as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let file = source_of(&args.policy.policy)?.read()?;
    let policy = args.policy.load()?;
    let metadata = Metadata::of(&file);
    let exports: Vec<_> = policy.components().flat_map(|it| it.exports()).collect();
    let imports: Vec<_> = policy.components().flat_map(|it| it.imports()).collect();
    let asked = policy.evaluate(&ordinary_failure(), &Arc::<Payload>::default());
    let (limits, digest) = (Limits::default(), PolicyDigest::of(&file));
    let defaulted = || {
        INTERFACES
            .into_iter()
            .filter(|name| !exports.contains(name))
    };
    let is_granted = |name: &&String| name.starts_with("backstop:");
    if args.json {
        let found = json!({
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
            "decision": {"fuel": asked.fuel, "memory": asked.memory, "limits": {"fuel": limits.fuel, "memory": limits.memory}},
        });
        println!("{found}");
        return Ok(());
    }
    let line = |name: &str, value: String| println!("{name:<10} {}", one_line(&value));
    line("policy", args.policy.policy.clone());
    line("digest", digest.to_string());
    let told = [metadata.name, metadata.version, metadata.language];
    let told: Vec<_> = told.into_iter().flatten().collect();
    if !told.is_empty() {
        line("metadata", told.join(", "));
    }
    line("size", format!("{:.1} KiB", file.len() as f64 / 1_024.0));
    for name in &exports {
        line("answers", (*name).to_owned());
    }
    for name in defaulted() {
        line("default", format!("{name}: the host answers"));
    }
    for name in imports.iter().filter(is_granted) {
        line("granted", name.clone());
    }
    for name in imports.iter().filter(|name| !is_granted(name)) {
        line("stubbed", format!("{name}: there, and grants nothing"));
    }
    line(
        "uses",
        format!(
            "{} of {} fuel and {} KiB of {} KiB for one ordinary decision",
            asked.fuel,
            limits.fuel,
            asked.memory >> 10,
            limits.memory >> 10
        ),
    );
    Ok(())
}
