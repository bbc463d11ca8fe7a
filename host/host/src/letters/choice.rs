//! What is to be moved: letters that were chosen from a survey, and how.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::str::FromStr;

use backstop_core::failure::Milliseconds;
use backstop_core::rate::Rate;
use backstop_core::text::one_line;
use backstop_dead_letters::redrive::Steps;
use serde::{Deserialize, Serialize};

use super::DeskError;
use super::classify::Verdict;
use super::groups::Grouping;
use super::row::Row;
use super::survey::Survey;

/// Which letters of the chosen groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Only {
    /// All.
    #[default]
    All,
    /// Those that the policy would retry.
    Retry,
}

/// What is to be moved, and how.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RedriveRequest {
    /// The queue whose dead letters are moved back.
    pub queue: String,
    /// The survey from which they were chosen.
    pub survey: String,
    /// How its letters were grouped.
    #[serde(default)]
    pub grouped_by: Grouping,
    /// The chosen groups, by their ids.
    pub groups: Vec<String>,
    /// Which letters of these.
    #[serde(default)]
    pub only: Only,
    /// The steps: `10,100,all`.
    #[serde(default)]
    pub ramp: Option<String>,
    /// The most letters in a time: `50/s`.
    #[serde(default)]
    pub rate: Option<String>,
    /// The share of failing letters at which the run stops: `5%`.
    #[serde(default)]
    pub stop_at: Option<String>,
    /// How long to wait after a step before looking for letters that came back.
    #[serde(default)]
    pub watch_for: Option<Milliseconds>,
    /// Whether each letter is written to a file before it is sent.
    #[serde(default)]
    pub keep_copies: bool,
    /// Why.
    #[serde(default)]
    pub why: Option<String>,
    /// Whether it only counts.
    #[serde(default)]
    pub dry_run: bool,
}

/// The letters that were chosen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// The number of their dead-letter queue.
    pub(super) queue: usize,
    /// Their ids there.
    pub(super) ids: Vec<String>,
    /// How many others of the chosen groups come from elsewhere.
    pub(super) elsewhere: u64,
}

/// The chosen letters. Nothing chooses nothing.
pub(super) fn choose(survey: &Survey, request: &RedriveRequest) -> Result<Chosen, DeskError> {
    let refused = |why: String| Err(DeskError::Refused(why));
    if request.groups.is_empty() {
        return refused("no group is chosen: expected the ids of some in `groups`".to_owned());
    }
    let by = request.grouped_by;
    let chosen: BTreeSet<_> = request.groups.iter().cloned().collect();
    let names = survey.names(by);
    if let Some(unknown) = chosen.iter().find(|it| !names.contains(it.as_str())) {
        let unknown = one_line(unknown);
        return refused(format!("the survey has no group `{unknown}` by {by}"));
    }
    let is_meant = |row: &Row| match request.only {
        Only::All => true,
        Only::Retry => row.verdict == Verdict::Retry,
    };
    let (mut of_queues, elsewhere) = survey.chosen(by, &chosen, is_meant);
    match (of_queues.len(), of_queues.pop_first()) {
        (1, Some((queue, ids))) => Ok(Chosen {
            queue,
            ids,
            elsewhere,
        }),
        (0, _) | (_, None) if elsewhere > 0 => refused(format!(
            "all {elsewhere} of these letters come from elsewhere: `backstop dlq redrive` moves them, with --to where it is needed"
        )),
        (0, _) | (_, None) => refused("the policy would retry none of these letters".to_owned()),
        // A run looks for letters that came back in all of them, and so would take those of the others.
        (queues, _) => refused(format!(
            "these letters are in {queues} dead-letter queues, and a run moves those of one: group by dead-letter queue, and choose one"
        )),
    }
}

