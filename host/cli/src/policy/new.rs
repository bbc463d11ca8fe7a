//! `backstop policy new`: a folder to start from.

use std::path::PathBuf;

use crate::output::println;
use clap::{Parser, ValueEnum};

use backstop::policy::builtin;
use backstop_workbench::{Language, PolicyName};

const EXAMPLES: &str = "\
Examples:
  backstop policy new card-payments --lang typescript
  backstop policy test card-payments";

/// Start a policy of your own: a folder that builds and passes its tests as it stands
///
/// It holds a realistic policy (full jitter, with its own classification of one API's errors), scenarios that say what it has to answer, a README, and the versions of the toolchain that it was tried with. Where that toolchain is not there, the command that installs it is told.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// What the policy is called: lower-case words joined by hyphens
    name: PolicyName,

    /// The language that it is written in
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Lang,

    /// The folder to make [default: the policy's name]
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The languages, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
enum Lang {
    /// With the SDK in policies/sdk; cargo
    Rust,
    /// QuickJS in WebAssembly; npm's componentize-qjs
    JavaScript,
    /// JavaScript with the contract's types; npm's typescript
    TypeScript,
    /// CPython in WebAssembly; PyPI's componentize-py
    Python,
    /// Go itself, 1.27.1 or later
    Go,
    /// Zig's C compiler; PyPI's ziglang
    C,
}

impl From<Lang> for Language {
    fn from(lang: Lang) -> Self {
        match lang {
            Lang::Rust => Self::Rust,
            Lang::JavaScript => Self::JavaScript,
            Lang::TypeScript => Self::TypeScript,
            Lang::Python => Self::Python,
            Lang::Go => Self::Go,
            Lang::C => Self::C,
        }
    }
}

pub(super) fn run(args: Args) -> anyhow::Result<()> {
    let folder = args
        .folder
        .unwrap_or_else(|| PathBuf::from(args.name.to_string()));
    let project = backstop_workbench::create(&folder, &args.name, args.lang.into())?;
    let folder: PathBuf = folder.components().collect();
    // A built-in policy's name would mean that one.
    let is_builtin = builtin::names().any(|name| folder.as_os_str() == name);
    let shown = if is_builtin {
        format!("./{}", folder.display())
    } else {
        folder.display().to_string()
    };
    println!("made {shown}/, a policy in {}", project.language.title());
    println!();
    println!("  {}", folder.join(project.language.source()).display());
    println!("  {}", project.scenarios().display());
    println!();
    if let Some(missing) = backstop_workbench::missing_toolchain(&project) {
        println!("first, once:        {missing}");
    }
    println!("build and test it:  backstop policy test {shown}");
    Ok(())
}
