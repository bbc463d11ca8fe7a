//! The S3 client: one object is the policy's file, and the object `KEY.minisig` its signature.

use std::fmt;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::Builder;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::primitives::ByteStream;

use crate::signature::{LONGEST, SIGNATURE_SUFFIX};
use backstop_aws::{Endpoint, NO_CREDENTIALS, NoResponse, ResponseLimit, is_configuration_error};
use backstop_core::text::{chain, one_line};

/// The time limit for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit for a request with its retries, and for reading an object.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of S3. Clones share its connections.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    endpoint: Endpoint,
}

/// An object.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// The entity tag of this version of the object.
    pub etag: Option<String>,
    /// Its content.
    pub file: Vec<u8>,
}

/// Why an object can't be read or written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BucketError {
    /// Unreachable, too slow, failing or overloaded, or without credentials at the moment: another try may succeed.
    #[error("can't reach {object}: {reason}")]
    Unreachable {
        /// The object's URL.
        object: String,
        /// What happened.
        reason: String,
    },
    /// No such bucket or no such key.
    #[error("there is no {object}: {reason}")]
    NotFound {
        /// The object's URL.
        object: String,
        /// S3's message.
        reason: String,
    },
    /// The credentials are not allowed to.
    #[error(
        "access to {object} is denied: {reason}; without the permission s3:ListBucket, S3 answers the same for a key that does not exist"
    )]
    Denied {
        /// The object's URL.
        object: String,
        /// S3's message.
        reason: String,
    },
    /// Rejected for another reason.
    #[error("{object} is rejected: {reason}")]
    Refused {
        /// The object's URL.
        object: String,
        /// Why.
        reason: String,
    },
    /// Over the limit.
    #[error("{object} has more bytes than the limit of {most}")]
    TooLarge {
        /// The object's URL.
        object: String,
        /// The limit.
        most: usize,
    },
}

impl BucketError {
    /// Whether another try may succeed: S3 could not be reached, took too long, failed or was overloaded.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

impl Bucket {
    /// A client with these credentials, region and endpoint. `path_style` puts the bucket's name into the path instead of the host name, which services other than AWS expect.
    pub fn new(sdk: &SdkConfig, path_style: bool) -> Self {
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .operation_timeout(REQUEST_TIMEOUT)
            .build();
        let mut config = Builder::from(sdk)
            .timeout_config(timeouts)
            .force_path_style(path_style);
        config.push_interceptor(ResponseLimit::S3.into());
        Self {
            client: Client::from_conf(config.build()),
            endpoint: Endpoint::of("S3", sdk),
        }
    }

    /// Reads an object. `None` if it still has this `etag`. An object of more than `most` bytes is an error, before it is read.
    pub async fn get(
        &self,
        bucket: &str,
        key: &str,
        etag: Option<&str>,
        most: usize,
    ) -> Result<Option<Object>, BucketError> {
        let request = self.client.get_object().bucket(bucket).key(key);
        let answer = match request
            .set_if_none_match(etag.map(str::to_owned))
            .send()
            .await
        {
            Ok(answer) => answer,
            Err(error) if is_unchanged(&error) => return Ok(None),
            Err(error) => return Err(self.failed(bucket, key, &error)),
        };
        let unreachable = |reason: String| BucketError::Unreachable {
            object: url(bucket, key),
            reason,
        };
        let etag = answer.e_tag().map(str::to_owned);
        let file = tokio::time::timeout(REQUEST_TIMEOUT, read(answer, most))
            .await
            .map_err(|_| unreachable(format!("it took more than {}s", REQUEST_TIMEOUT.as_secs())))?
            .map_err(unreachable)?
            .ok_or_else(|| BucketError::TooLarge {
                object: url(bucket, key),
                most,
            })?;
        Ok(Some(Object { etag, file }))
    }

    /// Writes an object, unless there is one with this key. Returns whether it was written.
    pub async fn create(
        &self,
        bucket: &str,
        key: &str,
        file: Vec<u8>,
    ) -> Result<bool, BucketError> {
        let request = self.client.put_object().bucket(bucket).key(key);
        let answer = request
            .content_type(content_type(key))
            .if_none_match("*")
            .body(ByteStream::from(file))
            .send()
            .await;
        match answer {
            Ok(_) => Ok(true),
            // 409: another one is being written at the same time.
            Err(error) if matches!(status(&error), Some(409 | 412)) => Ok(false),
            Err(error) => Err(self.failed(bucket, key, &error)),
        }
    }

    /// Writes an object. Returns its entity tag, if S3 sends one.
    pub async fn put(
        &self,
        bucket: &str,
        key: &str,
        file: Vec<u8>,
    ) -> Result<Option<String>, BucketError> {
        let request = self.client.put_object().bucket(bucket).key(key);
        let answer = request
            .content_type(content_type(key))
            .body(ByteStream::from(file))
            .send()
            .await
            .map_err(|error| self.failed(bucket, key, &error))?;
        Ok(answer.e_tag().map(str::to_owned))
    }

