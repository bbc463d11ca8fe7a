//! Batch delivery to SQS, DynamoDB and Firehose, against emulators behind a proxy that fails in every way.

mod command;
mod dynamodb;
mod firehose;
mod million;
mod sqs;
