//! Batch delivery to SQS and DynamoDB, against emulators behind a proxy that fails in every way.

mod dynamodb;
mod sqs;
