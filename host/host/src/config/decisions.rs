//! Where decision records go, and when their file is put aside.

use std::path::Path;

use super::{ConfigError, raw, value};
use crate::record::{Destination, Rotation};

impl raw::Decisions {
    /// Checks and converts the destination of decision records.
    pub(super) fn convert(
        self,
        folder: &Path,
        at: &dyn Fn(&str) -> String,
    ) -> Result<Destination, ConfigError> {
        let bytes = |bytes: &raw::Bytes| u64::try_from(bytes.0).unwrap_or(u64::MAX);
        let rotation = Rotation {
            size: self.rotate_size.as_ref().map(bytes),
            after: self.rotate_after.map(|span| span.0),
            keep: self.keep.as_ref().map(bytes),
        };
        if rotation.keep.is_some() && !rotation.is_set() {
            let expected =
                "expected `rotate-size` or `rotate-after`, too: without one, no file is put aside";
            return Err(value(at("decisions.keep"), expected));
        }
        match self.record.as_str() {
            "stdout" | "-" if rotation.is_set() => {
                let expected = "expected a file, since it is to be put aside (`rotate-size`, `rotate-after`): records on standard output are kept by who reads them";
                Err(value(at("decisions.record"), expected))
            }
            "stdout" | "-" => Ok(Destination::Stdout),
            path => Ok(Destination::File {
                path: folder.join(path),
                rotation,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::config::Config;
    use backstop_core::text::chain;

    fn decisions(table: &str) -> Result<Option<Destination>, String> {
        let text = format!(
            "[decisions]\n{table}\n[queues.q]\nurl = \"local:q\"\nhandler = {{ exec = \"true\" }}\n"
        );
        let config = Config::parse(&text, Path::new("/etc/backstop.toml"));
        config.map(|it| it.decisions).map_err(|error| chain(&error))
    }

    #[test]
    fn what_is_put_aside_and_kept_is_checked_with_its_place() {
        let table =
            "record = \"d.jsonl\"\nrotate-size = \"64MiB\"\nrotate-after = \"1d\"\nkeep = \"1GiB\"";
        let expected = Destination::File {
            path: "/etc/d.jsonl".into(),
            rotation: Rotation {
                size: Some(64 << 20),
                after: Some(Duration::from_secs(86_400)),
                keep: Some(1 << 30),
            },
        };
        assert_eq!(decisions(table), Ok(Some(expected)));
        for (table, expected) in [
            (
                "record = \"d\"\nrotate-size = \"1KiB\"",
                "decisions.rotate-size: expected at least 1MiB",
            ),
            (
                "record = \"d\"\nrotate-after = \"1s\"",
                "decisions.rotate-after: expected at least 1m",
            ),
            (
                "record = \"d\"\nkeep = \"1GiB\"",
                "decisions.keep: expected `rotate-size` or `rotate-after`, too",
            ),
            (
                "record = \"stdout\"\nrotate-after = \"1d\"",
                "decisions.record: expected a file",
            ),
        ] {
            let error = decisions(table).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
