//! A session with one registry: its requests. Every answer is read with a limit: blobs, manifests, tokens and error messages.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_core::lock::lock;
use oci_spec::distribution::Reference;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, WWW_AUTHENTICATE,
};
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use super::challenge::Challenge;
use super::credentials::{Login, credentials};
use super::error::{ErrorBody, RegistryError};
use super::layout::{self, Descriptor};
use super::trust::Trust;

/// The time limit for a connection.
const CONNECTING: Duration = Duration::from_secs(5);

/// The longest pause in the middle of an answer.
const SILENCE: Duration = Duration::from_secs(10);

/// The largest manifest, in bytes. Registries accept none that is larger.
const MANIFEST: usize = 4 << 20;

/// The largest answer of a token server, in bytes.
const TOKEN: usize = 256 << 10;

/// The most bytes of an error message that are read.
const ERROR: usize = 16 << 10;

/// The accepted types of manifests, including those that are only recognised for the error message.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// A session with one registry.
pub(super) struct Session {
    client: Client,
    /// The base URL, without a slash at the end: `https://registry.example.com`.
    pub(super) base: String,
    /// What the registry may lead to.
    pub(super) trust: Arc<Trust>,
    /// None for anonymous requests.
    login: Option<Login>,
    /// The authorization header for each repository and access.
    authorization: Mutex<Option<(String, Access, Option<HeaderValue>)>>,
}

/// The access to a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Pull,
    Push,
}

impl Access {
    /// Its name in the scope of a token.
    fn actions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// The answer of a token server. Both names are in use.
#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(alias = "access_token")]
    token: String,
}

impl Session {
    /// Looks up the credentials for the registry of this reference, and creates a client. Nothing is sent yet.
    pub(super) async fn open(
        reference: &Reference,
        is_plain: bool,
        token_servers: &Arc<Vec<String>>,
    ) -> Result<Self, RegistryError> {
        let scheme = if is_plain { "http" } else { "https" };
        let base = format!("{scheme}://{}", reference.resolve_registry());
        let url = Url::parse(&base).map_err(|error| {
            RegistryError::refused(reference, format!("`{base}` is not a URL: {error}"))
        })?;
        let trust = Arc::new(Trust::new(url, Arc::clone(token_servers)));
        let client = builder(&trust)
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| RegistryError::of(reference, error))?;
        Ok(Self {
            client,
            base,
            trust,
            login: credentials(reference.resolve_registry()).await,
            authorization: Mutex::default(),
        })
    }

    /// A client for uploads, without a time limit for reads: reqwest's limits include the time to send the body.
    pub(super) fn uploads(&self, reference: &Reference) -> Result<Client, RegistryError> {
        let uploads = builder(&self.trust).build();
        uploads.map_err(|error| RegistryError::of(reference, error))
    }

    /// The digest of the reference's manifest, as the registry reports it.
    pub(super) async fn digest(&self, reference: &Reference) -> Result<String, RegistryError> {
        let url = self.manifest_url(reference);
        let answer = self
            .request(Method::HEAD, &url, reference, Access::Pull)
            .await?;
        let named = answer.headers().get("docker-content-digest");
        if answer.status().is_success()
            && let Some(digest) = named.and_then(|it| it.to_str().ok())
            && layout::is_digest(digest)
        {
            return Ok(digest.to_owned());
        }
        // The answer to HEAD has no body that explains an error.
        Ok(layout::sha256(&self.manifest(reference).await?))
    }

    /// The manifest of the reference. Its digest is not verified.
    pub(super) async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, RegistryError> {
        let url = self.manifest_url(reference);
        let answer = self
            .request(Method::GET, &url, reference, Access::Pull)
            .await?;
        let answer = success(answer, reference).await?;
        let name = format!("the manifest of {reference}");
        read(answer, reference, &name, MANIFEST).await
    }

    /// The content of a layer, verified against its digest. A layer of more than `most` bytes is an error. The other URLs that a manifest may name are ignored.
    pub(super) async fn blob(
        &self,
        reference: &Reference,
        layer: &Descriptor,
        most: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        if !usize::try_from(layer.size).is_ok_and(|size| size <= most) {
            return Err(RegistryError::TooLarge {
                reference: reference.to_string(),
                size: layer.size,
                most,
            });
        }
        let (base, repository) = (&self.base, reference.repository());
        let url = format!("{base}/v2/{repository}/blobs/{}", layer.digest);
        let answer = self
            .request(Method::GET, &url, reference, Access::Pull)
            .await?;
        let answer = success(answer, reference).await?;
        let content = read(answer, reference, &reference.to_string(), most).await?;
        RegistryError::check_digest(reference, &layer.digest, &layout::sha256(&content))?;
        Ok(content)
    }

    pub(super) fn manifest_url(&self, reference: &Reference) -> String {
        let (base, repository) = (&self.base, reference.repository());
        let version = reference.digest().or_else(|| reference.tag());
        format!(
            "{base}/v2/{repository}/manifests/{}",
            version.unwrap_or("latest")
        )
    }

    /// Sends a request without a body. Returns the answer, whatever its status. An expired token is replaced once.
    pub(super) async fn request(
        &self,
        method: Method,
        url: &str,
        reference: &Reference,
        access: Access,
    ) -> Result<Response, RegistryError> {
        let is_known = self.known(reference.repository(), access).is_some();
        let authorization = self.authorization(reference, access).await?;
        let answer = self.send(&method, url, reference, authorization).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !is_known {
            return Ok(answer);
        }
        let authorization = self.authorize(reference, access).await?;
        self.send(&method, url, reference, authorization).await
    }

    /// The known authorization header, without a request.
    pub(super) async fn authorization(
        &self,
        reference: &Reference,
        access: Access,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        match self.known(reference.repository(), access) {
            Some(known) => Ok(known),
            None => self.authorize(reference, access).await,
        }
    }

    async fn send(
        &self,
        method: &Method,
        url: &str,
        reference: &Reference,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let mut headers = HeaderMap::new();
        if *method == Method::POST {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        } else {
            headers.insert(ACCEPT, HeaderValue::from_static(MANIFESTS));
        }
        headers.extend(authorization.map(|it| (AUTHORIZATION, it)));
        let request = self.client.request(method.clone(), url).headers(headers);
        answer(request, reference).await
    }

    fn known(&self, repository: &str, access: Access) -> Option<Option<HeaderValue>> {
        let known = lock(&self.authorization);
        let (of, granted, authorization) = known.as_ref()?;
        (of == repository && *granted == access).then(|| authorization.clone())
    }

    /// Gets the authorization header that the registry requires: a token, if it names a token server; user name and password, if there are any; or none.
    async fn authorize(
        &self,
        reference: &Reference,
        access: Access,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let version = answer(self.client.get(format!("{}/v2/", self.base)), reference).await?;
        let challenges = version.headers().get_all(WWW_AUTHENTICATE);
        let challenges: Vec<_> = challenges
            .iter()
            .filter_map(|it| it.to_str().ok())
            .collect();
        let authorization = match challenges.iter().find_map(|it| Challenge::of(it)) {
            Some(challenge) => Some(self.token(challenge, reference, access).await?),
            None if challenges.is_empty() => None,
            None => self.login.as_ref().and_then(basic),
        };
        *lock(&self.authorization) = Some((
            reference.repository().to_owned(),
            access,
            authorization.clone(),
        ));
        Ok(authorization)
    }

    async fn token(
        &self,
        challenge: Challenge,
        reference: &Reference,
        access: Access,
    ) -> Result<HeaderValue, RegistryError> {
        let refused = |reason: String| RegistryError::refused(reference, reason);
        let mut url = Url::parse(&challenge.realm)
            .map_err(|error| refused(format!("its token server is not a URL: {error}")))?;
        let scope = format!("repository:{}:{}", reference.repository(), access.actions());
        let service = challenge.service.as_deref();
        url.query_pairs_mut()
            .append_pair("scope", &scope)
            .extend_pairs(service.map(|service| ("service", service)));
        let allowed = match &self.login {
            Some(_) => self.trust.check_credentials(&url),
            None => self.trust.check(&url),
        };
        allowed.map_err(|refusal| RegistryError::untrusted(reference, &refusal))?;
        let mut request = self.client.get(url);
        if let Some(Login { username, secret }) = &self.login {
            request = request.basic_auth(username, Some(secret));
        }
        let answer = answer(request, reference).await?;
        let status = answer.status();
        let name = format!("the token for {reference}");
        if !status.is_success() {
            let reason = start_of(answer).await;
            return Err(match status.as_u16() {
                status @ (408 | 429 | 500..) => RegistryError::answered(reference, status, &reason),
                _ => RegistryError::answered(reference, 401, &reason),
            });
        }
        let text = read(answer, reference, &name, TOKEN).await?;
        let token: TokenAnswer = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("it does not give a token: {error}")))?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.token))
            .map_err(|error| refused(format!("it does not give a token: {error}")))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

