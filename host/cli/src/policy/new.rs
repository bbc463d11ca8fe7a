//! `backstop policy new`: creates a policy's folder from a template.

use std::path::PathBuf;

use backstop_engine::builtin;
use backstop_workbench::{Language, PolicyName};
use clap::{Parser, ValueEnum};

use crate::error::Result;
use crate::output::println;

const EXAMPLES: &str = "\
Examples:
  backstop policy new card-payments --lang typescript
  backstop policy test card-payments";

/// Create a policy's folder that builds and passes its tests
///
/// The folder contains a realistic policy (full jitter, with a classification of one API's errors), scenarios that test it, a README, and pinned versions of the toolchain. If the toolchain is not installed, the command prints how to install it.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The policy's name: lower-case words joined by hyphens
    name: PolicyName,

    /// The language to write the policy in
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    lang: Lang,

    /// The folder to create [default: the policy's name]
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// The languages, as they are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
enum Lang {
    /// With the SDK in policies/sdk; built by cargo
    Rust,
    /// On QuickJS; built by componentize-qjs, from npm
    JavaScript,
    /// JavaScript with the contract's types; also needs typescript, from npm
    TypeScript,
    /// On CPython; built by componentize-py, from PyPI
    Python,
    /// Built by Go itself, 1.27.1 or later
    Go,
    /// Built by Zig's C compiler: ziglang, from PyPI
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

pub(super) fn run(args: Args) -> Result<()> {
    let folder = args
        .folder
        .unwrap_or_else(|| PathBuf::from(args.name.to_string()));
    let project = backstop_workbench::create(&folder, &args.name, args.lang.into())?;
    let folder: PathBuf = folder.components().collect();
    // On a command line, the plain name of a built-in policy refers to the built-in.
    let is_builtin = builtin::names().any(|name| folder.as_os_str() == name);
    let shown = if is_builtin {
        format!("./{}", folder.display())
    } else {
        folder.display().to_string()
    };
    println!("created {shown}/, a policy in {}", project.language.title());
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
