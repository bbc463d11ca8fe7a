//! The response to `GET /metrics`, parsed strictly, as Prometheus does.

use std::collections::{BTreeMap, BTreeSet};

/// One scrape: every series with its value.
#[derive(Debug)]
pub struct Scrape {
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
    types: BTreeMap<String, String>,
}

impl Scrape {
    /// Fetches and parses it.
    pub async fn of(url: &str) -> Self {
        let answer = reqwest::get(url).await.unwrap();
        assert_eq!(answer.status(), 200);
        let kind = answer.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
        Self::read(&answer.text().await.unwrap())
    }

    fn read(text: &str) -> Self {
        let mut scrape = Self {
            samples: BTreeMap::new(),
            types: BTreeMap::new(),
        };
        let mut helped = BTreeSet::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, meaning) = help.split_once(' ').unwrap();
                assert!(
                    !meaning.is_empty() && helped.insert(name.to_owned()),
                    "{line}"
                );
            } else if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').unwrap();
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                let before = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert!(before.is_none() && helped.contains(name), "{line}");
            } else {
                scrape.sample(line);
            }
        }
        scrape
    }

    fn sample(&mut self, line: &str) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let labels: BTreeMap<_, _> = labels
            .split("\",")
            .filter_map(|label| label.split_once("=\""))
            .map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned()))
            .collect();
        let family = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .filter(|family| {
                self.types
                    .get(*family)
                    .is_some_and(|kind| kind == "histogram")
            })
            .unwrap_or(name);
        assert!(self.types.contains_key(family), "{line} has no TYPE");
        let before = self
            .samples
            .insert((name.to_owned(), labels), value.parse().unwrap());
        assert!(before.is_none(), "{line} comes twice");
    }

    /// The sum of the series of this name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.samples
            .iter()
            .filter(|((named, has), _)| {
                named == name
                    && labels
                        .iter()
                        .all(|(label, value)| has.get(*label).is_some_and(|has| has == value))
            })
            .map(|(_, value)| value)
            .sum()
    }

    /// The names and types of all metrics.
    pub fn types(&self) -> &BTreeMap<String, String> {
        &self.types
    }

    /// The labels of every series of this name.
    pub fn labels(&self, name: &str) -> Vec<&BTreeMap<String, String>> {
        let of_name = self.samples.keys().filter(|(named, _)| named == name);
        of_name.map(|(_, labels)| labels).collect()
    }
}
