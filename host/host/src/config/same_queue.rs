//! Two tables for one queue: each would get a part of its messages.

use std::collections::BTreeMap;

use backstop_aws::queue_identity;

use super::{Config, ConfigError, Places, value};

impl Config {
    /// Each queue has one table, however its URL is spelled. The start compares ARNs too, which tell what only the environment's endpoint makes the same.
    pub(super) fn check_same_queues(&self, places: &Places) -> Result<(), ConfigError> {
        let has_endpoint = self.endpoint_url.is_some();
        let mut served = BTreeMap::new();
        for queue in &self.queues {
            let identity = queue_identity(&queue.url, has_endpoint);
            if let Some(other) = served.insert(identity, &queue.name) {
                return Err(value(
                    places.of(&format!("queues.{}.url", queue.name)),
                    format!(
                        "names the queue of `{other}` too, so that each would handle a part of its messages: expected one table for each queue"
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a file with these tables.
    fn error(tables: &str) -> Option<String> {
        let tables = tables.replace("DO", "handler = { exec = \"cat\" }");
        let error = Config::parse(&tables, "backstop.toml".as_ref()).err();
        error.map(|error| error.to_string())
    }

    #[test]
    fn two_tables_of_one_queue_are_rejected_however_its_url_is_spelled() {
        for (one, other) in [
            ("local:orders", "local:orders"),
            (
                "https://sqs.eu-west-1.amazonaws.com/1/orders",
                "https://eu-west-1.queue.amazonaws.com/1/orders/",
            ),
        ] {
            let found = error(&format!(
                "[queues.a]\nurl = \"{one}\"\nDO\n[queues.b]\nurl = \"{other}\"\nDO\n"
            ));
            let found = found.unwrap();
            for part in ["line 5, column 1: queues.b.url: ", "the queue of `a` too"] {
                assert!(found.contains(part), "{part}: {found}");
            }
        }
        let two = "[queues.a]\nurl = \"local:a\"\nDO\n[queues.b]\nurl = \"local:b\"\nDO\n";
        assert_eq!(error(two), None);
    }
}
