//! The queues of a configuration, each served once.

use std::collections::BTreeMap;

use crate::consumer::Fault;
use crate::queue::Description;

/// The queues that are served, by their ARNs. An ARN is one for each queue, whatever its URLs look like.
#[derive(Debug, Default)]
pub(crate) struct Served(BTreeMap<String, String>);

impl Served {
    /// Adds the queue of a table. Returns a fault, and adds nothing, if another table has it.
    pub(crate) fn add(&mut self, table: &str, url: &str, queue: &Description) -> Option<Fault> {
        if let Some(other) = self.0.get(&queue.arn) {
            return Some(Fault::Twice {
                url: url.to_owned(),
                other: other.clone(),
            });
        }
        self.0.insert(queue.arn.clone(), table.to_owned());
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Connections;

    #[tokio::test]
    async fn a_queue_with_another_name_of_its_host_is_the_same_queue() {
        let connections = Connections::default();
        let orders = connections.by_url("local:orders").await;
        let orders = orders.describe().await.unwrap();
        let mut served = Served::default();
        let urls = [
            "http://localhost:4566/1/orders",
            "http://127.0.0.1:4566/1/orders",
        ];
        assert!(served.add("orders", urls[0], &orders).is_none());
        let fault = served.add("invoices", urls[1], &orders).unwrap();
        assert!(
            fault.to_string().contains("is that of `orders` too"),
            "{fault}"
        );
        let other = connections.by_url("local:invoices").await;
        let other = other.describe().await.unwrap();
        assert!(served.add("invoices", "local:invoices", &other).is_none());
    }
}
