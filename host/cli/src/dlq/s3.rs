//! Archives in S3: objects of JSON lines whose keys start with the same prefix.

use std::io::Cursor;
use std::path::Path;

use backstop_core::clock;
use backstop_dead_letters::ArchivedLetters;
use backstop_queue::Connections;
use backstop_versions::{Bucket, BucketError};

use crate::error::{Exit, Result};

/// The largest object that is read back, in bytes.
const OBJECT_BYTES: usize = 128 << 20;

/// The most objects of one archive.
const OBJECTS: usize = 100_000;

/// A bucket and the beginning of keys in it.
#[derive(Debug)]
pub(super) struct Prefix {
    client: Bucket,
    bucket: String,
    prefix: String,
}

impl Prefix {
    /// `s3://bucket/prefix`; `None` if it is something else. Sends no request.
    pub(super) async fn parse(text: &str, connections: &Connections) -> Result<Option<Self>> {
        let Some(address) = text.strip_prefix("s3://") else {
            return Ok(None);
        };
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        if bucket.is_empty() {
            return Err(
                Exit::Usage.because(format!("{text} has no bucket: expected s3://bucket/prefix"))
            );
        }
        let sdk = connections.sdk().await;
        let has_endpoint =
            sdk.endpoint_url().is_some() || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some();
        Ok(Some(Self {
            client: Bucket::new(sdk, has_endpoint),
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
        }))
    }

    /// A name for the objects of this process, which no other archive has.
    pub(super) fn run_name(queue: &str) -> String {
        let time = clock::now().rfc3339().replace(':', "");
        let name = queue.rsplit(['/', ':']).next().unwrap_or_default();
        format!("{name}-{time}-{}", std::process::id())
    }

    /// Writes lines as a new object. They are safe when this returns.
    pub(super) async fn store(
        &self,
        run: &str,
        number: usize,
        lines: &[String],
    ) -> Result<(), BucketError> {
        let key = format!("{}{run}-{number:06}.jsonl", self.prefix);
        let file = lines.concat().into_bytes();
        self.client.put(&self.bucket, &key, file).await?;
        Ok(())
    }

    /// The keys of all objects.
    pub(super) async fn keys(&self) -> Result<Vec<String>, BucketError> {
        let keys = self
            .client
            .keys(&self.bucket, &self.prefix, OBJECTS)
            .await?;
        let is_archive = |key: &String| key.ends_with(".jsonl");
        Ok(keys.into_iter().filter(is_archive).collect())
    }

    /// The letters of an object.
    pub(super) async fn read(&self, key: &str) -> Result<ArchivedLetters<Cursor<Vec<u8>>>> {
        let object = self
            .client
            .get(&self.bucket, key, None, OBJECT_BYTES)
            .await?;
        let file = object.map(|it| it.file).unwrap_or_default();
        let path = format!("s3://{}/{key}", self.bucket);
        Ok(ArchivedLetters::new(Cursor::new(file), Path::new(&path)))
    }
}
