//! The client of the admin interface: the hosts of this machine, found by their sockets, any host by its URL, and all hosts behind a name.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::HeaderValue;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::VERSION;
use super::caller::USER;
use super::socket::is_live;
use super::token::{TOKEN_VARIABLE, Token};
use crate::config::admin_url;
use crate::http_server::ANSWER_TIMEOUT;
use crate::policy::Store;
use crate::text::one_line;

/// How long a client waits for an answer that only reads something. A host that was stopped with a signal gives none.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client waits for an action: as long as a host works on it.
const ACTION_TIMEOUT: Duration = ANSWER_TIMEOUT;

/// How long a client waits for a connection, for the addresses of a name, and for the answer that says whether a host lives at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The most addresses of a name.
const MOST_ADDRESSES: usize = 256;

/// The most bytes of an answer.
const ANSWER_BYTES: usize = 64 << 20;

/// A running host.
#[derive(Debug, Clone)]
pub struct Host {
    client: Client,
    /// The URL that paths are appended to.
    url: Url,
    token: Option<Token>,
    /// `process 4711`, or its URL.
    name: String,
    /// That of a host of this machine.
    socket: Option<PathBuf>,
}

/// Why a host gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not an HTTP URL.
    #[error(
        "`{url}` is not the URL of a host's admin interface: expected one such as http://127.0.0.1:9465, or dns+http://backstop:9465 for all hosts behind a name"
    )]
    Url {
        /// The text.
        url: String,
    },
    /// Nobody knows the addresses behind a name.
    #[error("there are no hosts behind {url}: {reason}. Check the name, and that hosts run")]
    NoAddress {
        /// The URL.
        url: String,
        /// Why.
        reason: String,
    },
    /// There is no connection, or it broke.
    #[error(
        "{host} does not answer: check that the host runs, and that this is the address of its `admin`"
    )]
    Unreachable {
        /// The host.
        host: String,
        /// The cause.
        #[source]
        cause: reqwest::Error,
    },
    /// A host of this machine has ended since it was found. It has seen nothing of the request.
    #[error("{host} has ended")]
    Ended {
        /// The host.
        host: String,
    },
    /// The host wants a token, or another one.
    #[error(
        "{host} refuses the request: {reason}. The token is that of {TOKEN_VARIABLE} or of the file of --admin-token-file"
    )]
    Unauthorized {
        /// The host.
        host: String,
        /// Its reason.
        reason: String,
    },
    /// The host refuses the request.
    #[error("{host} refuses the request: {reason}")]
    Refused {
        /// The host.
        host: String,
        /// The status.
        status: u16,
        /// Its reason.
        reason: String,
    },
    /// What answers is no host, or has another version of the interface.
    #[error(
        "{host} gives an answer that is not of version {VERSION} of the admin interface: {reason}"
    )]
    Invalid {
        /// The host.
        host: String,
        /// What is wrong.
        reason: String,
    },
}

