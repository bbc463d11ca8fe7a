//! The charts, written where the flags say.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Parser;

use crate::exit::UsageError;
use crate::output::println;
use backstop_workbench::chart::{Chart, png, svg};

/// Where to draw the chart.
#[derive(Debug, Parser)]
pub(super) struct Charts {
    /// Draw the chart into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Draw the chart into this file
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
}

impl Charts {
    /// Refuses a place that no chart can be written to, before the work and not after it.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for path in [&self.svg, &self.png].into_iter().flatten() {
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

    /// Draws the chart into the files that are asked for, and says so where the result is `for_people`.
    pub(super) fn write(&self, chart: &impl Chart, for_people: bool) -> anyhow::Result<()> {
        if let Some(path) = &self.svg {
            written(path, svg(chart)?.as_bytes(), for_people)?;
        }
        if let Some(path) = &self.png {
            written(path, &png(chart)?, for_people)?;
        }
        Ok(())
    }
}

fn written(path: &Path, bytes: &[u8], for_people: bool) -> anyhow::Result<()> {
    std::fs::write(path, bytes)
        .with_context(|| format!("can't write the chart {}", path.display()))?;
    if for_people {
        println!("chart      {}", path.display());
    }
    Ok(())
}
