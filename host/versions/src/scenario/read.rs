//! Converts the shape of a file to scenarios, and checks which keys can be combined.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::Value;
use toml::Spanned;
use toml::de::DeTable;

use super::values::{Delay, Duration, Numbers};
use super::{Expected, Given, Plan, Scenario, Step, Suite, raw};
use backstop_core::decision::Verdict;
use backstop_core::failure::Milliseconds;
use backstop_core::settings::Settings;
use backstop_files::mistake::{Mistake, line_of};
use backstop_files::regular_file::{self, WRITTEN};

/// The default for the longest delay of the standard checks: SQS delays a message by at most 12 hours.
const LONGEST_DELAY: Milliseconds = Milliseconds(12 * 3_600_000);

/// A file of scenarios that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file can't be read.
    #[error("can't read the scenarios {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: std::io::Error,
    },
    /// The file is invalid.
    #[error("{}: {}{wrong}", path.display(), scenario.as_ref().map(|name| format!("scenario `{name}`: ")).unwrap_or_default())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// The scenario with the mistake.
        scenario: Option<String>,
        /// The location of the mistake, and what is expected.
        wrong: Mistake,
    },
}

impl Suite {
    /// An empty file: no scenarios, no settings.
    pub fn empty() -> Self {
        Self {
            path: PathBuf::new(),
            settings: Settings::new(),
            longest_delay: LONGEST_DELAY,
            scenarios: Vec::new(),
        }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            regular_file::read_text(path, WRITTEN).map_err(|cause| ScenarioError::Unreadable {
                path: path.to_owned(),
                cause: regular_file::advise_if_missing(cause, || {
                    "correct the path, or write one as scenarios.md of Backstop's documents shows"
                        .to_owned()
                }),
            })?;
        Self::parse(&text, path)
    }

    /// The scenarios in `text`, as if it were the content of the file `path`.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScenarioError> {
        let at = |byte: usize, wrong| ScenarioError::Wrong {
            path: path.to_owned(),
            scenario: scenario_at(text, byte),
            wrong,
        };
        let wrong =
            |span: Range<usize>, message: &str| at(span.start, Mistake::new(text, span, message));
        let file: raw::File = toml::from_str(text).map_err(|error| {
            let start = error.span().unwrap_or_default().start;
            at(start, Mistake::of(text, &error))
        })?;
        let given = Given::default().with(&file.failure);
        let mut names = BTreeSet::new();
        let mut scenarios = Vec::new();
        for scenario in file.scenario {
            let line = line_of(text, scenario.span().start);
            let scenario = scenario.into_inner();
            let name = &scenario.name;
            if name.get_ref().trim().is_empty() {
                return Err(wrong(name.span(), "expected a name: a sentence"));
            }
            if !names.insert(name.get_ref().clone()) {
                return Err(wrong(name.span(), "another scenario has this name too"));
            }
            let scenario = scenario
                .convert(&given, line)
                .map_err(|(span, message)| wrong(span, &message))?;
            scenarios.push(scenario);
        }
        Ok(Self {
            path: path.to_owned(),
            settings: file.settings.0,
            longest_delay: file.longest_delay.map_or(LONGEST_DELAY, |Duration(it)| it),
            scenarios,
        })
    }
}

/// The name of the scenario at this byte, as far as the file can be parsed.
fn scenario_at(text: &str, byte: usize) -> Option<String> {
    let (file, _) = DeTable::parse_recoverable(text);
    let scenarios = file.get_ref().get("scenario")?.get_ref().as_array()?;
    let before = scenarios.iter().take_while(|it| it.span().start <= byte);
    let name = before.last()?.get_ref().as_table()?.get("name")?;
    name.get_ref().as_str().map(str::to_owned)
}

/// Keys that can't be combined: the location, and what is expected.
type Conflict = (Range<usize>, String);

fn conflict<T>(span: Range<usize>, message: &str) -> Result<T, Conflict> {
    Err((span, message.to_owned()))
}

impl raw::Scenario {
    fn convert(self, given: &Given, line: usize) -> Result<Scenario, Conflict> {
        let given = given.with(&self.failure);
        let name_span = self.name.span();
        let took_span = self.took.as_ref().map(Spanned::span);
        let took = self.took.map(|took| took.into_inner().0);
        let plan = match (self.expect, self.sequence) {
            (Some(expect), None) => {
                let span = expect.span();
                expect.into_inner().plan(&span, took, &given)?
            }
            (None, Some(sequence)) => Plan::Sequence {
                took: took.unwrap_or_default(),
                steps: steps(sequence)?,
            },
            (Some(expect), Some(_)) => {
                let message = "expected `expect` or `sequence`, not both: put the expectation of the last attempt into the sequence";
                return conflict(expect.span(), message);
            }
            (None, None) => {
                let message = "expected `expect = { ... }` or `sequence = [ ... ]`: without either, a scenario tests nothing";
                return conflict(name_span, message);
            }
        };
        let has_several_attempts = matches!(plan, Plan::Sequence { .. } | Plan::GivesUp { .. });
        if let Some(span) = took_span.filter(|_| !has_several_attempts) {
            return conflict(
                span,
                "`took` is the duration of an attempt: it is only used with `sequence`, `attempts` or `within`",
            );
        }
        Ok(Scenario {
            name: self.name.into_inner(),
            line,
            settings: self.settings.0,
            given,
            payload: self.payload.as_ref().map(body).unwrap_or_default(),
            plan,
        })
    }
}

