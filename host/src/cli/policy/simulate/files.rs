//! The charts, written where the flags say.

use std::path::Path;

use anyhow::Context;

use super::Args;
use crate::author::simulate::chart::{Chart, png, svg};
use crate::cli::exit::UsageError;

/// Refuses a place that no chart can be written to, before the simulation and not after it.
pub(super) fn check(args: &Args) -> anyhow::Result<()> {
    for path in [&args.svg, &args.png].into_iter().flatten() {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() || path.is_dir() {
            let path = path.display();
            return Err(UsageError(format!(
                "no chart can be written to {path}: expected a file in a folder that exists"
            ))
            .into());
        }
    }
    Ok(())
}

/// Draws the chart into the files that are asked for, and says so where the result is for people.
pub(super) fn write(args: &Args, chart: &impl Chart) -> anyhow::Result<()> {
    if let Some(path) = &args.svg {
        written(args, path, svg(chart)?.as_bytes())?;
    }
    if let Some(path) = &args.png {
        written(args, path, &png(chart)?)?;
    }
    Ok(())
}

fn written(args: &Args, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    std::fs::write(path, bytes)
        .with_context(|| format!("can't write the chart {}", path.display()))?;
    if !args.json && !args.csv {
        anstream::println!("chart      {}", path.display());
    }
    Ok(())
}