impl Host {
    /// Every running host whose cache is this directory. The sockets of hosts that were killed are removed.
    pub fn on_this_machine(cache: &Path) -> io::Result<Vec<io::Result<Self>>> {
        let entries = match Store::running_in(cache).read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut paths = paths?;
        paths.sort_by_cached_key(|path| (process_of(path).parse::<u32>().ok(), path.clone()));
        let hosts = paths.into_iter().filter_map(|path| match is_live(&path) {
            Ok(true) => Some(Self::at_socket(&path)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        });
        Ok(hosts.collect())
    }

    fn at_socket(path: &Path) -> io::Result<Self> {
        let client = client().unix_socket(path).build();
        Ok(Self {
            client: client.map_err(io::Error::other)?,
            url: Url::parse("http://localhost/").map_err(io::Error::other)?,
            token: None,
            name: format!("process {}", process_of(path)),
            socket: Some(path.to_owned()),
        })
    }

    /// Whether it is a host of this machine, found by its socket.
    pub const fn is_on_this_machine(&self) -> bool {
        self.socket.is_some()
    }

    /// The host at this URL.
    pub fn at(url: &str, token: Option<Token>) -> Result<Self, ClientError> {
        let invalid = || ClientError::Url {
            url: url.to_owned(),
        };
        let (mut parsed, false) = admin_url(url).ok_or_else(invalid)? else {
            return Err(invalid());
        };
        if !parsed.path().ends_with('/') {
            let folder = format!("{}/", parsed.path());
            parsed.set_path(&folder);
        }
        let name = url.to_owned();
        let client = client().build();
        let client = client.map_err(|cause| ClientError::Unreachable {
            host: name.clone(),
            cause,
        })?;
        Ok(Self {
            client,
            url: parsed,
            token,
            name,
            socket: None,
        })
    }

    /// The host at this URL or, with `dns+` before it, all hosts at the addresses of its name.
    pub async fn all_at(url: &str, token: Option<Token>) -> Result<Vec<Self>, ClientError> {
        let Some((plain, true)) = admin_url(url) else {
            return Ok(vec![Self::at(url, token)?]);
        };
        let one = Self::at(plain.as_str(), token).map_err(|_| ClientError::Url {
            url: url.to_owned(),
        })?;
        let addresses = one.addresses(url).await?.into_iter();
        addresses.map(|address| one.at_address(address)).collect()
    }

    async fn addresses(&self, url: &str) -> Result<BTreeSet<SocketAddr>, ClientError> {
        let none = |reason: &str| ClientError::NoAddress {
            url: url.to_owned(),
            reason: reason.to_owned(),
        };
        let name = self.url.host_str().unwrap_or_default();
        let name = name.trim_matches(['[', ']']).to_owned();
        let port = self.url.port_or_known_default().unwrap_or_default();
        let found = timeout(CONNECT_TIMEOUT, lookup_host((name, port))).await;
        let found = found.map_err(|_| none("the name service does not answer"))?;
        let found = found.map_err(|error| none(&error.to_string()))?;
        // The bound counts addresses, and not what the name service repeats.
        let mut addresses = BTreeSet::new();
        for address in found {
            addresses.insert(address);
            if addresses.len() > MOST_ADDRESSES {
                return Err(none(&format!(
                    "it has more than {MOST_ADDRESSES} addresses"
                )));
            }
        }
        if addresses.is_empty() {
            return Err(none("the name has no address"));
        }
        Ok(addresses)
    }

    /// The host at one of the addresses of this URL's name. Only a certificate needs the name; a host accepts its own address as the name.
    fn at_address(&self, address: SocketAddr) -> Result<Self, ClientError> {
        let mut url = self.url.clone();
        let mut builder = client();
        if url.scheme() == "https" {
            builder = builder.resolve(url.host_str().unwrap_or_default(), address);
        } else {
            let _ = url.set_ip_host(address.ip());
        }
        let name = format!("{}://{address}", url.scheme());
        let client = builder.build();
        let client = client.map_err(|cause| ClientError::Unreachable {
            host: name.clone(),
            cause,
        })?;
        Ok(Self {
            client,
            url,
            name,
            token: self.token.clone(),
            socket: None,
        })
    }

    /// Whether the host lives: it answers soon. A host that was stopped with a signal does not.
    pub async fn lives(&self) -> Result<(), ClientError> {
        let request = self.client.get(self.at_path(&["livez"]));
        self.send::<Value>(request.timeout(CONNECT_TIMEOUT))
            .await
            .map(drop)
    }

    /// What output and errors call the host: `process 4711`, or its URL.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The answer to `GET` of this path, such as `v1/status`, with these parameters.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<T, ClientError> {
        let mut url = self.at_path(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.send(self.client.get(url).timeout(READ_TIMEOUT)).await
    }

    /// The answer to `POST` of this body to this path. The request says which user of this machine sends it.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.post_by(path, body, &user().unwrap_or_default()).await
    }

    /// The same for somebody with this name.
    pub(crate) async fn post_by<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        user: &str,
    ) -> Result<T, ClientError> {
        let request = self.client.post(self.at_path(path)).json(body);
        let request = request.timeout(ACTION_TIMEOUT);
        let user = HeaderValue::from_str(user).ok();
        self.send(match user.filter(|user| !user.is_empty()) {
            Some(user) => request.header(USER, user),
            None => request,
        })
        .await
    }

    fn at_path(&self, path: &[&str]) -> Url {
        let mut url = self.url.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(path);
        }
        url
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.secret()),
            None => request,
        };
        let response = request.send().await;
        let response = response.map_err(|cause| self.unreachable(cause))?;
        let status = response.status();
        let body = self.read(response).await?;
        let answer: Value = serde_json::from_slice(&body)
            .map_err(|error| self.invalid(format!("status {status}, {error}")))?;
        if answer.get("version").and_then(Value::as_u64) != Some(VERSION) {
            return Err(self.invalid(format!("status {status}, and another version or none")));
        }
        if status.is_success() {
            return serde_json::from_value(answer).map_err(|error| self.invalid(error.to_string()));
        }
        let reason = answer.get("error").and_then(Value::as_str);
        let reason = one_line(reason.unwrap_or("it does not say why"));
        let host = self.name.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED => ClientError::Unauthorized { host, reason },
            status => ClientError::Refused {
                host,
                status: status.as_u16(),
                reason,
            },
        })
    }

    /// Why there is no answer.
    fn unreachable(&self, cause: reqwest::Error) -> ClientError {
        let host = self.name.clone();
        let is_live = |path| !matches!(is_live(path), Ok(false));
        match &self.socket {
            Some(path) if cause.is_connect() && !is_live(path) => ClientError::Ended { host },
            _ => ClientError::Unreachable {
                host,
                cause: cause.without_url(),
            },
        }
    }

    async fn read(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk.map_err(|cause| self.unreachable(cause))?;
            let Some(chunk) = chunk else { return Ok(body) };
            if body.len() + chunk.len() > ANSWER_BYTES {
                return Err(self.invalid(format!("it has more than {ANSWER_BYTES} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
    }

    fn invalid(&self, reason: String) -> ClientError {
        ClientError::Invalid {
            host: self.name.clone(),
            reason: one_line(&reason),
        }
    }
}

/// The process id in the name of a socket.
fn process_of(socket: &Path) -> String {
    let name = socket.file_name().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or_default().to_owned()
}

/// A client that sends the token to nobody else: without proxies and redirects.
fn client() -> ClientBuilder {
    Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
}

/// The name of this machine's user.
fn user() -> Option<String> {
    ["USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
