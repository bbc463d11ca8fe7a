//! Whether spans are sent, by the configuration and by the standard variables of OpenTelemetry.

use std::str::FromStr;

use crate::Variables;

/// What a configuration says of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// Spans are sent over OTLP.
    Otlp,
    /// No spans are sent, whatever the environment says.
    None,
}

impl FromStr for Wish {
    type Err = StartError;

    fn from_str(text: &str) -> Result<Self, StartError> {
        match text.trim() {
            "otlp" => Ok(Self::Otlp),
            "none" => Ok(Self::None),
            _ => Err(StartError::Exporter(text.to_owned())),
        }
    }
}

/// Why spans can't be sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Spans go nowhere else.
    #[error("`{0}` is no exporter of traces: expected otlp or none")]
    Exporter(String),
    /// A variable has a value that it can't have.
    #[error("{name} is `{value}`: expected {expected}")]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it can have.
        expected: &'static str,
    },
    /// The program was built without the feature.
    #[error("this program was built without traces: build it with the feature `traces`")]
    NotBuilt,
    /// The exporter can't be made.
    #[error("traces can't be sent: {0}")]
    Unusable(String),
}

/// How spans are sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The name of the service, if `OTEL_SERVICE_NAME` has none.
    pub service: String,
    /// Which traces are recorded.
    pub sampling: Sampling,
}

/// Which traces are recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Whether a trace is recorded if the span is that it continues, or that it links to.
    pub respects_parent: bool,
    /// The part of the others that is recorded.
    pub ratio: f64,
}

const SAMPLERS: &str =
    "always_on, always_off, traceidratio or one of them with parentbased_ before it";

impl Settings {
    /// What the configuration and the environment say; `None` if no spans are sent.
    ///
    /// Without a wish, spans are sent only if `OTEL_TRACES_EXPORTER` says so: an endpoint in the environment may be meant for the handler. `OTEL_SDK_DISABLED` ends all of it.
    pub fn of(
        wish: Option<Wish>,
        service: &str,
        variables: Variables<'_>,
    ) -> Result<Option<Self>, StartError> {
        let set = |name| variables(name).filter(|value| !value.trim().is_empty());
        let is_disabled =
            set("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"));
        if is_disabled || wish == Some(Wish::None) {
            return Ok(None);
        }
        let exporter = set("OTEL_TRACES_EXPORTER").map(|text| text.parse::<Wish>());
        match (wish, exporter) {
            (Some(_), None) | (_, Some(Ok(Wish::Otlp))) => {}
            (None, None) | (_, Some(Ok(Wish::None))) => return Ok(None),
            // The variable may be meant for the handler, which knows other exporters.
            (None, Some(Err(_))) => return Ok(None),
            (Some(_), Some(Err(error))) => return Err(error),
        }
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
            "OTEL_EXPORTER_OTLP_PROTOCOL",
        ] {
            let Some(value) = set(name) else { continue };
            if !["grpc", "http/protobuf"].contains(&value.trim()) {
                let expected = "http/protobuf or grpc";
                return Err(StartError::Variable {
                    name,
                    value,
                    expected,
                });
            }
        }
        Ok(Some(Self {
            service: service.to_owned(),
            sampling: sampling(&set)?,
        }))
    }
}

fn sampling(set: &dyn Fn(&'static str) -> Option<String>) -> Result<Sampling, StartError> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
    let sampler = set(SAMPLER).unwrap_or_else(|| "parentbased_always_on".to_owned());
    let of_root = sampler.trim().strip_prefix("parentbased_");
    let ratio = match of_root.unwrap_or(sampler.trim()) {
        "always_on" => 1.0,
        "always_off" => 0.0,
        "traceidratio" => {
            let Some(value) = set(ARGUMENT) else {
                return Ok(Sampling {
                    respects_parent: of_root.is_some(),
                    ratio: 1.0,
                });
            };
            let ratio = value
                .trim()
                .parse()
                .ok()
                .filter(|it| (0.0..=1.0).contains(it));
            ratio.ok_or(StartError::Variable {
                name: ARGUMENT,
                value,
                expected: "a number from 0 to 1",
            })?
        }
        _ => {
            return Err(StartError::Variable {
                name: SAMPLER,
                value: sampler,
                expected: SAMPLERS,
            });
        }
    };
    Ok(Sampling {
        respects_parent: of_root.is_some(),
        ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(wish: Option<Wish>, variables: &[(&str, &str)]) -> Result<Option<Settings>, String> {
        let read = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::of(wish, "backstop", &read).map_err(|error| error.to_string())
    }

    #[test]
    fn spans_are_sent_if_the_key_or_the_variable_of_the_exporter_says_so() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for (wish, exporter, is_sent) in [
            (None, None, false),
            (None, Some("otlp"), true),
            (None, Some("none"), false),
            (None, Some("zipkin"), false),
            (Some(Wish::Otlp), None, true),
            (Some(Wish::Otlp), Some("none"), false),
            (Some(Wish::None), Some("otlp"), false),
            (Some(Wish::None), None, false),
        ] {
            let exporter = exporter.map(|it| ("OTEL_TRACES_EXPORTER", it));
            let variables: Vec<_> = exporter.into_iter().chain([endpoint]).collect();
            let found = of(wish, &variables).unwrap();
            assert_eq!(found.is_some(), is_sent, "{wish:?} {variables:?}");
            let disabled = [&variables[..], &[("OTEL_SDK_DISABLED", "true")]].concat();
            assert_eq!(of(wish, &disabled), Ok(None));
        }
    }

    #[test]
    fn the_standard_variables_say_which_traces_are_recorded() {
        for (sampler, argument, respects_parent, ratio) in [
            (None, None, true, 1.0),
            (Some("always_on"), None, false, 1.0),
            (Some("parentbased_always_off"), None, true, 0.0),
            (Some("traceidratio"), Some("0.25"), false, 0.25),
            (Some("parentbased_traceidratio"), Some("0.1"), true, 0.1),
            (Some("parentbased_traceidratio"), None, true, 1.0),
        ] {
            let sampler = sampler.map(|it| ("OTEL_TRACES_SAMPLER", it));
            let argument = argument.map(|it| ("OTEL_TRACES_SAMPLER_ARG", it));
            let variables: Vec<_> = sampler.into_iter().chain(argument).collect();
            let found = of(Some(Wish::Otlp), &variables).unwrap().unwrap();
            let expected = Sampling {
                respects_parent,
                ratio,
            };
            assert_eq!(found.sampling, expected, "{variables:?}");
        }
    }

    #[test]
    fn a_value_that_a_variable_cannot_have_is_named() {
        for (name, value, error) in [
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL is `http/json`: expected http/protobuf or grpc",
            ),
            (
                "OTEL_TRACES_EXPORTER",
                "zipkin",
                "`zipkin` is no exporter of traces: expected otlp or none",
            ),
            (
                "OTEL_TRACES_SAMPLER",
                "jaeger_remote",
                "OTEL_TRACES_SAMPLER is `jaeger_remote`: expected always_on, always_off, traceidratio or one of them with parentbased_ before it",
            ),
        ] {
            assert_eq!(
                of(Some(Wish::Otlp), &[(name, value)]),
                Err(error.to_owned())
            );
        }
        let ratio = [
            ("OTEL_TRACES_SAMPLER", "traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "7"),
        ];
        let error = of(Some(Wish::Otlp), &ratio).unwrap_err();
        assert_eq!(
            error,
            "OTEL_TRACES_SAMPLER_ARG is `7`: expected a number from 0 to 1"
        );
    }
}
