//! The configuration of a Lambda retry handler as `backstop doctor` sees it from outside: from flags, and from the variables of the deployed function.

use std::collections::BTreeMap;
use std::path::Path;

use super::lambda::read_or_default;
use super::{Config, ConfigError, Places, folder_of};

/// Where Lambda unpacks a function's package. It has the files that variables name by relative paths.
const PACKAGE: &str = "/var/task";

/// The variables that mean nothing without another one.
const DEPENDENT: [(&str, &str); 3] = [
    ("BACKSTOP_POLICY", "BACKSTOP_SETTINGS"),
    ("BACKSTOP_SHADOW", "BACKSTOP_SHADOW_SETTINGS"),
    ("BACKSTOP_REQUIRE_SIGNATURE", "BACKSTOP_SIGNED_FOR"),
];

/// The values of a Lambda retry handler that `backstop doctor` takes as flags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LambdaFlags {
    /// `--retry-queue`
    pub retry_queue: Option<String>,
    /// `--max-attempts`
    pub max_attempts: Option<u32>,
    /// `--function`
    pub functions: Vec<String>,
}

/// What a deployed handler loads at its start.
#[derive(Debug)]
pub(crate) struct Deployed {
    /// The configuration without the variables that are invalid; `None` if it is invalid without them too.
    pub(crate) config: Option<Config>,
    /// What is invalid, each variable once. The handler does not start.
    pub(crate) invalid: Vec<Invalid>,
}

/// Something invalid in the environment of a handler.
#[derive(Debug)]
pub(crate) struct Invalid {
    /// The variable, if it is one.
    pub(crate) variable: Option<String>,
    /// What is wrong with it.
    pub(crate) error: ConfigError,
}

impl Config {
    /// The configuration in a file, if one is given, with a Lambda retry handler whose values the flags override.
    pub fn with_lambda(path: Option<&Path>, flags: LambdaFlags) -> Result<Self, ConfigError> {
        let (mut raw, written) = read_or_default(path)?;
        let mut places = Places::default();
        let lambda = raw.lambda.get_or_insert_default();
        if let Some(url) = flags.retry_queue {
            lambda.retry_queue = Some(url);
            places.name("lambda.retry-queue", "--retry-queue");
        }
        if let Some(most) = flags.max_attempts {
            lambda.max_attempts = Some(most);
            places.name("lambda.max-attempts", "--max-attempts");
        }
        if !flags.functions.is_empty() {
            lambda.functions = Some(flags.functions);
            places.name("lambda.functions", "--function");
        }
        raw.convert(path.map_or(Path::new(""), folder_of), &places)
            .map_err(|error| written.locate(error, &places))
    }

    /// The configuration that a handler with these variables loads, as [`of_lambda`](Self::of_lambda) loads it. `file` is the file in its package, if that is known. All invalid variables are found: each is left out, until the rest is valid.
    pub(crate) fn of_deployed(
        file: Option<&Path>,
        variables: &BTreeMap<String, String>,
    ) -> Deployed {
        let mut left = variables.clone();
        let mut invalid = Vec::new();
        loop {
            let error = match load(file, &left) {
                Ok(config) => {
                    return Deployed {
                        config: Some(config),
                        invalid,
                    };
                }
                Err(error) => error,
            };
            let variable = error.place().and_then(|place| place.split(' ').next());
            let variable = variable
                .filter(|name| left.contains_key(*name))
                .map(str::to_owned);
            let Some(name) = &variable else {
                invalid.push(Invalid { variable, error });
                return Deployed {
                    config: None,
                    invalid,
                };
            };
            left.remove(name);
            let dependent = DEPENDENT.into_iter().filter(|(on, _)| on == name);
            for (_, dependent) in dependent {
                left.remove(dependent);
            }
            invalid.push(Invalid { variable, error });
        }
    }
}

