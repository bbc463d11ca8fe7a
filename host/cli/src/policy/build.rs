//! `backstop policy build`: builds a policy's folder into a component.

use std::path::PathBuf;

use backstop_core::clock;
use backstop_workbench::Project;
use clap::Parser;
use serde_json::json;

use super::component;
use crate::error::Result;
use crate::terminal::{Size, println};

/// Build a policy's folder into a WebAssembly component that any host can load
///
/// Runs the toolchain of the policy's language, as policy.toml describes it. The result is build/NAME.wasm in the folder. It is replaced atomically, so a host that watches the file can reload it at any time.
#[derive(Debug, Parser)]
pub(super) struct Args {
    /// The policy's folder, as `backstop policy new` creates it
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// Keep the names of functions, for debuggers and profilers
    #[arg(long)]
    names: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let started = clock::instant();
    let project = Project::open(&args.folder)?;
    let built = component::build(&project, args.names)?;
    if args.json {
        let result = json!({
            "name": project.name.to_string(),
            "version": project.version,
            "language": project.language.to_string(),
            "path": built.path,
            "bytes": built.size,
            "digest": built.digest,
        });
        println!("{result}");
        return Ok(());
    }
    println!(
        "{} {}: {}, {}, in {:.1} s",
        built.path.display(),
        project.version,
        Size(built.size),
        built.digest,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}
