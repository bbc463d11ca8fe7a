//! `backstop policy new`: creates a policy's folder from a template.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use backstop_engine::builtin;
use backstop_workbench::{Installation, Language, PolicyName, Project, ToolError};
use clap::{Parser, ValueEnum};

use super::component;
use crate::error::{CommandError, Context, Exit, Result};
use crate::terminal::{eprintln, println, prompt};

const EXAMPLES: &str = "\
Examples:
  backstop policy new card-payments --lang typescript --install
  backstop policy test card-payments";

/// Create a policy's folder that builds and passes its tests
///
/// The folder contains a realistic policy (full jitter, with a classification of one API's errors), scenarios that test it, a README, and pinned versions of the toolchain. If the toolchain is not installed, the command prints how to install it, or with --install runs that, after a question.
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

    /// Install the toolchain if it is missing: show the commands, ask, and run them
    #[arg(long)]
    install: bool,

    /// Install without a question
    #[arg(long, requires = "install")]
    yes: bool,
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

pub(super) fn run(args: &Args) -> Result<()> {
    let language = Language::from(args.lang);
    let folder = args
        .folder
        .clone()
        .unwrap_or_else(|| PathBuf::from(args.name.to_string()));
    let mut missing = backstop_workbench::missing_toolchain(language, &folder);
    // Before anything is written.
    let installation = match &missing {
        Some(_) if args.install => Some(installation(language, &folder, args.yes)?),
        Some(_) | None => None,
    };
    let project = backstop_workbench::create(&folder, &args.name, language)?;
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
    if let (Some(tool), Some(installation)) = (&missing, installation)
        && (args.yes || is_wanted(tool, installation, &shown))
    {
        install(installation, &project)?;
        missing = None;
    }
    if let Some(missing) = missing {
        println!("first, once:        {missing}");
    }
    println!("build and test it:  backstop policy test {shown}");
    Ok(())
}

/// What would be installed, if somebody can be asked, or need not be.
fn installation(language: Language, folder: &Path, is_agreed: bool) -> Result<Installation> {
    if !is_agreed && !std::io::stdin().is_terminal() {
        return Err(Exit::Usage.because(
            "--install asks before it installs anything, and standard input is no terminal: add --yes to install without a question, or leave --install out to get the commands",
        ));
    }
    Ok(Installation::new(language, folder)?)
}

/// Asks. Only `y` and `yes` are a yes.
fn is_wanted(missing: &ToolError, installation: Installation, folder: &str) -> bool {
    eprintln!("{missing}");
    eprintln!("These commands install it, run in {folder}/:");
    for command in installation.commands() {
        eprintln!("  {command}");
    }
    let answer = prompt::answer("Run them now? [y/N] ");
    matches!(answer.as_deref(), Some("y" | "yes"))
}

fn install(installation: Installation, project: &Project) -> Result<()> {
    component::install(installation, project).with_context(|| {
        format!(
            "{} is created without its toolchain: run the command there again",
            project.folder.display()
        )
    })?;
    match backstop_workbench::missing_toolchain(project.language, &project.folder) {
        None => Ok(()),
        Some(missing) => Err(CommandError::from(missing))
            .context("the commands ran, and the toolchain is still incomplete"),
    }
}
