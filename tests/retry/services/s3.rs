//! S3: an object is read, with its body.

use std::sync::Arc;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::primitives::{ByteStream, ByteStreamError};
use backstop_retry::{Describe, Error, Policy};
use backstop_tests::emulator::ministack;
use backstop_tests::proxy::Fault;

use super::{Service, aws_policy, unique, without_retries};

pub(crate) struct S3 {
    client: Client,
    bucket: String,
}

/// The response may begin well and end badly.
#[derive(Debug)]
pub(crate) enum ReadError {
    Request(Box<SdkError<GetObjectError>>),
    Body(ByteStreamError),
}

impl Describe for ReadError {
    fn describe(&self) -> Error {
        match self {
            Self::Request(error) => error.describe(),
            Self::Body(error) => error.describe(),
        }
    }
}

impl S3 {
    async fn read(&self, key: &str) -> Result<(), ReadError> {
        let request = self.client.get_object().bucket(&self.bucket).key(key);
        let object = request.send().await;
        let object = object.map_err(|error| ReadError::Request(error.into()))?;
        object.body.collect().await.map_err(ReadError::Body)?;
        Ok(())
    }
}

async fn client(endpoint: &str) -> Client {
    let config = Builder::from(&without_retries(endpoint).await);
    Client::from_conf(config.force_path_style(true).build())
}

impl Service for S3 {
    type Error = ReadError;

    const THROTTLED: (Fault, &str, u16) = (Fault::refused(503, "SlowDown"), "SlowDown", 503);
    const FAILED: (Fault, &str, u16) = (Fault::refused(500, "InternalError"), "InternalError", 500);
    const REFUSED: (&str, u16) = ("NoSuchKey", 404);

    fn policy(attempts: u32) -> Arc<dyn Policy> {
        aws_policy(attempts)
    }

    async fn prepare() -> Self {
        let client = client(&ministack().endpoint).await;
        let bucket = format!("articles-{}", unique());
        client.create_bucket().bucket(&bucket).send().await.unwrap();
        let body = ByteStream::from_static(b"an article");
        let put = client.put_object().bucket(&bucket).key("a-1").body(body);
        put.send().await.unwrap();
        Self { client, bucket }
    }

    fn upstream(&self) -> String {
        ministack().endpoint.clone()
    }

    async fn connect(&mut self, endpoint: &str) {
        self.client = client(endpoint).await;
    }

    async fn call(&self) -> Result<(), Self::Error> {
        self.read("a-1").await
    }

    /// An object that does not exist.
    async fn refused(&self) -> Result<(), Self::Error> {
        self.read("a-2").await
    }
}
