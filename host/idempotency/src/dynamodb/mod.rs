//! The store over DynamoDB (feature `dynamodb`): one conditional request for each operation.

mod attributes;
mod condition;
mod error;
mod item;
mod table;

use async_trait::async_trait;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure as Returned};
use backstop_core::idempotency::RecordFormat;

pub use attributes::Attributes;
pub use table::TableError;

use crate::store::{Claim, Claimed, Completion, Renewal, Store, StoreError};
use condition::{Condition, IN_PROGRESS};
use error::refusal;

/// Records in a table of DynamoDB.
///
/// ```no_run
/// use backstop_idempotency::{DynamoStore, Idempotency, RecordFormat};
///
/// # async fn example(config: &aws_sdk_dynamodb::Config) -> Result<(), Box<dyn std::error::Error>> {
/// let client = aws_sdk_dynamodb::Client::from_conf(config.clone());
/// let store = DynamoStore::new(client, "idempotency").format(RecordFormat::TypeScript);
/// store.check().await?;
/// let idempotency = Idempotency::builder(store, "payments").build()?;
/// # Ok(())
/// # }
/// ```
///
/// The client's own retries are turned off: a failed call goes to the caller's policy. [`client_retries`](Self::client_retries) leaves them on; they are safe, since each request can be sent twice.
#[derive(Debug, Clone)]
pub struct DynamoStore {
    client: Client,
    table: String,
    attributes: Attributes,
    format: RecordFormat,
    retries: Option<RetryConfig>,
}

impl DynamoStore {
    /// Records in this table, with the attributes and the format of Powertools for Python.
    pub fn new(client: Client, table: impl Into<String>) -> Self {
        Self {
            client,
            table: table.into(),
            attributes: Attributes::default(),
            format: RecordFormat::default(),
            retries: Some(RetryConfig::disabled()),
        }
    }

    /// Whose records these are.
    #[must_use]
    pub fn format(self, format: RecordFormat) -> Self {
        Self { format, ..self }
    }

    /// Other names of attributes, or a sort key.
    #[must_use]
    pub fn attributes(self, attributes: Attributes) -> Self {
        Self { attributes, ..self }
    }

    /// Leaves the retries of the client as they are configured.
    #[must_use]
    pub fn client_retries(self) -> Self {
        Self {
            retries: None,
            ..self
        }
    }

    /// The table's name.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// What the client's configuration is for one request.
    fn overrides(&self) -> aws_sdk_dynamodb::config::Builder {
        let mut overrides = aws_sdk_dynamodb::config::Builder::default();
        overrides.set_retry_config(self.retries.clone());
        overrides
    }
}

#[async_trait]
impl Store for DynamoStore {
    fn format(&self) -> RecordFormat {
        self.format
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let condition = Condition::claim(&self.attributes, claim);
        let answer = self
            .client
            .put_item()
            .table_name(&self.table)
            .set_item(Some(self.attributes.new_item(claim)))
            .condition_expression(condition.text)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .return_values(ReturnValue::AllOld)
            .return_values_on_condition_check_failure(Returned::AllOld)
            .customize()
            .config_override(self.overrides())
            .send()
            .await;
        let before = answer.as_ref().ok().and_then(|it| it.attributes.as_ref());
        let taken_over =
            before.is_some_and(|item| self.attributes.is_of_another(item, claim.owner));
        match refusal(answer)? {
            None => Ok(Claimed::Yes { taken_over }),
            Some(item) => {
                let record = self.attributes.record(self.format, &item)?;
                Ok(Claimed::No(record))
            }
        }
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        let condition = Condition::renewal(&self.attributes, renewal);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(self.attributes.primary_key(renewal.key)))
            .update_expression("SET #lease = :lease, #expires = :expires")
            .condition_expression(condition.text)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .return_values_on_condition_check_failure(Returned::AllOld)
            .customize()
            .config_override(self.overrides())
            .send()
            .await;
        match refusal(answer)? {
            None => Ok(true),
            // A lease that is longer already is ours all the same.
            Some(item) => Ok(self.attributes.is(&item, renewal.owner, IN_PROGRESS)),
        }
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        let data = match completion.result {
            Ok(text) => item::result(self.format, text)?,
            Err(reason) => condition::string(reason),
        };
        let condition = Condition::completion(&self.attributes, completion, data);
        let answer = self
            .client
            .update_item()
            .table_name(&self.table)
            .set_key(Some(self.attributes.primary_key(completion.key)))
            .update_expression("SET #status = :status, #expires = :expires, #data = :data")
            .condition_expression(condition.text)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .customize()
            .config_override(self.overrides())
            .send()
            .await;
        let refused = refusal(answer).map_err(|error| error::of_result(error, completion))?;
        Ok(refused.is_none())
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        let condition = Condition::release(&self.attributes, owner);
        let answer = self
            .client
            .delete_item()
            .table_name(&self.table)
            .set_key(Some(self.attributes.primary_key(key)))
            .condition_expression(condition.text)
            .set_expression_attribute_names(Some(condition.names))
            .set_expression_attribute_values(Some(condition.values))
            .customize()
            .config_override(self.overrides())
            .send()
            .await;
        refusal(answer).map(|_| ())
    }
}
