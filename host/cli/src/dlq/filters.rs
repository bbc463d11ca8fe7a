//! The flags that choose letters, for every command.

use std::collections::HashSet;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use backstop_core::failure::Timestamp;
use backstop_core::text::one_line;
use backstop_dead_letters::{Filters, Origin, Pattern, read_ids};
use clap::Parser;

use crate::error::{Context, Exit, Result, open_input};
use crate::terminal::eprintln;
use crate::time::parse_past;

/// The most bytes of all ids in a file: those of more than 800,000 letters.
const IDS_BYTES: usize = 32 << 20;

/// Which letters are meant. Flags of different kinds must all fit; of one kind that is repeated, one must fit. In texts marked PATTERN, `*` stands for any text.
#[derive(Debug, Clone, Default, Parser)]
#[command(next_help_heading = "Which letters (of one kind, one must fit; of several kinds, all)")]
pub(crate) struct FilterArgs {
    /// Those that died for this reason
    #[arg(long = "reason", value_name = "PATTERN", value_parser = parse_text)]
    reasons: Vec<String>,

    /// Those whose last error has this code, such as 'HTTP 5*'
    #[arg(long = "code", value_name = "PATTERN", value_parser = parse_text)]
    codes: Vec<String>,

    /// Those whose last error is of this class, such as permanent
    #[arg(long = "class", value_name = "PATTERN", value_parser = parse_text)]
    classes: Vec<String>,

    /// Those that the policy whose digest begins with these digits has decided about
    #[arg(long = "decided-by", value_name = "DIGEST", value_parser = parse_digest)]
    policies: Vec<String>,

    /// Those with this origin: backstop, sqs, lambda-dead-letter, lambda-destination, sns, unknown
    #[arg(long = "origin", value_name = "ORIGIN")]
    origins: Vec<Origin>,

    /// Those that come from this queue, function or topic: its name or ARN
    #[arg(long = "source", value_name = "PATTERN", value_parser = parse_text)]
    sources: Vec<String>,

    /// Those with this fingerprint, by its eight digits
    #[arg(long = "fingerprint", value_name = "DIGITS", value_parser = parse_text)]
    fingerprints: Vec<String>,

    /// Those with this text in the body, the reason or the error, spelled like this
    #[arg(long = "text", value_name = "TEXT", value_parser = parse_text)]
    texts: Vec<String>,

    /// Those whose body has this value at a JSON pointer, such as /order/customer=c-7
    #[arg(long = "where", value_name = "/POINTER=PATTERN", value_parser = value)]
    values: Vec<(String, String)>,

    /// Those that died at this time or later: 2h for two hours ago, or 2026-11-22T03:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    since: Option<Timestamp>,

    /// Those that died before this time
    #[arg(long, value_name = "TIME", value_parser = parse_past)]
    until: Option<Timestamp>,

    /// The letter with this id, or whose message had it; may be repeated
    #[arg(long = "id", value_name = "ID", value_parser = parse_text)]
    ids: Vec<String>,

    /// The letters in this file: one id a line, as text or as the `id` of a JSON object, such as --save and archive write; - for standard input. A file without ids chooses no letter
    #[arg(long = "ids", value_name = "FILE")]
    ids_file: Option<PathBuf>,
}

/// A text to choose by. An empty one is most often a variable that is not set, and would choose what nobody means.
pub(crate) fn parse_text(text: &str) -> Result<String, String> {
    if text.is_empty() {
        Err("an empty text chooses nothing".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn parse_digest(text: &str) -> Result<String, String> {
    if text.trim_start_matches("sha256:").is_empty() {
        Err("expected the first digits of a digest: without any, it chooses nothing".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((pointer, value)) if pointer.starts_with('/') => {
            Ok((pointer.to_owned(), value.to_owned()))
        }
        Some(_) | None => {
            Err("expected a JSON pointer and a value, such as /order/customer=c-7".to_owned())
        }
    }
}

impl FilterArgs {
    /// The filters. Reads the file of ids: one without ids chooses nothing, and that is said.
    pub(crate) fn filters(&self) -> Result<Filters> {
        let patterns = |texts: &[String]| texts.iter().map(Pattern::new).collect();
        let mut ids = match &self.ids_file {
            Some(path) => Some(read(path)?),
            None => None,
        };
        if !self.ids.is_empty() {
            ids.get_or_insert_default().extend(self.ids.iter().cloned());
        }
        if let (Some(path), Some(true)) = (&self.ids_file, ids.as_ref().map(HashSet::is_empty)) {
            let name = if path == Path::new("-") {
                "standard input".to_owned()
            } else {
                one_line(&path.display().to_string())
            };
            eprintln!("{name} has no ids: no letter is chosen");
        }
        let values = self.values.iter();
        let digits = self.fingerprints.iter();
        Ok(Filters {
            ids,
            letters: None,
            reasons: patterns(&self.reasons),
            codes: patterns(&self.codes),
            classes: patterns(&self.classes),
            policies: self.policies.clone(),
            origins: self.origins.clone(),
            sources: patterns(&self.sources),
            fingerprints: digits.map(|it| it.to_ascii_lowercase()).collect(),
            texts: self.texts.clone(),
            values: values
                .map(|(pointer, value)| (pointer.clone(), Pattern::new(value)))
                .collect(),
            since: self.since,
            until: self.until,
        })
    }
}

fn read(path: &Path) -> Result<HashSet<String>> {
    let doing = || format!("can't use the ids in {}", path.display());
    let expected = "--ids expects a file with one id in each line, such as `backstop dlq list --letters --save FILE` writes, or - for standard input";
    let input = open_input("the ids", path, expected)?;
    read_ids(BufReader::new(input), IDS_BYTES)
        .map_err(|error| Exit::Usage.because(backstop_core::text::chain(&error)))
        .with_context(doing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_filters() {
        let parse = |flags: &[&str]| FilterArgs::try_parse_from([&["dlq"], flags].concat());
        assert!(parse(&[]).unwrap().filters().unwrap().is_empty());
        let flags = parse(&["--where", "/a/b=c=*", "--id", "x", "--origin", "sns"]).unwrap();
        let filters = flags.filters().unwrap();
        assert_eq!(filters.values, [("/a/b".to_owned(), Pattern::new("c=*"))]);
        assert_eq!(filters.ids, Some(["x".to_owned()].into()));
        assert_eq!(filters.origins, [Origin::Sns]);
        for wrong in [
            ["--where", "a=b"],
            ["--origin", "kafka"],
            ["--since", "soon"],
        ] {
            assert!(parse(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_empty_text_is_no_filter() {
        let flags = [
            "--reason",
            "--code",
            "--class",
            "--decided-by",
            "--source",
            "--fingerprint",
            "--text",
            "--id",
        ];
        for flag in flags {
            let refused = FilterArgs::try_parse_from(["dlq", flag, ""]).unwrap_err();
            let text = refused.to_string();
            assert!(text.contains("chooses nothing"), "{flag}: {text}");
        }
        let digest = ["dlq", "--decided-by", "sha256:"];
        assert!(FilterArgs::try_parse_from(digest).is_err());
    }
}
