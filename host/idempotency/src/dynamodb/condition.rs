//! The conditions of the four operations.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use super::attributes::Attributes;
use crate::store::{Claim, Completion, Renewal};

pub(super) const IN_PROGRESS: &str = "INPROGRESS";
pub(super) const COMPLETED: &str = "COMPLETED";
/// Powertools refuses a record with a status that it does not know: neither library returns a result that nobody returned, or runs the work again.
pub(super) const NOT_STORED: &str = "COMPLETED_RESULT_NOT_STORED";

/// A condition, with its names and values and those of the update.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) text: &'static str,
    pub(super) names: HashMap<String, String>,
    pub(super) values: HashMap<String, AttributeValue>,
}

/// Nobody has the key; or its record has expired, or its lease is over; or the claim is there already. A claim that arrives once more, late, changes neither work that is done nor a lease that was renewed.
const CLAIM: &str = "attribute_not_exists(#id) OR #expires < :now OR (#status = :in_progress AND attribute_exists(#lease) AND #lease < :now_ms) OR (#owner = :owner AND #status = :in_progress AND #lease <= :lease)";

/// As above, but what is in progress stays.
const CLAIM_OF_KNOWN: &str = "attribute_not_exists(#id) OR (#expires < :now AND #status <> :in_progress) OR (#owner = :owner AND #status = :in_progress AND #lease <= :lease)";

impl Condition {
    fn new(
        text: &'static str,
        names: &[(&str, &str)],
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> Self {
        let name = |(name, attribute): &(&str, &str)| ((*name).to_owned(), (*attribute).to_owned());
        let values = values.into_iter();
        Self {
            text,
            names: names.iter().map(name).collect(),
            values: values.map(|(name, it)| (name.to_owned(), it)).collect(),
        }
    }

    pub(super) fn claim(attributes: &Attributes, claim: &Claim<'_>) -> Self {
        let mut condition = Self::new(
            CLAIM_OF_KNOWN,
            &[
                ("#id", &attributes.key),
                ("#expires", &attributes.expiration),
                ("#status", &attributes.status),
                ("#owner", &attributes.owner),
                ("#lease", &attributes.in_progress_expiration),
            ],
            [
                (":now", number(claim.now.0 / 1_000)),
                (":in_progress", string(IN_PROGRESS)),
                (":owner", string(claim.owner)),
                (":lease", number(claim.lease_until.0)),
            ],
        );
        if claim.take_over {
            condition.text = CLAIM;
            let now = number(claim.now.0);
            condition.values.insert(":now_ms".to_owned(), now);
        }
        condition
    }

    pub(super) fn renewal(attributes: &Attributes, renewal: &Renewal<'_>) -> Self {
        Self::new(
            "#owner = :owner AND #status = :in_progress AND #lease < :lease",
            &[
                ("#owner", &attributes.owner),
                ("#status", &attributes.status),
                ("#lease", &attributes.in_progress_expiration),
                ("#expires", &attributes.expiration),
            ],
            [
                (":owner", string(renewal.owner)),
                (":in_progress", string(IN_PROGRESS)),
                (":lease", number(renewal.lease_until.0)),
                (":expires", number(renewal.expires)),
            ],
        )
    }

    pub(super) fn completion(
        attributes: &Attributes,
        completion: &Completion<'_>,
        data: AttributeValue,
    ) -> Self {
        let status = match completion.result {
            Ok(_) => COMPLETED,
            Err(_) => NOT_STORED,
        };
        Self::new(
            "#owner = :owner",
            &[
                ("#owner", &attributes.owner),
                ("#status", &attributes.status),
                ("#expires", &attributes.expiration),
                ("#data", &attributes.data),
            ],
            [
                (":owner", string(completion.owner)),
                (":status", string(status)),
                (":expires", number(completion.expires)),
                (":data", data),
            ],
        )
    }

    pub(super) fn release(attributes: &Attributes, owner: &str) -> Self {
        Self::new(
            "#owner = :owner AND #status = :in_progress",
            &[
                ("#owner", &attributes.owner),
                ("#status", &attributes.status),
            ],
            [
                (":owner", string(owner)),
                (":in_progress", string(IN_PROGRESS)),
            ],
        )
    }
}

pub(super) fn string(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub(super) fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}
