//! The macro that makes an enum of commands.

/// Makes `Command` from a list of commands, in the order of the help: each is a module with `Args` and `run`. That `run` is `async`, or waits for files and the network `on_a_thread` of its own.
macro_rules! commands {
    ($($(#[$attribute:meta])* $command:ident = $how:ident $($module:ident)::+;)*) => {
        #[derive(Debug, clap::Subcommand)]
        enum Command {
            $($(#[$attribute])* $command(Box<$($module)::+::Args>),)*
        }

        impl Command {
            async fn run(self) -> $crate::error::Result<()> {
                match self {
                    $(Self::$command(args) => $crate::commands::run_command!($how $($module)::+, args),)*
                }
            }
        }
    };
}

macro_rules! run_command {
    (asynchronous $($module:ident)::+, $args:ident) => { $($module)::+::run(*$args).await };
    (on_a_thread $($module:ident)::+, $args:ident) => {
        tokio::task::spawn_blocking(move || $($module)::+::run(&$args)).await?
    };
}

pub(crate) use {commands, run_command};
