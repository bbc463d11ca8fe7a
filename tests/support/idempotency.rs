//! A table for the records of idempotent work.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use backstop_core::clock;
use backstop_idempotency::{Attributes, DynamoStore, RecordFormat};

use crate::aws::config;

/// The sort key of a [`Records`] that has one.
pub const SORT_KEY: &str = "sk";

/// A table for one test.
#[derive(Debug, Clone)]
pub struct Records {
    /// The SDK's client, connected directly to the emulator.
    pub client: Client,
    /// The emulator.
    pub endpoint: String,
    /// The table's name.
    pub table: String,
    has_sort_key: bool,
}

impl Records {
    /// A table with the partition key `id`.
    pub async fn create(endpoint: &str) -> Self {
        Self::with_keys(endpoint, false).await
    }

    /// A table with the partition key `id` and the sort key `sk`.
    pub async fn with_sort_key(endpoint: &str) -> Self {
        Self::with_keys(endpoint, true).await
    }

    async fn with_keys(endpoint: &str, has_sort_key: bool) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let table = format!("records-{}-{number}", std::process::id());
        let client = Client::new(&config(endpoint).await);
        let mut request = client
            .create_table()
            .table_name(&table)
            .billing_mode(BillingMode::PayPerRequest);
        let keys = [("id", KeyType::Hash), (SORT_KEY, KeyType::Range)];
        for (attribute, key) in keys.into_iter().take(1 + usize::from(has_sort_key)) {
            let element = KeySchemaElement::builder().attribute_name(attribute);
            let definition = AttributeDefinition::builder().attribute_name(attribute);
            let definition = definition.attribute_type(ScalarAttributeType::S);
            request = request
                .key_schema(element.key_type(key).build().unwrap())
                .attribute_definitions(definition.build().unwrap());
        }
        request.send().await.unwrap();
        Self {
            client,
            endpoint: endpoint.to_owned(),
            table,
            has_sort_key,
        }
    }

    /// The store that a program would have.
    pub fn store(&self, format: RecordFormat) -> DynamoStore {
        self.store_of(self.client.clone(), format)
    }

    /// The same behind a proxy with this address.
    pub async fn store_behind(&self, endpoint: &str, format: RecordFormat) -> DynamoStore {
        self.store_of(Client::new(&config(endpoint).await), format)
    }

    fn store_of(&self, client: Client, format: RecordFormat) -> DynamoStore {
        let mut attributes = Attributes::default();
        attributes.sort_key = self.has_sort_key.then(|| SORT_KEY.to_owned());
        DynamoStore::new(client, &self.table)
            .format(format)
            .attributes(attributes)
    }

    /// The name of the sort key.
    pub fn sort_key(&self) -> Option<&'static str> {
        self.has_sort_key.then_some(SORT_KEY)
    }

    /// Lets a time pass for the records, which is to move them into the past, and deletes the expired ones, as the table's time to live does.
    pub async fn pass(&self, time: Duration) {
        for mut item in self.items().await {
            let mut moved = |attribute: &str, by: u64| {
                let time = item[attribute].as_n().unwrap().parse::<u64>().unwrap() - by;
                let value = AttributeValue::N(time.to_string());
                item.insert(attribute.to_owned(), value);
                time
            };
            let expires = moved("expiration", time.as_secs());
            moved("in_progress_expiration", time.as_secs() * 1_000);
            if expires < clock::now().0 / 1_000 {
                let delete = self.client.delete_item().table_name(&self.table);
                delete.key("id", item["id"].clone()).send().await.unwrap();
            } else {
                let put = self.client.put_item().table_name(&self.table);
                put.set_item(Some(item)).send().await.unwrap();
            }
        }
    }

    /// The records as they are in the table.
    pub async fn items(&self) -> Vec<HashMap<String, AttributeValue>> {
        let scan = self.client.scan().table_name(&self.table);
        let items = scan.into_paginator().items().send();
        items.collect::<Result<_, _>>().await.unwrap()
    }

    /// How many records there are with each status.
    pub async fn count(&self) -> std::collections::BTreeMap<String, usize> {
        let mut counts = std::collections::BTreeMap::new();
        for item in self.items().await {
            let status = item["status"].as_s().unwrap().clone();
            *counts.entry(status).or_default() += 1;
        }
        counts
    }
}
