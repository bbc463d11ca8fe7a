//! Options by name, for the packages of other languages: each has the name and the texts of what sets it here.

use backstop_files::nearest::nearest;

use super::Backstop;
use crate::config::{ConfigError, Key, options};

impl Backstop {
    /// Sets the option with this name: that of a method, such as `max_in_flight`. Its texts are those of a flag; a table such as `settings` has texts such as `base=2s`.
    #[doc(hidden)]
    pub fn option(self, name: &str, texts: &[String]) -> Result<Self, ConfigError> {
        let wrong = |expected: String| ConfigError::Value {
            place: name.to_owned(),
            expected,
        };
        match options().find(|key| key.option() == Some(name)) {
            Some(key) => key.set(self, texts).map_err(wrong),
            None => {
                let names = options().filter_map(Key::option);
                Err(wrong(match nearest(name, names) {
                    Some(meant) => format!("there is no such option: expected `{meant}`"),
                    None => "there is no such option: expected one of host/docs/deploy/configuration.md, such as `max_in_flight`".to_owned(),
                }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, texts: &[&str]) -> Result<crate::config::Config, String> {
        let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
        let host = Backstop::queue("local:orders").handler(|_| async { Ok(()) });
        let host = host
            .option(name, &texts)
            .map_err(|error| error.to_string())?;
        host.into_config().map_err(|error| error.to_string())
    }

    #[test]
    fn an_option_sets_what_its_method_sets() {
        let config = set("max_in_flight", &["7"]).unwrap();
        assert_eq!(config.queues[0].options.max_in_flight, 7);
        let config = set("settings", &["base=2s", "cap=1m"]).unwrap();
        assert!(format!("{:?}", config.queues[0].decider).contains("2s"));
        assert!(
            set("metrics", &["127.0.0.1:9464"])
                .unwrap()
                .metrics
                .is_some()
        );
        assert!(set("breaker", &["/tenant"]).is_ok());
        assert!(set("cache", &["off"]).is_ok());
    }

    #[test]
    fn a_mistake_names_the_option_and_what_is_expected() {
        for (name, text, expected) in [
            (
                "max_inflight",
                "7",
                "max_inflight: there is no such option: expected `max_in_flight`",
            ),
            ("max_in_flight", "many", "max_in_flight: "),
            ("http", "http://127.0.0.1/", "http: there is no such option"),
            ("handler", "x", "handler: there is no such option"),
            (
                "lambda_margin",
                "5s",
                "lambda_margin: there is no such option",
            ),
        ] {
            let wrong = set(name, &[text]).unwrap_err();
            assert!(wrong.starts_with(expected), "{wrong}");
        }
        let wrong = set("max_in_flight", &["0"]).unwrap_err();
        assert!(
            wrong.starts_with("max_in_flight of queue `orders`: "),
            "{wrong}"
        );
    }
}
