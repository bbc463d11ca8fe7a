//! Batch delivery to SQS, DynamoDB and Firehose, against emulators behind a proxy that fails in every way.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that can't go on fails"
)]

mod command;
mod dynamodb;
mod firehose;
mod million;
mod sqs;
