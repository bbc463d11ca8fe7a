//! A store in memory for tests, with the conditions of the one in DynamoDB.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;
use backstop_core::idempotency::RecordFormat;
use backstop_core::lock::lock;

use crate::store::{Claim, Claimed, Completion, Record, Renewal, Status, Store, StoreError};

/// Records in memory, with the conditions of the store in DynamoDB. For tests: another process does not see them.
///
/// ```
/// use backstop_idempotency::{Idempotency, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let idempotency = Idempotency::builder(MemoryStore::default(), "payments").build()?;
/// for repeated in [false, true] {
///     let charged = idempotency.once("o-7", || async { Ok::<_, std::io::Error>(250) }).await?;
///     assert_eq!((charged.result, charged.repeated), (250, repeated));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct MemoryStore {
    format: RecordFormat,
    records: Mutex<HashMap<String, Record>>,
}

impl MemoryStore {
    /// An empty store with records of this format.
    ///
    /// ```
    /// use backstop_idempotency::{Idempotency, MemoryStore, RecordFormat};
    ///
    /// // The same key in a table of Powertools for Python and in one of TypeScript.
    /// let key = |format| -> Result<String, Box<dyn std::error::Error>> {
    ///     let idempotency = Idempotency::builder(MemoryStore::new(format), "orders").build()?;
    ///     Ok(idempotency.key_for(&7)?.unwrap().as_str().to_owned())
    /// };
    /// assert_eq!(key(RecordFormat::Python)?, "orders#8f14e45fceea167a5a36dedd4bea2543");
    /// assert_eq!(key(RecordFormat::TypeScript)?, "orders#jxTkX87qFnpaNt7dS+olQw==");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(format: RecordFormat) -> Self {
        Self {
            format,
            records: Mutex::default(),
        }
    }

    /// The record with this key.
    pub fn get(&self, key: &str) -> Option<Record> {
        self.records().get(key).cloned()
    }

    /// The keys of all records.
    pub fn keys(&self) -> Vec<String> {
        self.records().keys().cloned().collect()
    }

    /// Writes a record without any condition, as Powertools does.
    pub fn put(&self, key: &str, record: Record) {
        self.records().insert(key.to_owned(), record);
    }

    /// Deletes a record without any condition, as Powertools and the table's time to live do.
    pub fn delete(&self, key: &str) {
        self.records().remove(key);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<String, Record>> {
        lock(&self.records)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn format(&self) -> RecordFormat {
        self.format
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let mut records = self.records();
        let mut taken_over = false;
        if let Some(record) = records.get(claim.key) {
            let in_progress = record.status == Status::InProgress;
            let is_owners = record.owner.as_deref() == Some(claim.owner)
                && in_progress
                && record.lease_until <= Some(claim.lease_until);
            let has_expired = record.expires < claim.now.0 / 1_000;
            let lease_is_over =
                in_progress && record.lease_until.is_some_and(|until| until < claim.now);
            let is_free = if claim.take_over {
                has_expired || lease_is_over
            } else {
                has_expired && !in_progress
            };
            if !is_free && !is_owners {
                return Ok(Claimed::No(record.clone()));
            }
            taken_over = in_progress && !is_owners;
        }
        let record = Record {
            status: Status::InProgress,
            expires: claim.expires,
            lease_until: Some(claim.lease_until),
            owner: Some(claim.owner.to_owned()),
            result: None,
            not_stored: None,
            validation: claim.validation.map(str::to_owned),
        };
        records.insert(claim.key.to_owned(), record);
        Ok(Claimed::Yes { taken_over })
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        let mut records = self.records();
        let record = owned(&mut records, renewal.key, renewal.owner);
        let Some(record) = record.filter(|it| it.status == Status::InProgress) else {
            return Ok(false);
        };
        if record.lease_until < Some(renewal.lease_until) {
            record.lease_until = Some(renewal.lease_until);
            record.expires = renewal.expires;
        }
        Ok(true)
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        let mut records = self.records();
        let Some(record) = owned(&mut records, completion.key, completion.owner) else {
            return Ok(false);
        };
        record.expires = completion.expires;
        record.status = match completion.result {
            Ok(_) => Status::Completed,
            Err(_) => Status::ResultNotStored,
        };
        record.result = completion.result.ok().map(str::to_owned);
        record.not_stored = completion.result.err().map(str::to_owned);
        Ok(true)
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        let mut records = self.records();
        if owned(&mut records, key, owner).is_some_and(|it| it.status == Status::InProgress) {
            records.remove(key);
        }
        Ok(())
    }
}

fn owned<'a>(
    records: &'a mut HashMap<String, Record>,
    key: &str,
    owner: &str,
) -> Option<&'a mut Record> {
    let record = records.get_mut(key);
    record.filter(|it| it.owner.as_deref() == Some(owner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_world::{SECOND, START};

    #[tokio::test]
    async fn a_claim_that_arrives_once_more_changes_neither_its_lease_nor_its_end() {
        let store = MemoryStore::default();
        let claim = |seconds: u32| Claim {
            key: "orders#7",
            owner: "one",
            now: START,
            lease_until: START.plus(seconds * SECOND),
            expires: 4_000_000_000,
            validation: None,
            take_over: true,
        };
        let taken = Claimed::Yes { taken_over: false };
        assert_eq!(store.claim(&claim(10)).await.unwrap(), taken);
        // The answer was lost.
        assert_eq!(store.claim(&claim(10)).await.unwrap(), taken);
        let renewal = Renewal {
            key: "orders#7",
            owner: "one",
            lease_until: START.plus(20 * SECOND),
            expires: 4_000_000_000,
        };
        assert!(store.renew(&renewal).await.unwrap());
        let late = store.claim(&claim(10)).await.unwrap();
        let record = store.get("orders#7").unwrap();
        assert_eq!(record.lease_until, Some(renewal.lease_until));
        assert_eq!(late, Claimed::No(record));
        let completion = Completion {
            key: "orders#7",
            owner: "one",
            expires: 4_000_000_000,
            result: Ok("7"),
        };
        assert!(store.complete(&completion).await.unwrap());
        for seconds in [10, 30] {
            let late = store.claim(&claim(seconds)).await.unwrap();
            let record = store.get("orders#7").unwrap();
            assert_eq!(record.status, Status::Completed);
            assert_eq!(late, Claimed::No(record));
        }
    }
}