    /// The keys that start with `prefix`, in their order. More than `most` are an error.
    pub async fn keys(
        &self,
        bucket: &str,
        prefix: &str,
        most: usize,
    ) -> Result<Vec<String>, BucketError> {
        self.list(bucket, prefix, None, most).await
    }

    /// The beginnings up to the next slash of the keys that start with `prefix`. More than `most` are an error.
    pub async fn folders(
        &self,
        bucket: &str,
        prefix: &str,
        most: usize,
    ) -> Result<Vec<String>, BucketError> {
        self.list(bucket, prefix, Some("/"), most).await
    }

    /// The keys, or with a delimiter what they have in common up to there.
    async fn list(
        &self,
        bucket: &str,
        prefix: &str,
        delimiter: Option<&str>,
        most: usize,
    ) -> Result<Vec<String>, BucketError> {
        let mut keys = Vec::new();
        let mut token = None;
        loop {
            let request = self.client.list_objects_v2().bucket(bucket).prefix(prefix);
            let request = request.set_delimiter(delimiter.map(str::to_owned));
            let answer = request
                .set_continuation_token(token)
                .send()
                .await
                .map_err(|error| self.failed(bucket, prefix, &error))?;
            if delimiter.is_some() {
                let folders = answer.common_prefixes.unwrap_or_default();
                keys.extend(folders.into_iter().filter_map(|folder| folder.prefix));
            } else {
                let objects = answer.contents.unwrap_or_default();
                keys.extend(objects.into_iter().filter_map(|object| object.key));
            }
            if keys.len() > most {
                return Err(BucketError::Refused {
                    object: url(bucket, prefix),
                    reason: format!("more than {most} objects have keys that start like this"),
                });
            }
            token = answer.next_continuation_token;
            if token.is_none() {
                return Ok(keys);
            }
        }
    }

    fn failed<E>(&self, bucket: &str, key: &str, error: &SdkError<E>) -> BucketError
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let object = url(bucket, key);
        if let Some(NoResponse { code, text, .. }) = self.endpoint.no_response(error) {
            let reason = one_line(&text);
            // Credentials may be available later; the environment does not change.
            return if is_configuration_error(code) && code != NO_CREDENTIALS {
                BucketError::Refused { object, reason }
            } else {
                BucketError::Unreachable { object, reason }
            };
        }
        let reason = match (error.code(), error.message()) {
            (Some(code), Some(message)) => format!("{code}: {message}"),
            (Some(code), None) => code.to_owned(),
            (None, _) => chain(error),
        };
        let reason = one_line(&reason);
        match status(error).unwrap_or_default() {
            404 => BucketError::NotFound { object, reason },
            401 | 403 => BucketError::Denied { object, reason },
            408 | 429 | 500.. => BucketError::Unreachable { object, reason },
            _ => BucketError::Refused { object, reason },
        }
    }

    /// The text of an object's signature, if there is one.
    pub async fn signature(&self, bucket: &str, key: &str) -> Result<Option<String>, BucketError> {
        let key = signature_of(key);
        match self.get(bucket, &key, None, LONGEST).await {
            // Content that is not text is refused when it is verified.
            Ok(found) => Ok(found.map(|it| String::from_utf8_lossy(&it.file).into_owned())),
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("etag", &self.etag)
            .field("bytes", &self.file.len())
            .finish()
    }
}

/// By the end of the key.
fn content_type(key: &str) -> &'static str {
    if key.ends_with(SIGNATURE_SUFFIX) {
        "text/plain"
    } else if key.ends_with(".jsonl") {
        "application/x-ndjson"
    } else {
        "application/wasm"
    }
}

/// The key of the signature of the object with this key.
fn signature_of(key: &str) -> String {
    format!("{key}{SIGNATURE_SUFFIX}")
}

fn url(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

fn is_unchanged<E>(error: &SdkError<E>) -> bool {
    status(error) == Some(304)
}

fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|answer| answer.status().as_u16())
}

/// The content of an object. `None` if it has more than `most` bytes.
async fn read(answer: GetObjectOutput, most: usize) -> Result<Option<Vec<u8>>, String> {
    let is_too_large = |length: usize| length > most;
    let declared = answer
        .content_length()
        .and_then(|it| usize::try_from(it).ok());
    if declared.is_some_and(is_too_large) {
        return Ok(None);
    }
    let mut body = answer.body;
    let mut file = Vec::with_capacity(declared.unwrap_or_default());
    while let Some(chunk) = body.try_next().await.map_err(|error| chain(&error))? {
        file.extend_from_slice(&chunk);
        if is_too_large(file.len()) {
            return Ok(None);
        }
    }
    Ok(Some(file))
}
