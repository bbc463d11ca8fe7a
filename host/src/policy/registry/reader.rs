//! Reading from one registry. Nothing that a registry sends is taken without a limit: not a blob, not a manifest, not a token, not what it says of an error.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use http_auth::parser::ChallengeParser;
use oci_client::Reference;
use oci_client::errors::OciEnvelope;
use oci_client::secrets::RegistryAuth;
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use super::RegistryError;
use super::layout;

/// Within which a connection is made.
pub(super) const CONNECTING: Duration = Duration::from_secs(5);

/// How long a registry may fall silent in the middle of an answer.
pub(super) const SILENCE: Duration = Duration::from_secs(10);

/// The largest manifest, in bytes: what registries take is no larger.
const MANIFEST: usize = 4 << 20;

/// The largest answer of a server of tokens, in bytes.
const TOKEN: usize = 256 << 10;

/// How much is read of what a registry says of an error, in bytes.
const ERROR: usize = 16 << 10;

/// What a manifest may be, and what is asked for so that it can be told what it is.
const MANIFESTS: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// A client that reads from one registry.
pub(super) struct Reader {
    client: Client,
    /// Where the registry is: `https://registry.example.com`.
    base: String,
    auth: RegistryAuth,
    /// What the registry wants to be shown for this repository.
    authorization: Mutex<Option<(String, Option<HeaderValue>)>>,
}

/// What a server of tokens answers, by either of the two names that are in use.
#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Reader {
    /// A client of the registry of this reference. Nothing is sent yet.
    pub(super) fn new(
        reference: &Reference,
        is_plain: bool,
        auth: RegistryAuth,
    ) -> Result<Self, RegistryError> {
        let client = Client::builder()
            .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECTING)
            .read_timeout(SILENCE)
            .build()
            .map_err(|error| RegistryError::of(reference, error.into()))?;
        let scheme = if is_plain { "http" } else { "https" };
        Ok(Self {
            client,
            base: format!("{scheme}://{}", reference.resolve_registry()),
            auth,
            authorization: Mutex::default(),
        })
    }

    /// The digest of the manifest that the reference has now, as the registry says it.
    pub(super) async fn digest(&self, reference: &Reference) -> Result<String, RegistryError> {
        let url = self.manifest_url(reference);
        let answer = self.ask(Method::HEAD, &url, reference).await?;
        let named = answer.headers().get("docker-content-digest");
        if answer.status().is_success()
            && let Some(digest) = named.and_then(|it| it.to_str().ok())
        {
            return Ok(digest.to_owned());
        }
        // Without a body nothing says what is wrong.
        Ok(layout::sha256(&self.manifest(reference).await?))
    }

    /// The manifest of the reference, whose digest is not checked.
    pub(super) async fn manifest(&self, reference: &Reference) -> Result<Vec<u8>, RegistryError> {
        let url = self.manifest_url(reference);
        let answer = self.ask(Method::GET, &url, reference).await?;
        let answer = good(answer, reference).await?;
        let name = format!("the manifest of {reference}");
        read(answer, reference, &name, MANIFEST).await
    }

    /// The content of this digest, of at most `most` bytes.
    pub(super) async fn blob(
        &self,
        reference: &Reference,
        digest: &str,
        most: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        let (base, repository) = (&self.base, reference.repository());
        let url = format!("{base}/v2/{repository}/blobs/{digest}");
        let answer = self.ask(Method::GET, &url, reference).await?;
        let answer = good(answer, reference).await?;
        let content = read(answer, reference, &reference.to_string(), most).await?;
        let found = layout::sha256(&content);
        if found != digest {
            return Err(RegistryError::Changed {
                reference: reference.to_string(),
                expected: digest.to_owned(),
                found,
            });
        }
        Ok(content)
    }

    fn manifest_url(&self, reference: &Reference) -> String {
        let (base, repository) = (&self.base, reference.repository());
        let version = reference.digest().or_else(|| reference.tag());
        format!(
            "{base}/v2/{repository}/manifests/{}",
            version.unwrap_or("latest")
        )
    }

    /// The answer to a request, whatever it is. A token that is no longer good is replaced, once.
    async fn ask(
        &self,
        method: Method,
        url: &str,
        reference: &Reference,
    ) -> Result<Response, RegistryError> {
        let known = self.known(reference.repository());
        let is_known = known.is_some();
        let authorization = match known {
            Some(known) => known,
            None => self.authorize(reference).await?,
        };
        let answer = self.send(&method, url, reference, authorization).await?;
        if answer.status() != StatusCode::UNAUTHORIZED || !is_known {
            return Ok(answer);
        }
        let authorization = self.authorize(reference).await?;
        self.send(&method, url, reference, authorization).await
    }

    async fn send(
        &self,
        method: &Method,
        url: &str,
        reference: &Reference,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, RegistryError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(MANIFESTS));
        headers.extend(authorization.map(|it| (AUTHORIZATION, it)));
        let request = self.client.request(method.clone(), url).headers(headers);
        answer(request, reference).await
    }

    fn known(&self, repository: &str) -> Option<Option<HeaderValue>> {
        let known = self.authorization.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        let (of, authorization) = known.as_ref()?;
        (of == repository).then(|| authorization.clone())
    }

    /// Asks the registry what it wants to be shown, and gets that: a token, where it names a server of tokens; name and password, where there are any; or nothing.
    async fn authorize(&self, reference: &Reference) -> Result<Option<HeaderValue>, RegistryError> {
        let version = answer(self.client.get(format!("{}/v2/", self.base)), reference).await?;
        let challenges = version.headers().get_all(WWW_AUTHENTICATE);
        let challenges: Vec<_> = challenges
            .iter()
            .filter_map(|it| it.to_str().ok())
            .collect();
        let authorization = match challenges.iter().find_map(|it| Challenge::of(it)) {
            Some(challenge) => Some(self.token(challenge, reference).await?),
            None if challenges.is_empty() => None,
            None => match &self.auth {
                RegistryAuth::Basic(user, password) => basic(user, password),
                RegistryAuth::Anonymous | RegistryAuth::Bearer(_) => None,
            },
        };
        let known = self.authorization.lock();
        *known.unwrap_or_else(PoisonError::into_inner) =
            Some((reference.repository().to_owned(), authorization.clone()));
        Ok(authorization)
    }

    async fn token(
        &self,
        challenge: Challenge,
        reference: &Reference,
    ) -> Result<HeaderValue, RegistryError> {
        let refused = |reason: String| RegistryError::Refused {
            reference: reference.to_string(),
            reason,
        };
        let mut url = Url::parse(&challenge.realm)
            .map_err(|error| refused(format!("its server of tokens is no URL: {error}")))?;
        let scope = format!("repository:{}:pull", reference.repository());
        let service = challenge.service.as_deref();
        url.query_pairs_mut()
            .append_pair("scope", &scope)
            .extend_pairs(service.map(|service| ("service", service)));
        let mut request = self.client.get(url);
        if let RegistryAuth::Basic(user, password) = &self.auth {
            request = request.basic_auth(user, Some(password));
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
        let token: Token = serde_json::from_slice(&text)
            .map_err(|error| refused(format!("it gives no token: {error}")))?;
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.token))
            .map_err(|error| refused(format!("it gives no token: {error}")))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Where a registry wants its tokens from.
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: Option<String>,
}