impl raw::Expect {
    fn plan(
        self,
        span: &Range<usize>,
        took: Option<Milliseconds>,
        given: &Given,
    ) -> Result<Plan, Conflict> {
        let Self {
            class,
            verdict,
            reason,
            delay,
            down_for,
            log,
            over,
            refused,
            attempts,
            within,
        } = self;
        let expected = Expected {
            class,
            verdict,
            reason,
            delay,
            down_for,
            log,
        };
        expected.check_consistency(span)?;
        if expected.down_for.is_some_and(|time| time.mean().is_some()) {
            return conflict(
                span.clone(),
                "`down-for` has no mean: expected a duration, or `min` and `max`",
            );
        }
        let has_several_attempts = attempts.is_some() || within.is_some();
        if let Some(part) = refused {
            let is_alone =
                expected == Expected::default() && !has_several_attempts && over.is_none();
            return if is_alone {
                Ok(Plan::Refused(part))
            } else {
                conflict(
                    span.clone(),
                    "a policy that rejects its settings is never evaluated: remove the other keys next to `refused`",
                )
            };
        }
        if over.is_none() && expected.delay.is_some_and(|delay| delay.mean().is_some()) {
            return conflict(
                span.clone(),
                "`mean` needs several delays: set the number of random numbers, such as over = 1000",
            );
        }
        match (over, has_several_attempts) {
            (Some(_), true) => conflict(
                span.clone(),
                "`over` is for a single attempt: it can't be combined with `attempts` or `within`",
            ),
            (Some(_), false) if given.has_random() => conflict(
                span.clone(),
                "`over` draws random numbers, but the failure's `random` fixes them: remove one of the two",
            ),
            (Some(Numbers(numbers)), false) => Ok(Plan::Over { numbers, expected }),
            (None, true)
                if expected.verdict == Some(Verdict::Retry) || expected.delay.is_some() =>
            {
                conflict(
                    span.clone(),
                    "`attempts` and `within` are about giving up: expected the verdict dead-letter or discard, and no delay",
                )
            }
            (None, true) => Ok(Plan::GivesUp {
                took: took.unwrap_or_default(),
                attempts,
                within: within.map(|Duration(age)| age),
                expected,
            }),
            (None, false) => Ok(Plan::Once(expected)),
        }
    }
}

fn steps(sequence: Spanned<Vec<Spanned<raw::Step>>>) -> Result<Vec<Step>, Conflict> {
    let span = sequence.span();
    let raw = sequence.into_inner();
    let last = raw.len().saturating_sub(1);
    if raw.is_empty() {
        return conflict(span, "expected at least one attempt");
    }
    let mut steps = Vec::new();
    for (index, step) in raw.into_iter().enumerate() {
        let span = step.span();
        let raw::Step {
            class,
            verdict,
            reason,
            delay,
            down_for,
            log,
            failure,
        } = step.into_inner();
        let expected = Expected {
            class,
            verdict,
            reason,
            delay,
            down_for,
            log,
        };
        expected.check_consistency(&span)?;
        let times = [expected.delay, expected.down_for];
        if times.into_iter().flatten().any(|it| it.mean().is_some()) {
            return conflict(span, "`mean` needs several delays, but an attempt has one");
        }
        if index < last && expected.gives_up() {
            return conflict(
                span,
                "expected a retry: the attempts after it would never happen",
            );
        }
        steps.push(Step { failure, expected });
    }
    Ok(steps)
}

impl Expected {
    /// Checks that one answer can have all of these values.
    fn check_consistency(&self, span: &Range<usize>) -> Result<(), Conflict> {
        match (self.verdict, &self.delay, &self.reason) {
            (_, Some(_), Some(_)) => conflict(
                span.clone(),
                "a retry has a delay and giving up has a reason: no answer has both",
            ),
            (
                Some(Verdict::DeadLetter | Verdict::Discard),
                Some(Delay::Exactly(_) | Delay::Within(_)),
                None,
            ) => conflict(span.clone(), "only the verdict retry has a delay"),
            (Some(Verdict::Retry), None, Some(_)) => conflict(
                span.clone(),
                "the verdict retry has no reason: only dead-letter and discard have one",
            ),
            _ => Ok(()),
        }
    }
}

/// The message's body: a text unchanged, any other value as JSON.
fn body(payload: &toml::Value) -> String {
    match payload {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_)
        | toml::Value::Array(_)
        | toml::Value::Table(_) => json(payload).to_string(),
    }
}

fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.clone().into(),
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(switch) => (*switch).into(),
        toml::Value::Datetime(datetime) => datetime.to_string().into(),
        toml::Value::Array(values) => values.iter().map(json).collect(),
        toml::Value::Table(table) => table
            .iter()
            .map(|(name, value)| (name.clone(), json(value)))
            .collect(),
    }
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
