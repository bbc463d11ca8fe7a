//! DynamoDB: an item is written.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType,
    ScalarAttributeType,
};
use backstop_retry::Policy;
use backstop_tests::emulator::ministack;
use backstop_tests::proxy::Fault;

use super::{Service, aws_policy, unique, without_retries};

pub(crate) struct DynamoDb {
    client: Client,
    table: String,
}

impl DynamoDb {
    async fn put(&self, key: &str) -> Result<(), SdkError<PutItemError>> {
        let value = AttributeValue::S("a-1".to_owned());
        let request = self.client.put_item().table_name(&self.table);
        request.item(key, value).send().await.map(drop)
    }
}

impl Service for DynamoDb {
    type Error = SdkError<PutItemError>;

    const THROTTLED: (Fault, &str, u16) = (
        Fault::refused(400, "ProvisionedThroughputExceededException"),
        "ProvisionedThroughputExceededException",
        400,
    );
    const FAILED: (Fault, &str, u16) = (
        Fault::refused(500, "InternalServerError"),
        "InternalServerError",
        500,
    );
    const REFUSED: (&str, u16) = ("ValidationException", 400);

    fn policy(attempts: u32) -> Arc<dyn Policy> {
        aws_policy(attempts)
    }

    async fn prepare() -> Self {
        let client = Client::new(&without_retries(&ministack().endpoint).await);
        let table = format!("articles-{}", unique());
        let key = AttributeDefinition::builder().attribute_name("id");
        let key = key.attribute_type(ScalarAttributeType::S).build().unwrap();
        let schema = KeySchemaElement::builder().attribute_name("id");
        let schema = schema.key_type(KeyType::Hash).build().unwrap();
        let request = client.create_table().table_name(&table);
        let request = request.attribute_definitions(key).key_schema(schema);
        let request = request.billing_mode(BillingMode::PayPerRequest);
        request.send().await.unwrap();
        Self { client, table }
    }

    fn upstream(&self) -> String {
        ministack().endpoint.clone()
    }

    async fn connect(&mut self, endpoint: &str) {
        self.client = Client::new(&without_retries(endpoint).await);
    }

    async fn call(&self) -> Result<(), Self::Error> {
        self.put("id").await
    }

    /// An item without its key.
    async fn refused(&self) -> Result<(), Self::Error> {
        self.put("title").await
    }
}