impl Challenge {
    /// Out of a `WWW-Authenticate`; none where it asks for no token.
    fn of(header: &str) -> Option<Self> {
        let challenges = ChallengeParser::new(header).filter_map(Result::ok);
        let mut bearers = challenges.filter(|it| it.scheme.eq_ignore_ascii_case("bearer"));
        bearers.find_map(|challenge| {
            let parameter = |name: &str| {
                let mut named = challenge.params.iter();
                let (_, value) = named.find(|(it, _)| it.eq_ignore_ascii_case(name))?;
                Some(value.to_unescaped())
            };
            Some(Self {
                realm: parameter("realm")?,
                service: parameter("service"),
            })
        })
    }
}

fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
    let mut value = HeaderValue::try_from(format!("Basic {encoded}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

async fn answer(request: RequestBuilder, reference: &Reference) -> Result<Response, RegistryError> {
    let answer = request.send().await;
    answer.map_err(|error| RegistryError::of(reference, error.into()))
}

/// The answer, if it is what was asked for.
async fn good(answer: Response, reference: &Reference) -> Result<Response, RegistryError> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    if status == StatusCode::UNAUTHORIZED {
        return Err(RegistryError::answered(reference, 401, ""));
    }
    let text = start_of(answer).await;
    Err(match serde_json::from_str::<OciEnvelope>(&text) {
        Ok(envelope) if status.is_client_error() => RegistryError::told(reference, &envelope),
        _ => RegistryError::answered(reference, status.as_u16(), &text),
    })
}

/// All of an answer; an error where there is more than `most` bytes of it, by its own word or in fact.
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
        .map_err(|error| RegistryError::of(reference, error.into()))?
    {
        if content.len() + chunk.len() > most {
            return Err(too_large((content.len() + chunk.len()) as u64));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

/// The start of what an answer says, as far as it comes.
async fn start_of(mut answer: Response) -> String {
    let mut text = Vec::new();
    while text.len() < ERROR
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        text.extend(chunk.iter().take(ERROR - text.len()));
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_where_tokens_are_from() {
        let challenge = |realm: &str, service: Option<&str>| {
            Some(Challenge {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        for (header, expected) in [
            (
                r#"Bearer realm="https://auth.example.com/token",service="registry""#,
                challenge("https://auth.example.com/token", Some("registry")),
            ),
            (
                r#"Basic realm="here", bearer realm="https://a/t""#,
                challenge("https://a/t", None),
            ),
            (r#"Bearer service="registry""#, None),
            (r#"Basic realm="here""#, None),
            ("", None),
            ("Bearer", None),
        ] {
            assert_eq!(Challenge::of(header), expected, "{header}");
        }
    }
}
