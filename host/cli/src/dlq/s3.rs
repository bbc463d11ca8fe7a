//! Objects in S3 whose keys start with the same prefix: archives of JSON lines, and runs that operators share.

use std::io::{self, Cursor};
use std::path::Path;

use async_trait::async_trait;
use backstop_core::clock;
use backstop_dead_letters::ArchivedLetters;
use backstop_dead_letters::redrive::Objects;
use backstop_queue::Connections;
use backstop_versions::{Bucket, BucketError};

use crate::error::{Exit, Result};

/// The largest object that is read back, in bytes.
const OBJECT_BYTES: usize = 128 << 20;

/// The most objects of one archive.
const OBJECTS: usize = 100_000;

/// The most objects of one run: the parts of its journal.
const RUN_OBJECTS: usize = 1_000_000;

/// The most runs.
const RUNS: usize = 10_000;

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

    /// Keeps the names of objects apart from those of a longer prefix.
    pub(super) fn end_with_slash(&mut self) {
        if !self.prefix.is_empty() && !self.prefix.ends_with('/') {
            self.prefix.push('/');
        }
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

#[async_trait]
impl Objects for Prefix {
    fn url(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }

    async fn create(&self, name: &str, content: Vec<u8>) -> io::Result<bool> {
        let key = format!("{}{name}", self.prefix);
        let created = self.client.create(&self.bucket, &key, content).await;
        created.map_err(as_io)
    }

    async fn read(&self, name: &str, most: usize) -> io::Result<Vec<u8>> {
        let key = format!("{}{name}", self.prefix);
        let object = self.client.get(&self.bucket, &key, None, most).await;
        Ok(object.map_err(as_io)?.map(|it| it.file).unwrap_or_default())
    }

    async fn folders(&self) -> io::Result<Vec<String>> {
        let (client, bucket, prefix) = (&self.client, &self.bucket, &self.prefix);
        let folders = client.folders(bucket, prefix, RUNS).await.map_err(as_io)?;
        let names = folders.iter().filter_map(|folder| {
            let name = folder.strip_prefix(prefix)?.strip_suffix('/')?;
            Some(name.to_owned())
        });
        Ok(names.collect())
    }

    async fn names(&self, folder: &str) -> io::Result<Vec<String>> {
        let prefix = format!("{}{folder}/", self.prefix);
        let keys = self.client.keys(&self.bucket, &prefix, RUN_OBJECTS).await;
        let keys = keys.map_err(as_io)?.into_iter();
        let names = keys.filter_map(|key| key.strip_prefix(&prefix).map(str::to_owned));
        Ok(names.collect())
    }
}

fn as_io(error: BucketError) -> io::Error {
    let kind = match error {
        BucketError::NotFound { .. } => io::ErrorKind::NotFound,
        BucketError::Unreachable { .. }
        | BucketError::Denied { .. }
        | BucketError::Refused { .. }
        | BucketError::TooLarge { .. } => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
