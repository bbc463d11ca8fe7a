//! The flags of `backstop run` that set keys of the configuration, made from the list of keys.

use backstop_core::policy::NAMES;
use backstop_host::Backstop;
use backstop_host::config::{Flag, Key, keys};
use clap::builder::{PossibleValuesParser, ValueParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};

/// The flags that come first in the help, in this order. The others follow in the order of the list.
const FIRST: &[&str] = &[
    "policy",
    "set",
    "scenarios",
    "cache",
    "refresh",
    "require-signature",
    "signed-for",
    "plain-http",
    "token-server",
    "shadow",
    "shadow-set",
    "http",
    "http-proxy",
    "http-content-type",
    "http-health",
    "exec",
    "lambda",
    "dead-letter-queue",
];

/// The flag whose default is clap's.
const POLICY: &str = "policy";

/// The flag whose text is a command line.
const EXEC: &str = "exec";

/// The flag that comes last.
const LAST: &str = "endpoint-url";

/// The table whose flags have a heading of their own.
const IDEMPOTENCY: &str = "queues.NAME.idempotency";

/// The flags that were given, with their texts.
#[derive(Debug, Clone)]
pub(crate) struct KeyFlags(Vec<(&'static Key, Vec<String>)>);

/// The keys with flags, in the order of the help.
fn flags() -> Vec<(&'static Key, Flag)> {
    let mut all: Vec<_> = keys().filter_map(|key| Some((key, key.flag?))).collect();
    all.sort_by_key(|(_, flag)| {
        let first = FIRST.iter().position(|name| *name == flag.name);
        first.unwrap_or(FIRST.len() + usize::from(flag.name == LAST))
    });
    all
}

/// The flags of a queue that is configured by flags: a file has keys for them.
pub(crate) fn of_one_queue() -> Vec<&'static str> {
    let own = flags().into_iter().filter(|(_, flag)| !flag.overrides_file);
    own.map(|(_, flag)| flag.name).collect()
}

/// The default of the policy is clap's: it stands apart in the help.
fn help(key: &Key, flag: Flag) -> String {
    let help = flag.help.replace("{policies}", &NAMES.join(", "));
    match key.default {
        default if !default.is_empty() && flag.name != POLICY => {
            format!("{help} [default: {default}]")
        }
        _ => help,
    }
}

/// A command line, split into words like a shell does.
fn parse_command(line: &str) -> Result<Vec<String>, String> {
    let words = shlex::split(line).ok_or("a quote is not closed")?;
    if words.is_empty() {
        return Err("expected a program, such as './work.sh --fast'".to_owned());
    }
    Ok(words)
}

fn argument(key: &'static Key, flag: Flag) -> Arg {
    let parser = if flag.value == "true|false" {
        PossibleValuesParser::new(["true", "false"]).into()
    } else if flag.name == EXEC {
        ValueParser::new(|text: &str| parse_command(text).map(|_| text.to_owned()))
    } else {
        ValueParser::new(move |text: &str| key.check(text).map(|()| text.to_owned()))
    };
    let action = if flag.repeats {
        ArgAction::Append
    } else {
        ArgAction::Set
    };
    let mut argument = Arg::new(flag.name)
        .long(flag.name)
        .value_name(flag.value)
        .value_parser(parser)
        .hide_possible_values(true)
        .action(action)
        .help(help(key, flag));
    if flag.name == POLICY {
        argument = argument.default_value(key.default);
    }
    if let Some(other) = flag.requires {
        argument = argument.requires(other);
    }
    if let Some(variable) = flag.variable {
        argument = argument.env(variable);
    }
    if key.table == IDEMPOTENCY {
        argument = argument.help_heading("Work that is done once for each key");
    }
    argument
}

impl Args for KeyFlags {
    fn augment_args(command: Command) -> Command {
        let flags = flags().into_iter();
        command.args(flags.map(|(key, flag)| argument(key, flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for KeyFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = flags().into_iter().filter_map(|(key, flag)| {
            let texts = matches.get_many::<String>(flag.name)?;
            let texts = if flag.name == EXEC {
                texts
                    .flat_map(|line| shlex::split(line).unwrap_or_default())
                    .collect()
            } else {
                texts.cloned().collect()
            };
            Some((key, texts))
        });
        Ok(Self(given.collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl KeyFlags {
    /// The text of a flag, by its name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut given = self.0.iter();
        let is_named = |key: &Key| key.flag.is_some_and(|flag| flag.name == name);
        let (_, texts) = given.find(|(key, _)| is_named(key))?;
        texts.last().map(String::as_str)
    }

    /// Sets the values on a host: those that override a file too, or all.
    pub(crate) fn set(&self, host: Backstop, over_file: bool) -> Result<Backstop, String> {
        let given = self.0.iter();
        let mut applied =
            given.filter(|(key, _)| !over_file || key.flag.is_some_and(|flag| flag.overrides_file));
        applied.try_fold(host, |host, (key, texts)| key.apply(host, texts))
    }
}
