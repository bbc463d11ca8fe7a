//! `backstop policy build`: a policy's folder to a component, each command of the toolchain shown.

use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::output::{eprintln, println};
use anstyle::Style;
use clap::Parser;
use serde_json::json;

use crate::exit::Exit;
use crate::{log, signals};
use backstop_core::clock;
use backstop_workbench::{self, Built, Project};

/// Build a policy: run its language's toolchain, and make a component that any host takes
///
/// The folder is one that `backstop policy new` made: policy.toml says what is in it. The component is build/NAME.wasm there, replaced as a whole: a host that watches it swaps it.
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// The policy's folder
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// Keep the names of functions, which debuggers and profilers read
    #[arg(long)]
    names: bool,

    /// Print what was made as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let started = clock::instant();
    let project = Project::open(&args.folder)?;
    let built = build(&project, args.names)?;
    if args.json {
        let found = json!({
            "name": project.name.to_string(),
            "version": project.version,
            "language": project.language.to_string(),
            "path": built.path,
            "bytes": built.size,
            "digest": built.digest,
        });
        println!("{found}");
        return Ok(());
    }
    println!(
        "{} {}: {:.1} KiB, {}, in {:.1} s",
        built.path.display(),
        project.version,
        built.size as f64 / 1_024.0,
        built.digest,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Builds, and shows each command on stderr before it runs.
fn build(project: &Project, names: bool) -> anyhow::Result<Built> {
    ends_with_this_process();
    let dim = Style::new().dimmed();
    let mut step = |command: &str| eprintln!("{dim}$ {command}{dim:#}");
    Ok(backstop_workbench::build(project, names, &mut step)?)
}

/// From now on, a signal that ends this process ends the toolchain too: it runs in a group of its own, which Ctrl-C does not reach.
fn ends_with_this_process() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        tokio::spawn(async {
            if let Err(error) = signals::stopped().await {
                tracing::debug!("{error:#}");
                return;
            }
            backstop_workbench::end_tools();
            log::flush();
            std::process::exit(Exit::Interrupted as i32);
        });
    });
}

/// The component of a policy's folder, built where something has changed since it was.
pub(super) fn component_of(folder: &Path) -> anyhow::Result<PathBuf> {
    let project = Project::open(folder)?;
    if !project.is_built() {
        build(&project, false)?;
    }
    Ok(project.component())
}