/// How the letters are to be moved, and at which rate.
pub(super) fn steps(request: &RedriveRequest) -> Result<(Steps, Option<Rate>), DeskError> {
    fn read<T: FromStr<Err: Display>>(text: Option<&String>) -> Result<Option<T>, DeskError> {
        let text = text.map(|text| text.trim()).filter(|text| !text.is_empty());
        let read = text.map(str::parse::<T>).transpose();
        read.map_err(|error| DeskError::Refused(error.to_string()))
    }
    let watch = request.watch_for.map(Milliseconds::as_duration);
    let (ramp, stop_at) = (
        read(request.ramp.as_ref())?,
        read(request.stop_at.as_ref())?,
    );
    let steps = Steps::of(ramp, stop_at, watch);
    let steps = steps.map_err(|error| {
        DeskError::Refused(format!("`stop-at` needs `ramp` or `watch-for`: {error}"))
    })?;
    Ok((steps, read(request.rate.as_ref())?))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use backstop_core::failure::Timestamp;
    use backstop_dead_letters::Attempts;
    use serde_json::json;

    use super::*;
    use crate::letters::sample::Samples;

    fn row(id: &str, reason: Option<&str>, verdict: Verdict, is_foreign: bool) -> Row {
        Row {
            queue: usize::from(id.starts_with('b')),
            queue_name: Arc::from(if id.starts_with('b') { "b" } else { "a" }),
            id: id.into(),
            original: id.into(),
            died: Timestamp(1),
            reason: reason.map(Arc::from),
            code: None,
            policy: None,
            fingerprint: None,
            origin: None,
            source: None,
            value: None,
            is_foreign,
            verdict,
            answer: Arc::from(""),
            delay: None,
        }
    }

    fn survey() -> Survey {
        Survey {
            id: "s".to_owned(),
            at: Timestamp(1),
            by: "ana".to_owned(),
            policy: "p".to_owned(),
            attempts: Attempts::Reset,
            pointer: None,
            queues: Vec::new(),
            rows: vec![
                row("a1", Some("busy"), Verdict::Retry, false),
                row("b1", Some("busy"), Verdict::DeadLetter, false),
                row("b2", Some("slow"), Verdict::Retry, false),
                row("a2", Some("busy"), Verdict::Retry, true),
                row("a3", Some("wrong"), Verdict::DeadLetter, false),
                row("a4", None, Verdict::NotClassified, true),
                row("a5", Some("unknown"), Verdict::Broken, false),
            ],
            samples: Samples::default(),
            unknown: BTreeMap::new(),
        }
    }

    fn request(more: &serde_json::Value) -> RedriveRequest {
        let mut body = json!({ "queue": "q", "survey": "s", "groups": [] });
        let object = body.as_object_mut().unwrap();
        object.extend(more.as_object().unwrap().clone());
        serde_json::from_value(body).unwrap()
    }

    fn group(reason: Option<&str>) -> String {
        let rows = [row("x", reason, Verdict::Retry, false)];
        Grouping::Cause.groups_of(&rows)[0].to_string()
    }

    fn chosen(more: &serde_json::Value) -> Result<String, String> {
        let chosen = choose(&survey(), &request(more)).map_err(|it| it.to_string())?;
        let Chosen {
            queue,
            ids,
            elsewhere,
        } = chosen;
        Ok(format!("{queue} {ids:?} {elsewhere}"))
    }

    #[test]
    fn the_letters_of_the_chosen_groups_are_chosen_and_nothing_chooses_nothing() {
        let wrong = json!({ "groups": [group(Some("wrong")), group(Some("unknown"))] });
        assert_eq!(chosen(&wrong).unwrap(), r#"0 ["a3", "a5"] 0"#);
        let slow = json!({ "groups": [group(Some("slow"))] });
        assert_eq!(chosen(&slow).unwrap(), r#"1 ["b2"] 0"#);
        let both = json!({ "groups": [group(Some("busy"))] });
        assert!(
            chosen(&both)
                .unwrap_err()
                .contains("in 2 dead-letter queues")
        );
        let retried =
            json!({ "groups": [group(Some("busy")), group(Some("wrong"))], "only": "retry" });
        assert_eq!(chosen(&retried).unwrap(), r#"0 ["a1"] 1"#);
        for (body, why) in [
            (json!({}), "no group is chosen"),
            (
                json!({ "groups": ["busy"] }),
                "the survey has no group `busy`",
            ),
            (
                json!({ "groups": [group(Some("busy"))], "grouped-by": "policy" }),
                "has no group",
            ),
            (
                json!({ "groups": [group(Some("wrong"))], "only": "retry" }),
                "retry none",
            ),
            // What a letter does not say is not what another one says.
            (json!({ "groups": [group(None)] }), "come from elsewhere"),
        ] {
            let refused = chosen(&body).unwrap_err();
            assert!(refused.contains(why), "{body} {refused}");
        }
        assert_ne!(group(None), group(Some("unknown")));
    }

    #[test]
    fn the_steps_are_those_of_the_command() {
        let of = |more| steps(&request(&more)).map_err(|it| it.to_string());
        let (usual, rate) = of(json!({ "rate": " 5/s ", "stop-at": "" })).unwrap();
        assert_eq!(Ok(usual), Steps::of(None, None, None));
        assert_eq!(rate.map(|it| it.to_string()), Some("5/s".to_owned()));
        let (grows, _) = of(json!({ "ramp": "10,all", "watch-for": 1_000 })).unwrap();
        assert_eq!(grows.watch.as_secs(), 1);
        for wrong in [
            json!({ "ramp": "all,10" }),
            json!({ "rate": "fast" }),
            json!({ "stop-at": "many", "ramp": "1,all" }),
            json!({ "stop-at": "5%" }),
        ] {
            assert!(of(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
