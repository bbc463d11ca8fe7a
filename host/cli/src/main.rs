//! The `backstop` command. Nothing else in the workspace prints.
//!
//! Each command has its flags and prints its results. It returns a [`error::CommandError`], which [`causes`] maps to the documented exit codes. [`terminal`] and [`log`] write to the standard streams, and [`signals`] handles SIGTERM and the like.

mod causes;
mod commands;
mod completions;
mod deliver;
mod demo;
mod dlq;
mod doctor;
mod error;
mod forecast;
mod hosts;
mod ids;
mod init;
mod key_flags;
mod log;
mod man;
mod messages;
mod operate;
mod orphans;
mod parse;
mod policy;
mod process;
mod run;
mod signals;
mod terminal;
mod time;
mod tools;
mod waiting;
mod wake;
mod why;

use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

use backstop_versions::remove_marks;
use commands::commands;
use error::{Context, Exit, Result};
use log::LogFormat;

/// Each message spends much of its processor time on allocating memory for requests and answers. This allocator takes fewer instructions than the C library's, and less time when threads free each other's memory.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Sandboxed WebAssembly policies decide every retry of an SQS queue.
///
/// Backstop passes each failed message to a policy, a small WebAssembly file. The policy classifies the failure and decides whether and when to retry. Backstop applies the decision on SQS, reloads the policy when its file changes, and never loses a message because of a bad policy.
#[derive(Debug, Parser)]
#[command(
    name = "backstop",
    version,
    max_term_width = 100,
    after_help = "Try `backstop demo` first: it needs no account and takes ten seconds.",
    after_long_help = error::EXIT_CODES,
)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// The format of log lines on stderr
    #[arg(
        long,
        global = true,
        display_order = 100,
        value_enum,
        default_value = "text",
        env = "BACKSTOP_LOG_FORMAT"
    )]
    log_format: LogFormat,

    /// Log more: -v for what policies log, -vv for every request. RUST_LOG sets the levels in detail
    #[arg(short, long, global = true, display_order = 101, action = clap::ArgAction::Count)]
    verbose: u8,
}

commands! {
    Demo = asynchronous demo;
    Run = asynchronous run;
    Policy = asynchronous policy;
    Deliver = asynchronous deliver;
    Doctor = asynchronous doctor;
    Init = asynchronous init;
    Status = on_a_thread operate::status;
    Pause = on_a_thread operate::pause;
    Resume = on_a_thread operate::resume;
    Set = on_a_thread operate::set;
    Drain = on_a_thread operate::drain;
    Waiting = on_a_thread waiting;
    Wake = on_a_thread wake;
    Why = on_a_thread why;
    Dlq = asynchronous dlq;
    Completions = on_a_thread completions;
    #[command(hide = true)]
    Man = on_a_thread man;
    #[command(hide = true)]
    EndOrphans = asynchronous orphans;
}

fn main() -> ExitCode {
    backstop_engine::compiler_process().unwrap_or_else(command_line)
}

/// Parses and runs the command line.
fn command_line() -> ExitCode {
    let cli = match parse::parse() {
        Ok(cli) => cli,
        Err(error) => return print(&error),
    };
    process::raise_limit();
    let quiet = matches!(cli.command, Command::Demo(_));
    let ended = log::start(cli.log_format, cli.verbose, quiet)
        .context("can't start the thread that writes the log")
        .and_then(|()| run(cli.command));
    let printed = terminal::output::finish().map_err(|error| causes::report(&error.into()));
    let code = match ended {
        Ok(()) => printed.err().unwrap_or(Exit::Success.into()),
        Err(error) => causes::report(&error),
    };
    log::flush();
    code
}

/// Prints the help, the version, or what is wrong with the command line: clap returns all of them as errors.
fn print(parsed: &clap::Error) -> ExitCode {
    match parsed.print() {
        Err(error) if !parsed.use_stderr() && error.kind() != ErrorKind::BrokenPipe => {
            let failed: Result<()> = Err(error).context("can't write to standard output");
            failed.map_or_else(|error| causes::report(&error), |()| Exit::Success.into())
        }
        Ok(()) | Err(_) => {
            u8::try_from(parsed.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("can't start the async runtime")?;
    let ended = runtime.block_on(async {
        signals::survive_file_size_limit()?;
        command.run().await
    });
    // Does not wait for blocking work, such as a policy that is being compiled.
    remove_marks();
    runtime.shutdown_background();
    ended
}
