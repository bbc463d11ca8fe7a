//! What is to be moved: letters that were chosen from a survey, and how.

use std::collections::BTreeSet;
use std::time::Duration;

use backstop_core::failure::Milliseconds;
use backstop_core::rate::Rate;
use backstop_core::share::Share;
use backstop_core::text::one_line;
use backstop_dead_letters::redrive::Ramp;
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

/// How letters are moved.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) ramp: Ramp,
    pub(super) rate: Option<Rate>,
    pub(super) stop_at: Option<Share>,
    pub(super) watch: Duration,
}

/// The ids of the chosen letters, and how many of the chosen ones come from elsewhere. Nothing chooses nothing.
#[expect(clippy::type_complexity, reason = "the letters of each queue")]
pub(super) fn choose(
    survey: &Survey,
    request: &RedriveRequest,
) -> Result<(Vec<(usize, Vec<String>)>, u64), DeskError> {
    if request.groups.is_empty() {
        return Err(DeskError::Refused(
            "no group is chosen: expected the ids of some in `groups`".to_owned(),
        ));
    }
    let by = request.grouped_by;
    let chosen: BTreeSet<_> = request.groups.iter().cloned().collect();
    let names = survey.names(by);
    if let Some(unknown) = chosen.iter().find(|it| !names.contains(it.as_str())) {
        return Err(DeskError::Refused(format!(
            "the survey has no group `{}` by {}",
            one_line(unknown),
            by.name()
        )));
    }
    let is_meant = |row: &Row| match request.only {
        Only::All => true,
        Only::Retry => row.verdict == Verdict::Retry,
    };
    let (ids, elsewhere) = survey.chosen(by, &chosen, is_meant);
    if ids.is_empty() {
        let why = if elsewhere > 0 {
            format!(
                "all {elsewhere} of these letters come from elsewhere: `backstop dlq redrive` moves them, with --to where it is needed"
            )
        } else {
            "the policy would retry none of these letters".to_owned()
        };
        return Err(DeskError::Refused(why));
    }
    // Each run looks for letters that came back in all of these queues, and so takes those of the others.
    if ids.len() > 1 {
        return Err(DeskError::Refused(format!(
            "these letters are in {} dead-letter queues, and a run moves those of one: group by dead-letter queue, and choose one",
            ids.len()
        )));
    }
    Ok((ids, elsewhere))
}

pub(super) fn steps(request: &RedriveRequest) -> Result<Steps, DeskError> {
    let given = |text: &Option<String>| {
        let text = text.as_deref().map(str::trim);
        text.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let wrong = |error: String| DeskError::Refused(error);
    let ramp = given(&request.ramp).map(|text| text.parse::<Ramp>());
    let ramp = ramp.transpose().map_err(wrong)?;
    let rate = given(&request.rate).map(|text| text.parse::<Rate>());
    let rate = rate.transpose().map_err(|error| wrong(error.to_string()))?;
    let stop_at = given(&request.stop_at).map(|text| text.parse::<Share>());
    let stop_at = stop_at
        .transpose()
        .map_err(|error| wrong(error.to_string()))?;
    let has_ramp = ramp.is_some();
    let watch = request.watch_for.map(Milliseconds::as_duration);
    if stop_at.is_some() && !has_ramp && watch.is_none() {
        return Err(wrong(
            "`stop-at` needs `ramp` or `watch-for`: letters that came back are looked for after a step".to_owned(),
        ));
    }
    Ok(Steps {
        ramp: ramp.unwrap_or_else(Ramp::all),
        rate,
        stop_at: stop_at.or_else(|| "5%".parse().ok().filter(|_| has_ramp)),
        watch: watch.unwrap_or(if has_ramp {
            Duration::from_secs(60)
        } else {
            Duration::ZERO
        }),
    })
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
        let (ids, elsewhere) = choose(&survey(), &request(more)).map_err(|it| it.to_string())?;
        Ok(format!("{ids:?} {elsewhere}"))
    }

    #[test]
    fn the_letters_of_the_chosen_groups_are_chosen_and_nothing_chooses_nothing() {
        let wrong = json!({ "groups": [group(Some("wrong")), group(Some("unknown"))] });
        assert_eq!(chosen(&wrong).unwrap(), r#"[(0, ["a3", "a5"])] 0"#);
        let slow = json!({ "groups": [group(Some("slow"))] });
        assert_eq!(chosen(&slow).unwrap(), r#"[(1, ["b2"])] 0"#);
        let both = json!({ "groups": [group(Some("busy"))] });
        assert!(
            chosen(&both)
                .unwrap_err()
                .contains("in 2 dead-letter queues")
        );
        let retried =
            json!({ "groups": [group(Some("busy")), group(Some("wrong"))], "only": "retry" });
        assert_eq!(chosen(&retried).unwrap(), r#"[(0, ["a1"])] 1"#);
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
        let usual = of(json!({})).unwrap();
        assert_eq!((usual.watch, usual.stop_at), (Duration::ZERO, None));
        assert_eq!(usual.ramp, Ramp::all());
        let ramp = of(json!({ "ramp": "10,all", "rate": " 5/s ", "stop-at": "" })).unwrap();
        assert_eq!(ramp.watch, Duration::from_secs(60));
        assert_eq!(ramp.stop_at, "5%".parse().ok());
        assert_eq!(ramp.rate.map(|it| it.to_string()), Some("5/s".to_owned()));
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
