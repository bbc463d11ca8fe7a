//! Queues that are named twice: two tables for one queue, and a queue that is its own dead-letter queue.

use std::collections::BTreeMap;

use backstop_aws::queue_identity;

use super::{Config, ConfigError, DeadLetterQueues, Places, value};

impl Config {
    /// Each queue has one table, and none is its own dead-letter queue, however its URL is spelled.
    pub(super) fn check_same_queues(&self, places: &Places) -> Result<(), ConfigError> {
        let mut served = BTreeMap::new();
        for queue in &self.queues {
            let table = format!("queues.{}", queue.name);
            if let Some(other) = served.insert(self.identity(&queue.url), &queue.name) {
                return Err(value(
                    places.of(&format!("{table}.url")),
                    format!(
                        "names the queue of `{other}` too, so that each would handle a part of its messages: expected one table for each queue"
                    ),
                ));
            }
            self.check_dead_letters(&table, &queue.url, &queue.dead_letter_queues, places)?;
        }
        let Some(lambda) = &self.lambda else {
            return Ok(());
        };
        let Some(url) = &lambda.retry_queue else {
            return Ok(());
        };
        self.check_dead_letters("lambda", url, &lambda.dead_letter_queues, places)
    }

    fn check_dead_letters(
        &self,
        table: &str,
        url: &str,
        dead_letters: &DeadLetterQueues,
        places: &Places,
    ) -> Result<(), ConfigError> {
        let own = self.identity(url);
        if dead_letters.urls().all(|it| self.identity(it) != own) {
            return Ok(());
        }
        Err(value(
            places.of(&format!("{table}.dead-letter-queue")),
            format!(
                "{url} would be its own dead-letter queue, and receive its dead letters again: expected another queue"
            ),
        ))
    }

    fn identity(&self, url: &str) -> String {
        queue_identity(url, self.endpoint_url.is_some())
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

    #[test]
    fn a_queue_that_is_its_own_dead_letter_queue_is_rejected() {
        const URL: &str = "https://sqs.eu-west-1.amazonaws.com/1/orders";
        for dead in [
            "\"https://sqs.eu-west-1.amazonaws.com/1/orders\"",
            "\"https://sqs-fips.eu-west-1.amazonaws.com/1/orders\"",
            "{ permanent = \"https://sqs.eu-west-1.amazonaws.com/1/orders/\", default = \"local:dead\" }",
        ] {
            let queue = error(&format!(
                "[queues.a]\nurl = \"{URL}\"\nDO\ndead-letter-queue = {dead}\n"
            ));
            let lambda = error(&format!(
                "[lambda]\nretry-queue = \"{URL}\"\ndead-letter-queue = {dead}\n"
            ));
            for (found, key) in [(queue, "queues.a"), (lambda, "lambda")] {
                let found = found.unwrap();
                assert!(
                    found.contains(&format!("{key}.dead-letter-queue: {URL} would be its own")),
                    "{found}"
                );
            }
        }
        // The dead-letter queue of one may be another table's queue.
        let chain = "[queues.a]\nurl = \"local:a\"\nDO\ndead-letter-queue = \"local:b\"\n[queues.b]\nurl = \"local:b\"\nDO\n";
        assert_eq!(error(chain), None);
    }
}
