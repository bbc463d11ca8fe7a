//! Faults that are planted to check the checker: what faulty owners would do to the table and to their callers.

use std::time::Duration;

use async_trait::async_trait;
use backstop_idempotency::RecordFormat;
use backstop_idempotency::store::{
    Claim, Claimed, Completion, Record, Renewal, Status, Store, StoreError,
};

/// A fault of all owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Every claim succeeds, whoever has the key.
    IgnoresOthers,
    /// A lease is over before it is.
    TakesOverEarly,
    /// A lease is never over.
    HasLongLeases,
    NeverRenews,
    NeverCompletes,
    NeverReleases,
    /// Work that is done is forgotten at once.
    ReleasesWhatIsDone,
    ForgetsEarly,
    ReturnsAnother,
    InventsResults,
    ReleasesAtRenewal,
    AsksTooOften,
}

pub(crate) const ALL: [Planted; 12] = [
    Planted::IgnoresOthers,
    Planted::TakesOverEarly,
    Planted::HasLongLeases,
    Planted::NeverRenews,
    Planted::NeverCompletes,
    Planted::NeverReleases,
    Planted::ReleasesWhatIsDone,
    Planted::ForgetsEarly,
    Planted::ReturnsAnother,
    Planted::InventsResults,
    Planted::ReleasesAtRenewal,
    Planted::AsksTooOften,
];

/// A store in the hands of an owner, which may be faulty.
#[derive(Debug)]
pub(crate) struct Spoilt<S>(pub(crate) Option<Planted>, pub(crate) S);

impl<S: Store> Spoilt<S> {
    fn is(&self, planted: Planted) -> bool {
        self.0 == Some(planted)
    }
}

#[async_trait]
impl<S: Store> Store for Spoilt<S> {
    fn format(&self) -> RecordFormat {
        self.1.format()
    }

    async fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let mut claim = *claim;
        if self.is(Planted::TakesOverEarly) {
            claim.now = claim.now.plus(Duration::from_secs(25));
        }
        if self.is(Planted::HasLongLeases) {
            claim.lease_until = claim.lease_until.plus(Duration::from_secs(86_400));
        }
        if self.is(Planted::AsksTooOften) {
            for _ in 0..100 {
                let _ = self.1.claim(&claim).await;
            }
        }
        let claimed = self.1.claim(&claim).await?;
        Ok(match claimed {
            Claimed::No(_) if self.is(Planted::IgnoresOthers) => Claimed::Yes { taken_over: false },
            Claimed::No(record) if self.is(Planted::InventsResults) => {
                let result = Some(r#""no result""#.to_owned());
                let status = Status::Completed;
                Claimed::No(Record {
                    status,
                    result,
                    ..record
                })
            }
            claimed => claimed,
        })
    }

    async fn renew(&self, renewal: &Renewal<'_>) -> Result<bool, StoreError> {
        match self.0 {
            Some(Planted::NeverRenews) => Ok(true),
            Some(Planted::ReleasesAtRenewal) => {
                self.1.release(renewal.key, renewal.owner).await?;
                Ok(true)
            }
            _ => self.1.renew(renewal).await,
        }
    }

    async fn complete(&self, completion: &Completion<'_>) -> Result<bool, StoreError> {
        match self.0 {
            Some(Planted::NeverCompletes) => Ok(true),
            Some(Planted::ReleasesWhatIsDone) => {
                self.1.release(completion.key, completion.owner).await?;
                Ok(true)
            }
            Some(Planted::ForgetsEarly) => {
                let expires = completion.expires - 50;
                self.1
                    .complete(&Completion {
                        expires,
                        ..*completion
                    })
                    .await
            }
            _ => self.1.complete(completion).await,
        }
    }

    async fn release(&self, key: &str, owner: &str) -> Result<(), StoreError> {
        if self.is(Planted::NeverReleases) {
            return Ok(());
        }
        self.1.release(key, owner).await
    }
}
