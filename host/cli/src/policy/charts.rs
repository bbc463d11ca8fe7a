//! The flags that draw a chart into files.

use std::path::{Path, PathBuf};

use backstop_workbench::chart::{Chart, png, svg};
use clap::Parser;

use super::folder_of;
use crate::error::{Context, Exit, Result};
use crate::terminal::println;

/// The files to draw a chart into.
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
    /// Whether there is any.
    pub(super) fn are_wanted(&self) -> bool {
        self.svg.is_some() || self.png.is_some()
    }

    /// Rejects a path that can't be written to, before the work starts.
    pub(super) fn check(&self) -> Result<()> {
        for path in [&self.svg, &self.png].into_iter().flatten() {
            if !folder_of(path).is_dir() || path.is_dir() {
                let path = path.display();
                return Err(Exit::Usage.because(format!(
                    "no chart can be written to {path}: expected a file in a folder that exists"
                )));
            }
        }
        Ok(())
    }

    /// Draws the chart into the files, and prints their paths if `for_people`.
    pub(super) fn write(&self, chart: &impl Chart, for_people: bool) -> Result<()> {
        if let Some(path) = &self.svg {
            write(path, svg(chart)?.as_bytes(), for_people)?;
        }
        if let Some(path) = &self.png {
            write(path, &png(chart)?, for_people)?;
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8], for_people: bool) -> Result<()> {
    std::fs::write(path, bytes)
        .with_context(|| format!("can't write the chart {}", path.display()))?;
    if for_people {
        println!("chart      {}", path.display());
    }
    Ok(())
}
