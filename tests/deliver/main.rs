//! Batch delivery to SQS and DynamoDB, against emulators behind a proxy that fails in every way.

mod command;
mod dynamodb;
mod sqs;
