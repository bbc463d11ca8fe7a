//! Policies in S3.

mod client;

use aws_config::SdkConfig;
use tokio::sync::OnceCell;

pub use self::client::{Bucket, BucketError, Object};
use super::fetched::FetchedFile;

/// Creates the client of S3 on first use.
#[derive(Debug)]
pub(super) struct S3 {
    endpoint: Option<String>,
    sdk: Option<SdkConfig>,
    client: OnceCell<Bucket>,
}

impl S3 {
    /// S3, at `endpoint` if one is given.
    pub(super) fn new(endpoint: Option<String>, sdk: Option<SdkConfig>) -> Self {
        Self {
            endpoint,
            sdk,
            client: OnceCell::new(),
        }
    }

    /// The object and its signature, unless the object still has the entity tag `tag`.
    pub(super) async fn fetch(
        &self,
        (bucket, key): (&str, &str),
        tag: Option<&str>,
        with_signature: bool,
        most: usize,
    ) -> Result<Option<FetchedFile>, BucketError> {
        let client = self.client().await;
        let Some(object) = client.get(bucket, key, tag, most).await? else {
            return Ok(None);
        };
        let signature = if with_signature {
            client.signature(bucket, key).await?
        } else {
            None
        };
        Ok(Some(FetchedFile::new(object.file, signature, object.etag)))
    }

    /// The client. The first call looks up the credentials.
    pub(super) async fn client(&self) -> &Bucket {
        self.client
            .get_or_init(|| async {
                let sdk = match &self.sdk {
                    Some(sdk) => sdk.clone(),
                    None => {
                        let version = aws_config::BehaviorVersion::latest();
                        let mut loader = aws_config::defaults(version);
                        if let Some(endpoint) = &self.endpoint {
                            loader = loader.endpoint_url(endpoint);
                        }
                        loader.load().await
                    }
                };
                let has_endpoint = sdk.endpoint_url().is_some()
                    || std::env::var_os("AWS_ENDPOINT_URL_S3").is_some();
                Bucket::new(&sdk, has_endpoint)
            })
            .await
    }
}
