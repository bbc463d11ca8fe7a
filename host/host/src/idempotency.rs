//! Messages whose work is done once for each key: a handler around a queue's handler.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_core::idempotency::OnMissingKey;
use backstop_idempotency::{
    Attributes, DynamoStore, Event, Idempotency, Observed, OnceError, TableError, aws_sdk_dynamodb,
};
use metrics::Counter;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::config::{IdempotencyConfig, QueueConfig};
use crate::failure::{Error, Milliseconds};
use crate::handler::Handler;
use crate::queue::{Connections, Message, short_name};
use crate::telemetry;

/// What the keys of a queue begin with.
fn prefix<'a>(queue: &'a QueueConfig, config: &'a IdempotencyConfig) -> &'a str {
    let prefix = config.prefix.as_deref();
    prefix.unwrap_or_else(|| short_name(&queue.url))
}

/// The table of a queue.
async fn store(
    queue: &QueueConfig,
    config: &IdempotencyConfig,
    connections: &Connections,
) -> DynamoStore {
    let client = aws_sdk_dynamodb::Client::new(connections.sdk().await);
    DynamoStore::new(client, &config.table)
        .attributes(attributes(prefix(queue, config), config))
        .format(config.format)
}

fn attributes(prefix: &str, config: &IdempotencyConfig) -> Attributes {
    let names = config.attributes.clone();
    let mut attributes = Attributes::default();
    attributes.sort_key = names.sort_key;
    attributes.partition.push_str(prefix);
    for (attribute, name) in [
        (&mut attributes.key, names.key),
        (&mut attributes.partition, names.partition),
        (&mut attributes.expiration, names.expiration),
        (
            &mut attributes.in_progress_expiration,
            names.in_progress_expiration,
        ),
        (&mut attributes.status, names.status),
        (&mut attributes.data, names.data),
        (&mut attributes.validation, names.validation),
        (&mut attributes.owner, names.owner),
    ] {
        if let Some(name) = name {
            *attribute = name;
        }
    }
    attributes
}

type Count = dyn Fn(Observed) + Send + Sync;

/// Counts what the messages of a queue find. Each counter exists from the start.
fn counting(queue: &str) -> Arc<Count> {
    let queue = telemetry::Queue::named(queue);
    let counters: [(Observed, Counter); 8] =
        Observed::ALL.map(|observed| (observed, queue.idempotency(observed.as_str())));
    for (_, counter) in &counters {
        counter.increment(0);
    }
    Arc::new(move |observed| {
        if let Some((_, counter)) = counters.iter().find(|(it, _)| *it == observed) {
            counter.increment(1);
        }
    })
}

/// The handler of a queue, for which the table says what is done.
pub(crate) async fn around(
    handler: Arc<dyn Handler>,
    queue: &QueueConfig,
    config: &IdempotencyConfig,
    connections: &Connections,
) -> Arc<dyn Handler> {
    let store = store(queue, config, connections).await;
    let count = counting(&queue.name);
    let observer = Arc::clone(&count);
    let mut builder = Idempotency::builder(store.clone(), prefix(queue, config))
        .observe(move |observed| observer(observed))
        .lease(config.lease)
        .expires_after(config.expires_after)
        .on_unknown(config.on_unknown)
        .on_missing_key(config.on_missing_key);
    if let Some(path) = &config.key {
        builder = builder.key(path);
    }
    if let Some(path) = &config.validate {
        builder = builder.validate(path);
    }
    match builder.build() {
        Ok(idempotency) => Arc::new(Once {
            handler,
            store,
            idempotency,
            count,
            has_key: config.key.is_some(),
            needs_key: config.on_missing_key == OnMissingKey::Error,
        }),
        // The configuration was checked with the same rules.
        Err(error) => Arc::new(Invalid(error.to_string())),
    }
}

/// Checks the table of a queue. Returns whether it deletes expired records itself, if that is known.
pub(crate) async fn check(
    queue: &QueueConfig,
    config: &IdempotencyConfig,
    connections: &Connections,
) -> Result<Option<bool>, TableError> {
    store(queue, config, connections).await.check().await
}

/// The result of a message's work, and any result that others stored for the same work.
#[derive(Debug)]
struct Done;

impl Serialize for Done {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Done {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// What the table or its client answers about one record: it cannot be read, or is not a valid one.
const ABOUT_ONE_RECORD: [&str; 3] = [
    "InvalidRecord",
    "ItemCollectionSizeLimitExceededException",
    "ValidationException",
];

/// Does the work of a message unless the table says that it is done.
struct Once {
    handler: Arc<dyn Handler>,
    store: DynamoStore,
    idempotency: Idempotency,
    count: Arc<Count>,
    has_key: bool,
    needs_key: bool,
}

backstop_core::shown!(Once, once => handler = once.handler, store = once.store);

#[async_trait]
impl Handler for Once {
    async fn handle(&self, message: &Message) -> Result<(), Error> {
        self.handle_shared(Arc::new(message.clone())).await
    }

    async fn handle_shared(&self, message: Arc<Message>) -> Result<(), Error> {
        let work = || async {
            let handled = self.handler.handle_shared(Arc::clone(&message)).await;
            handled.map(|()| Done)
        };
        let done = if self.has_key {
            match Event::parse(&message.body) {
                Ok(event) => self.idempotency.once_for(&event, work).await,
                Err(_) if !self.needs_key => return work().await.map(|Done| ()),
                Err(error) => {
                    (self.count)(Observed::Refused);
                    Err(OnceError::Key(error.into()))
                }
            }
        } else {
            self.idempotency.once(&message.id, work).await
        };
        match done {
            Ok(done) => {
                if done.repeated {
                    tracing::info!("message-id" = message.id, "the work was done before");
                }
                Ok(())
            }
            // Without an answer of the table, the worker has not seen the message. What the table answers about one record is that message's alone.
            Err(OnceError::Store(store)) => {
                let is_about_record = ABOUT_ONE_RECORD.contains(&store.error.code.as_str());
                let mut error = Error::from(OnceError::Store(store));
                error.unavailable = !is_about_record;
                Err(error)
            }
            // Somebody did the work whose result is not stored. A queue needs none.
            Err(OnceError::ResultNotStored { .. }) => {
                tracing::info!("message-id" = message.id, "the work was done before");
                Ok(())
            }
            // A receive before the end of the lease would cost the queue's own limit of receives.
            Err(OnceError::InProgress { left }) => {
                let error = Error::from(OnceError::InProgress { left });
                Err(error.retry_after(Milliseconds::from_duration(left)))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn has_ended(&self, error: &Error) -> bool {
        self.handler.has_ended(error)
    }

    async fn check(&self) -> Result<(), Error> {
        self.handler.check().await?;
        match self.store.check().await {
            // Reading and writing may be allowed although the description is not.
            Ok(_) | Err(TableError::NotDescribed { .. }) => Ok(()),
            Err(error) => Err(Error::new("IdempotencyTable", error.to_string())),
        }
    }

    async fn is_reachable(&self) -> Result<(), Error> {
        self.handler.is_reachable().await?;
        match self.store.check().await {
            Ok(_) | Err(TableError::NotDescribed { .. }) => Ok(()),
            Err(error) => Err(Error::new("IdempotencyTable", error.to_string())),
        }
    }
}

/// A handler that fails its check.
#[derive(Debug)]
struct Invalid(String);

#[async_trait]
impl Handler for Invalid {
    async fn handle(&self, _: &Message) -> Result<(), Error> {
        self.check().await
    }

    async fn check(&self) -> Result<(), Error> {
        Err(Error::new("Idempotency", &self.0))
    }
}
