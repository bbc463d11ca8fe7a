//! `backstop policy export`: a policy for the runtime of another language.

use std::io;
use std::path::{Path, PathBuf};

use backstop_files::atomic_write;
use backstop_files::regular_file::read_text;
use backstop_workbench::export::{ExportOptions, Exported, export, is_module};
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
    let cannot_write = || format!("can't write {}", folder.display());
    if !is_free(folder).with_context(cannot_write)? {
        return Err(Exit::Usage.because(format!(
            "{} has files that no export has written: name another folder with `--out`",
            folder.display()
        )));
    }
    let written = || -> io::Result<()> {
        std::fs::create_dir_all(folder)?;
        // Complete before the first file is replaced: a full disk leaves an earlier export as it was.
        let complete = tempfile::tempdir_in(folder)?;
        for (name, bytes) in &exported.files {
            atomic_write::write(&complete.path().join(name), bytes, 0o644)?;
        }
        for (name, _) in &exported.files {
            std::fs::rename(complete.path().join(name), folder.join(name))?;
        }
        remove_old_modules(folder, exported)
    };
    written().with_context(cannot_write)
}

/// Whether it does not exist, is empty, or has an earlier export.
fn is_free(folder: &Path) -> io::Result<bool> {
    let mut entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    if entries.next().is_none() {
        return Ok(true);
    }
    let manifest = read_text(&folder.join("package.json"), MANIFEST);
    let manifest = manifest.ok().and_then(|text| {
        let parsed: Option<Value> = serde_json::from_str(&text).ok();
        parsed
    });
    let digest = manifest
        .as_ref()
        .and_then(|it| it.pointer("/backstop/digest"));
    Ok(digest.is_some())
}

/// Removes the modules that only the earlier export had.
fn remove_old_modules(folder: &Path, exported: &Exported) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let is_new = exported.files.iter().any(|(new, _)| name == **new);
        if !is_new && name.to_str().is_some_and(is_module) {
            std::fs::remove_file(folder.join(name))?;
        }
    }
    Ok(())
}
