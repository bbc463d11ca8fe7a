//! The `backstop` command: what can be typed, what is printed. Nothing else in the workspace prints.

mod demo;
mod doctor;
mod exit;
mod log;
mod messages;
mod orphans;
mod output;
mod policy;
mod run;
mod signals;

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};

use backstop::policy::remove_marks;
use exit::Exit;

/// Sandboxed WebAssembly policies decide every retry of an SQS queue.
///
/// A failed message is put before a policy, a small WebAssembly file: it says what kind of failure it is, whether to try again, and when. Backstop carries that out on SQS, swaps the policy when its file changes, and never loses a message to a bad one.
#[derive(Debug, Parser)]
#[command(
    name = "backstop",
    version,
    max_term_width = 100,
    after_help = "Try `backstop demo` first: it needs no account and takes ten seconds.",
    after_long_help = exit::HELP,
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// How log lines look on stderr
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_enum,
        default_value = "text",
        env = "BACKSTOP_LOG_FORMAT"
    )]
    log_format: LogFormat,

    /// Say more: -v shows what policies log, -vv every request's fate. RUST_LOG sets it in detail
    #[arg(short, long, global = true, display_order = 101, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Run(Box<run::Args>),
    Policy(policy::Args),
    Doctor(Box<doctor::Args>),
    #[command(hide = true)]
    EndOrphans(orphans::Args),
}

fn main() -> ExitCode {
    backstop::policy::compiler_process().unwrap_or_else(command_line)
}

/// Runs the command that was typed.
fn command_line() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return print(&answer),
    };
    let quiet = matches!(cli.command, Command::Demo(_));
    let ended = log::start(cli.log_format, cli.verbose, quiet)
        .context("can't start the thread that writes the log")
        .and_then(|()| run(cli.command));
    let printed = output::finish().map_err(|error| exit::report(&error.into()));
    let code = match ended {
        Ok(()) => printed.err().unwrap_or(Exit::Success.into()),
        Err(error) => exit::report(&error),
    };
    log::flush();
    code
}

/// Prints the help or the version that was asked for, or what is wrong with the command line.
fn print(answer: &clap::Error) -> ExitCode {
    match answer.print() {
        Err(error) if !answer.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            let error = anyhow::Error::new(error);
            exit::report(&error.context("can't write to standard output"))
        }
        Ok(()) | Err(_) => {
            u8::try_from(answer.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("can't start the async runtime")?;
    let ended = runtime.block_on(async {
        signals::survive_file_size_limit()?;
        match command {
            Command::Demo(args) => demo::run(args).await,
            Command::Run(args) => run::run(*args).await,
            Command::Doctor(args) => doctor::run(*args).await,
            Command::EndOrphans(args) => orphans::run(&args),
            // On a thread that may block: what is asked of S3 and of registries is waited for.
            Command::Policy(args) => tokio::task::spawn_blocking(move || policy::run(args)).await?,
        }
    });
    // What still blocks (a policy that is being compiled or loaded) is not waited for.
    remove_marks();
    runtime.shutdown_background();
    ended
}
