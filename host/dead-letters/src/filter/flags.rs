//! Filters as flags: as commands take them, and as the plan of a run keeps them.

use std::fmt;

use backstop_core::failure::Timestamp;

use super::{Filters, Pattern};

impl Filters {
    /// The filters as flags, for a plan that is carried out later: ids are in their order, and times are absolute. No flags can say that nothing is chosen: see [`Filters::chooses_nothing`].
    pub fn flags(&self) -> Vec<String> {
        fn all<T: fmt::Display>(flag: &str, values: &[T]) -> Vec<String> {
            let texts = values.iter().map(|value| format!("--{flag}={value}"));
            texts.collect()
        }
        let mut ids: Vec<_> = self.ids.iter().flatten().collect();
        ids.sort();
        let mut letters: Vec<_> = self.letters.iter().flatten().collect();
        letters.sort();
        let values = self.values.iter();
        let values: Vec<_> = values
            .map(|(pointer, value)| format!("{pointer}={value}"))
            .collect();
        [
            all("reason", &self.reasons),
            all("code", &self.codes),
            all("class", &self.classes),
            all("decided-by", &self.policies),
            all("origin", &self.origins),
            all("source", &self.sources),
            all("fingerprint", &self.fingerprints),
            all("text", &self.texts),
            all("where", &values),
            all("since", &time(self.since)),
            all("until", &time(self.until)),
            all("id", &ids),
            all("letter", &letters),
        ]
        .concat()
    }

    /// The filters that [`flags`](Self::flags) has written.
    ///
    /// ```
    /// use backstop_dead_letters::Filters;
    ///
    /// let flags = ["--code=HTTP 5*".to_owned(), "--id=one".to_owned()];
    /// let filters = Filters::of_flags(&flags)?;
    /// assert_eq!(filters.flags(), flags);
    /// assert!(Filters::of_flags(&["--colour=red".to_owned()]).is_err());
    /// # Ok::<(), String>(())
    /// ```
    pub fn of_flags(flags: &[String]) -> Result<Self, String> {
        let mut filters = Self::default();
        for flag in flags {
            filters
                .add(flag)
                .ok_or_else(|| format!("`{flag}` is no filter of letters"))?;
        }
        Ok(filters)
    }

    fn add(&mut self, flag: &str) -> Option<()> {
        let (name, value) = flag.strip_prefix("--")?.split_once('=')?;
        let text = || value.to_owned();
        match name {
            "reason" => self.reasons.push(Pattern::new(value)),
            "code" => self.codes.push(Pattern::new(value)),
            "class" => self.classes.push(Pattern::new(value)),
            "decided-by" => self.policies.push(text()),
            "origin" => self.origins.push(value.parse().ok()?),
            "source" => self.sources.push(Pattern::new(value)),
            "fingerprint" => self.fingerprints.push(text()),
            "text" => self.texts.push(text()),
            "where" => {
                let (pointer, value) = value.split_once('=')?;
                self.values.push((pointer.to_owned(), Pattern::new(value)));
            }
            "since" => self.since = Some(parse_time(value)?),
            "until" => self.until = Some(parse_time(value)?),
            "id" => drop(self.ids.get_or_insert_default().insert(text())),
            "letter" => drop(self.letters.get_or_insert_default().insert(text())),
            _ => return None,
        }
        Some(())
    }
}

/// A time as text, if there is one.
fn time(time: Option<Timestamp>) -> Vec<jiff::Timestamp> {
    let milliseconds = time.map(|time| i64::try_from(time.0).unwrap_or(i64::MAX));
    let time = milliseconds.and_then(|it| jiff::Timestamp::from_millisecond(it).ok());
    time.into_iter().collect()
}

fn parse_time(text: &str) -> Option<Timestamp> {
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp(u64::try_from(time.as_millisecond()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    #[test]
    fn filters_are_the_same_after_they_were_flags() {
        let patterns = |text: &str| vec![Pattern::new(text)];
        let filters = Filters {
            ids: Some(["b=1".to_owned(), "a".to_owned()].into()),
            letters: Some(["c".to_owned()].into()),
            reasons: patterns("permanent: *"),
            codes: patterns("HTTP 5*"),
            classes: patterns("permanent"),
            policies: vec!["ab12".to_owned()],
            origins: vec![Origin::Sns, Origin::Sqs],
            sources: patterns("orders"),
            fingerprints: vec!["0123abcd".to_owned()],
            texts: vec!["--a=b".to_owned()],
            values: vec![("/a/b".to_owned(), Pattern::new("c=*"))],
            since: Some(Timestamp(1_795_316_400_123)),
            until: Some(Timestamp(1_795_316_400_000)),
        };
        let flags = filters.flags();
        assert_eq!(
            flags.first().map(String::as_str),
            Some("--reason=permanent: *")
        );
        assert_eq!(Filters::of_flags(&flags), Ok(filters));
        assert_eq!(Filters::of_flags(&[]), Ok(Filters::default()));
    }

    #[test]
    fn what_is_no_filter_is_refused_and_not_left_out() {
        for wrong in [
            "",
            "code",
            "--code",
            "--origin=kafka",
            "--where=/a",
            "--since=soon",
            "-c=1",
        ] {
            let refused = Filters::of_flags(&[wrong.to_owned()]).unwrap_err();
            assert!(refused.contains(wrong), "{refused}");
        }
    }
}
