//! Which servers a registry may lead to, with a redirect, a token server or a place for uploads, and which of them get its credentials. A registry is not trusted with either.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{ClientBuilder, Url};

/// The most redirects of one request.
const REDIRECTS: usize = 5;

/// Registries whose token server has another host, of the same owner.
const KNOWN: [(&str, &str); 5] = [
    ("docker.io", "auth.docker.io"),
    ("index.docker.io", "auth.docker.io"),
    ("registry-1.docker.io", "auth.docker.io"),
    ("registry.gitlab.com", "gitlab.com"),
    ("registry.digitalocean.com", "api.digitalocean.com"),
];

/// The variables with proxies that the HTTP client uses.
const PROXIES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// A server that a registry leads to and that is not contacted, or gets no credentials.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{server}: {reason}")]
pub(super) struct Refusal {
    /// Its URL without a path, or its name.
    pub(super) server: String,
    pub(super) reason: String,
}

/// What one registry may lead to.
#[derive(Debug)]
pub(super) struct Trust {
    registry: Url,
    /// Servers that the operator has named, as `HOST` or `HOST:PORT`.
    token_servers: Arc<Vec<String>>,
    /// The hosts of proxies. Their names are resolved here, too.
    proxies: Vec<String>,
    /// The kinds of addresses that the registry has, as bits.
    kinds: AtomicU8,
}

/// A kind of addresses. A registry with a public address leads to no others, whichever it has besides: its owner chooses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    LinkLocal,
    Private,
}

impl Trust {
    pub(super) fn new(registry: Url, token_servers: Arc<Vec<String>>) -> Self {
        let kind = literal(&registry).map_or(0, |address| Kind::of(address).bit());
        let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        Self {
            registry,
            token_servers,
            proxies: proxies.filter_map(|proxy| host_of_proxy(&proxy)).collect(),
            kinds: AtomicU8::new(kind),
        }
    }

