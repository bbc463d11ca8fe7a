//! `backstop policy export`: a policy for the runtime of another language.

use std::io;
use std::path::{Path, PathBuf};

use backstop_files::atomic_write;
use backstop_files::regular_file::read_text;
use backstop_workbench::export::{ExportOptions, Exported, export};
use backstop_workbench::subject::Subject;
use clap::Parser;
use serde_json::{Value, json};

use super::named_policy::{self, policy_help};
use super::sandbox;
use crate::error::{Context, Exit, Result};
use crate::terminal::{Size, println};

const EXAMPLES: &str = "\
Examples:
  backstop policy export card-payments --javascript
  backstop policy export ./orders.wasm --javascript --out src/policies/orders
  backstop policy export full-jitter --javascript --inline";

/// The largest manifest that is read, in bytes.
const MANIFEST: usize = 64 << 10;

/// Make a policy into a package for another language
///
/// With --javascript, it is an ES module for Node.js, browsers and bundlers, with the policy's WebAssembly and types for TypeScript. It needs no other package and no native code, and `backstop-retry` takes it as a policy. As in a host, it has no files, network, clock or random numbers. JavaScript has no fuel: a limit on time takes a worker, as the README of `backstop-retry` says.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[arg(value_name = "NAME|PATH|URL", help = policy_help("The policy", " (built first if it changed)", ""))]
    policy: String,

    /// A package for JavaScript and TypeScript
    #[arg(long, required = true)]
    javascript: bool,

    /// The folder to write [default: NAME-javascript, with the policy's name]
    #[arg(short, long, value_name = "FOLDER")]
    out: Option<PathBuf>,

    /// Put the WebAssembly into the JavaScript, for bundlers that leave other files out
    #[arg(long)]
    inline: bool,

    /// Let one instance give many answers, which is faster: for a policy that keeps no state between them, as `backstop policy test` checks
    #[arg(long)]
    pure: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let source = named_policy::source(&args.policy)?;
    let is_builtin = backstop_engine::builtin::names().any(|name| name == args.policy);
    let subject = Subject::load(&sandbox::cached()?, &source, &args.policy)?;
    let options = ExportOptions {
        inline: args.inline,
        pure: args.pure || is_builtin,
    };
    // A built-in policy has the version of this program.
    let version = is_builtin.then_some(env!("CARGO_PKG_VERSION"));
    let exported = export(subject.component(), subject.file(), version, options)
        .with_context(|| format!("can't export the policy {}", args.policy))?;
    let default = || PathBuf::from(format!("{}-javascript", exported.name));
    let folder = args.out.clone().unwrap_or_else(default);
    write(&folder, &exported)?;
    let bytes: usize = exported.files.iter().map(|(_, bytes)| bytes.len()).sum();
    if args.json {
        let names: Vec<_> = exported.files.iter().map(|(name, _)| name).collect();
        let result = json!({
            "name": exported.name,
            "version": exported.version,
            "digest": exported.digest,
            "folder": folder,
            "files": names,
            "bytes": bytes,
            "node": exported.node,
        });
        println!("{result}");
        return Ok(());
    }
    println!("package    {} {}", exported.name, exported.version);
    println!("digest     {}", exported.digest);
    println!("folder     {}, {}", folder.display(), Size(bytes));
    println!("runs in    Node.js {} or later, browsers", exported.node);
    Ok(())
}

/// Writes the files. A folder with anything else than an earlier export is left alone.
fn write(folder: &Path, exported: &Exported) -> Result<()> {
    if !is_free(folder) {
        return Err(Exit::Usage.because(format!(
            "{} has files that no export has written: name another folder with `--out`",
            folder.display()
        )));
    }
    let written = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        remove_modules(folder)?;
        for (name, bytes) in &exported.files {
            atomic_write::write(&folder.join(name), bytes, 0o644)?;
        }
        Ok(())
    };
    written().with_context(|| format!("can't write {}", folder.display()))
}

/// Whether it does not exist, is empty, or has an earlier export.
fn is_free(folder: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else {
        return !folder.exists();
    };
    if entries.next().is_none() {
        return true;
    }
    let manifest = read_text(&folder.join("package.json"), MANIFEST);
    let manifest = manifest.ok().and_then(|text| {
        let parsed: Option<Value> = serde_json::from_str(&text).ok();
        parsed
    });
    let digest = manifest
        .as_ref()
        .and_then(|it| it.pointer("/backstop/digest"));
    digest.is_some()
}

/// Removes the modules of an earlier version, which may have had more of them.
fn remove_modules(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().ends_with(".wasm") && entry.file_type()?.is_file() {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
