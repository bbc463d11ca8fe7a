//! Configurations, and what a mistake in one is answered with.

use std::path::Path;

use backstop_host::config::Config;

use crate::{assert_readable, text};

/// A configuration is read the same each time, or a mistake is named that has a place.
pub(crate) fn configuration(input: &[u8]) {
    let text = text(input);
    let path = Path::new("/nowhere/backstop.toml");
    match (Config::parse(&text, path), Config::parse(&text, path)) {
        (Ok(one), Ok(other)) => {
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
            assert!(!one.queues.is_empty() || one.lambda.is_some());
            for (name, decider) in one.deciders() {
                assert!(!name.is_empty());
                let _ = format!("{decider:?}");
            }
        }
        (Err(one), Err(other)) => {
            assert_eq!(one.to_string(), other.to_string());
            assert_readable(&one.to_string());
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}