    /// The client for the registry: each redirect is checked, and each address that a name resolves to.
    pub(super) fn guard(self: &Arc<Self>, client: ClientBuilder) -> ClientBuilder {
        let trust = Arc::clone(self);
        let follow = move |attempt: Attempt<'_>| {
            if attempt.previous().len() > REDIRECTS {
                let reason = format!("there are more than {REDIRECTS} redirects");
                let refusal = Refusal::of(attempt.url(), reason);
                return attempt.error(refusal);
            }
            match trust.check(attempt.url()) {
                Ok(()) => attempt.follow(),
                Err(refusal) => attempt.error(refusal),
            }
        };
        client
            .redirect(Policy::custom(follow))
            .dns_resolver(Resolver(Arc::clone(self)))
    }

    /// Whether the registry may lead to this URL: by TLS if the registry uses it, and not to an address of a kind that the registry does not have.
    pub(super) fn check(&self, url: &Url) -> Result<(), Refusal> {
        let is_safe = match url.scheme() {
            "https" => true,
            "http" => self.registry.scheme() == "http",
            _ => false,
        };
        if !is_safe {
            let reason = "the registry uses TLS, and this server would be contacted without it";
            return Err(Refusal::of(url, reason.to_owned()));
        }
        match literal(url) {
            Some(address) if !self.is_known(url) && !self.is_reachable(address) => {
                Err(Refusal::of(url, self.unreachable(address)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the server of this URL gets the registry's credentials: the registry's host, those below it, the known token server of a public registry, and those that the operator has named.
    pub(super) fn check_credentials(&self, url: &Url) -> Result<(), Refusal> {
        self.check(url)?;
        let registry = self.registry.host_str().unwrap_or_default();
        let host = url.host_str().unwrap_or_default();
        let is_below = url.domain().is_some()
            && host
                .strip_suffix(registry)
                .is_some_and(|rest| rest.ends_with('.'));
        if is_below || KNOWN.contains(&(registry, host)) || self.is_known(url) {
            return Ok(());
        }
        let reason = format!(
            "it is not part of the registry, so it gets no credentials; {}",
            intended(host)
        );
        Err(Refusal::of(url, reason))
    }

    /// Whether this is the registry's host or one that the operator has named.
    fn is_known(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or_default();
        self.registry.host_str() == Some(host)
            || self.token_servers.iter().any(|named| {
                named.eq_ignore_ascii_case(host)
                    || named.eq_ignore_ascii_case(&format!("{host}:{port}"))
            })
    }

    /// The addresses of a name that may be connected to, of those that were found.
    fn reachable(&self, name: &str, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refusal> {
        let is = |host: &str| host.eq_ignore_ascii_case(name);
        if self.registry.host_str().is_some_and(is) {
            let kinds = found
                .iter()
                .fold(0, |kinds, address| kinds | Kind::of(address.ip()).bit());
            self.kinds.fetch_or(kinds, Ordering::Relaxed);
            return Ok(found);
        }
        let host = |named: &String| is(named.rsplit_once(':').map_or(named, |(host, _)| host));
        if self.token_servers.iter().any(host) || self.proxies.iter().any(|proxy| is(proxy)) {
            return Ok(found);
        }
        let is_store = self.is_store_of_amazon(name);
        let is_reachable = |it: &SocketAddr| {
            self.is_reachable(it.ip()) || is_store && Kind::of(it.ip()) == Kind::Private
        };
        let refused = found.iter().find(|it| !is_reachable(it)).copied();
        let reachable = found.into_iter().filter(is_reachable);
        let reachable: Vec<_> = reachable.collect();
        match refused {
            Some(refused) if reachable.is_empty() => Err(Refusal {
                server: name.to_owned(),
                reason: format!(
                    "{}; {}, which also lets the registry send its credentials there",
                    self.unreachable(refused.ip()),
                    intended(name)
                ),
            }),
            Some(_) | None => Ok(reachable),
        }
    }

    fn is_reachable(&self, address: IpAddr) -> bool {
        let kind = Kind::of(address);
        let kinds = self.kinds.load(Ordering::Relaxed);
        kind == Kind::Public || kinds & Kind::Public.bit() == 0 && kinds & kind.bit() != 0
    }

    /// Whether this is S3, to which ECR redirects for content: with an interface endpoint, its name has an address of the own network. Amazon runs both, so the owner of a repository can't lead elsewhere.
    fn is_store_of_amazon(&self, name: &str) -> bool {
        let registry = self.registry.host_str().unwrap_or_default();
        self.registry.scheme() == "https"
            && labels_of_amazon(registry).is_some_and(|it| it.contains(".dkr.ecr"))
            && labels_of_amazon(&name.to_ascii_lowercase())
                .is_some_and(|it| it.split('.').any(|label| label == "s3"))
    }

    fn unreachable(&self, address: IpAddr) -> String {
        let kind = Kind::of(address).title();
        format!("{address} is a {kind} address, and the registry has none of these")
    }
}

impl Refusal {
    fn of(url: &Url, reason: String) -> Self {
        Self {
            server: url.origin().ascii_serialization(),
            reason,
        }
    }

    /// The refusal that caused this error of the HTTP client, if one did.
    pub(super) fn behind<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        std::iter::successors(Some(error), |error| error.source())
            .find_map(|error| error.downcast_ref())
    }
}

fn intended(host: &str) -> String {
    format!(
        "if that is intended, name it with `--token-server {host}`, or in `token-servers` of the configuration"
    )
}

/// What is before the domain of AWS in a name that belongs to it.
fn labels_of_amazon(name: &str) -> Option<&str> {
    name.strip_suffix(".amazonaws.com")
        .or_else(|| name.strip_suffix(".amazonaws.com.cn"))
}

/// The address, if the host of the URL is one.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_matches(['[', ']']).parse().ok()
}

/// The host of a proxy, which may have no scheme.
fn host_of_proxy(text: &str) -> Option<String> {
    let url = if text.contains("://") {
        Url::parse(text)
    } else {
        Url::parse(&format!("http://{text}"))
    };
    Some(url.ok()?.host_str()?.to_owned())
}

impl Kind {
    fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// The special-purpose addresses of RFC 6890 and the shared ones of RFC 6598.
    fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [0 | 127, ..] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Self::Private,
            [100, 64..=127, ..] | [192, 0, 0, _] | [198, 18..=19, ..] | [224..=255, ..] => {
                Self::Private
            }
            _ => Self::Public,
        }
    }

    /// The special-purpose addresses of RFC 6890, and those that stand for an IPv4 address (mapped, translated by RFC 6052, 6to4).
    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                v4(high, low)
            }
            [0x2002, high, low, ..] => v4(high, low),
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0x64, 0xff9b, ..] | [0xfc00..=0xfdff | 0xfec0..=0xffff, ..] => Self::Private,
            _ => Self::Public,
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }

    fn title(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link-local",
            Self::Private => "private",
        }
    }
}

/// Resolves names as the system does, and leaves out the addresses that a registry may not lead to.
struct Resolver(Arc<Trust>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let trust = Arc::clone(&self.0);
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let reachable = trust.reachable(name.as_str(), found.collect())?;
            let addresses: Addrs = Box::new(reachable.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
#[path = "trust_tests.rs"]
mod tests;