fn builder(trust: &Arc<Trust>) -> ClientBuilder {
    let client = Client::builder()
        .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECTING);
    trust.guard(client)
}

fn basic(Login { username, secret }: &Login) -> Option<HeaderValue> {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{username}:{secret}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

pub(super) async fn answer(
    request: RequestBuilder,
    reference: &Reference,
) -> Result<Response, RegistryError> {
    let answer = request.send().await;
    answer.map_err(|error| RegistryError::of(reference, error))
}

/// The answer if its status is a success, or the error in it.
pub(super) async fn success(
    answer: Response,
    reference: &Reference,
) -> Result<Response, RegistryError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status == StatusCode::UNAUTHORIZED {
        return Err(RegistryError::answered(reference, 401, ""));
    }
    let text = start_of(answer).await;
    Err(match serde_json::from_str::<ErrorBody>(&text) {
        Ok(envelope) if status.is_client_error() => {
            RegistryError::of_body(reference, status.as_u16(), &envelope)
        }
        _ => RegistryError::answered(reference, status.as_u16(), &text),
    })
}

/// The complete body; an error if it has more than `most` bytes, or declares more.
async fn read(
    mut answer: Response,
    reference: &Reference,
    name: &str,
    most: usize,
) -> Result<Vec<u8>, RegistryError> {
    let too_large = |size: u64| RegistryError::TooLarge {
        reference: name.to_owned(),
        size: i64::try_from(size).unwrap_or(i64::MAX),
        most,
    };
    let declared = answer.content_length().unwrap_or(0);
    let expected = usize::try_from(declared).ok().filter(|it| *it <= most);
    let mut content = Vec::with_capacity(expected.ok_or_else(|| too_large(declared))?);
    while let Some(chunk) = answer
        .chunk()
        .await
        .map_err(|error| RegistryError::of(reference, error))?
    {
        if content.len() + chunk.len() > most {
            return Err(too_large((content.len() + chunk.len()) as u64));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// The start of an error message, as far as it was received.
async fn start_of(mut answer: Response) -> String {
    let mut text = Vec::new();
    while text.len() < ERROR
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        text.extend(chunk.iter().take(ERROR - text.len()));
    }
    String::from_utf8_lossy(&text).into_owned()
}