fn load(file: Option<&Path>, variables: &BTreeMap<String, String>) -> Result<Config, ConfigError> {
    let (raw, written) = read_or_default(file)?;
    let folder = file.map_or(Path::new(PACKAGE), folder_of);
    raw.overridden_by(&written, folder, &|name| variables.get(name).cloned())
}

impl ConfigError {
    /// The key, flag or variable that is invalid, if it is one.
    fn place(&self) -> Option<&str> {
        match self {
            Self::Value { place, .. } | Self::Key { place, .. } | Self::Policy { place, .. } => {
                Some(place)
            }
            Self::Unreadable { .. } | Self::Syntax { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployed(variables: &[(&str, &str)]) -> Deployed {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::of_deployed(None, &variables.collect())
    }

    #[test]
    fn every_invalid_variable_is_found_and_the_others_hold() {
        let found = deployed(&[
            ("BACKSTOP_MAX_AGE", "soon"),
            ("BACKSTOP_MAX_ATTEMPTS", "-1"),
            ("BACKSTOP_HOLD", "later"),
            ("BACKSTOP_MARGIN", "2m"),
            ("BACKSTOP_DEAD_LETTER_QUEUE_URL", "permanent=invalid"),
            ("BACKSTOP_RETRY_QUEUE_URL", "retries"),
            ("BACKSTOP_FUNCTIONS", "orders, no such"),
            ("BACKSTOP_POLICY", "full-jiter"),
            ("BACKSTOP_SETTINGS", "base=2s"),
            ("BACKSTOP_REQUIRE_SIGNATURE", "RW"),
            ("BACKSTOP_SIGNED_FOR", "orders"),
            ("BACKSTOP_ALLOW_DISCARD", "false"),
            ("BACKSTOP_REFRESH", "0s"),
        ]);
        let mut names: Vec<_> = found
            .invalid
            .iter()
            .filter_map(|it| it.variable.as_deref())
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "BACKSTOP_DEAD_LETTER_QUEUE_URL",
                "BACKSTOP_FUNCTIONS",
                "BACKSTOP_HOLD",
                "BACKSTOP_MARGIN",
                "BACKSTOP_MAX_AGE",
                "BACKSTOP_MAX_ATTEMPTS",
                "BACKSTOP_POLICY",
                "BACKSTOP_REFRESH",
                "BACKSTOP_REQUIRE_SIGNATURE",
                "BACKSTOP_RETRY_QUEUE_URL",
            ]
        );
        let lambda = found.config.unwrap().lambda.unwrap();
        assert!(!lambda.decider.bounds.allow_discard);
    }

    #[test]
    fn the_variables_override_the_file_and_a_mistake_in_the_file_is_no_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backstop.toml");
        std::fs::write(&path, "[lambda]\nmax-attempts = 5\nmargin = \"2s\"\n").unwrap();
        let variables = BTreeMap::from([("BACKSTOP_MARGIN".to_owned(), "3s".to_owned())]);
        let found = Config::of_deployed(Some(&path), &variables);
        let lambda = found.config.unwrap().lambda.unwrap();
        assert_eq!((lambda.margin.as_secs(), found.invalid.len()), (3, 0));
        assert_eq!(lambda.decider.bounds.max_attempts.unwrap().get(), 5);
        std::fs::write(&path, "[lambda]\nmargin = \"2d\"\n").unwrap();
        let found = Config::of_deployed(Some(&path), &BTreeMap::new());
        assert!(found.config.is_none() && found.invalid[0].variable.is_none());
    }

    #[test]
    fn paths_are_those_of_the_package_and_not_of_this_folder() {
        let found = deployed(&[("BACKSTOP_POLICY", "./mine.wasm")]);
        let lambda = found.config.unwrap().lambda.unwrap();
        let source = format!("{:?}", lambda.decider.policy);
        assert!(
            source.contains("/var/task/./mine.wasm") || source.contains("/var/task/mine.wasm"),
            "{source}"
        );
    }
}
