//! Which requests the admin interface accepts over TCP: those of its operator's programs and of its own pages.
//!
//! A browser on the operator's machine reaches `127.0.0.1` for every page that it shows. So a request that a page of another site could have sent is refused (`Origin`, `Sec-Fetch-Site`, a body that is not JSON), and one for a name that anybody could point at this address (`Host`: DNS rebinding).

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use backstop_core::lock::lock;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Uri};
use hyper::{HeaderMap, Method, Version};
use tokio::time::Instant;

use super::answer::Refused;
use super::caller::Caller;
use super::header::only;
use super::proxy::{self, Identity};
use super::token::Token;
use crate::config::AdminProxy;
pub(super) use crate::config::AdminRole as Role;
use crate::http_server::Peer;
use crate::telemetry;

/// How a browser says where a request comes from.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// How it says that it opens a page, and what for.
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DESTINATION: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The tokens and what each is good for. They are replaced when their files change.
pub(super) type Tokens = Vec<(Role, Arc<ArcSwap<Token>>)>;

/// What requests are checked against.
#[derive(Debug)]
pub(super) struct Guard {
    /// The tokens, of which one is required. Without any, nothing is.
    tokens: Tokens,
    /// The names by which the interface is reached, besides `localhost` and addresses; in lower case.
    hosts: Vec<String>,
    /// The proxy that names who has signed in.
    proxy: Option<AdminProxy>,
    /// The refusals since the last one that was logged, and when that was.
    unlogged: Mutex<(u64, Option<Instant>)>,
}

/// How often refused requests are logged: not each of them, since anybody can send many.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Guard {
    /// Requires one of these tokens, if there are any, and accepts these names.
    pub(super) fn new(tokens: Tokens, hosts: Vec<String>, proxy: Option<AdminProxy>) -> Self {
        Self {
            tokens,
            hosts,
            proxy,
            unlogged: Mutex::default(),
        }
    }

    /// Refuses requests that another site's page may have sent, and those for another host.
    pub(super) fn site(&self, request: &Parts) -> Result<(), Refused> {
        let host = self.host(request)?;
        self.sender(&request.headers, host.as_ref())
    }

    /// The same for the page, which a link of another site may open, such as that of an alert: no other site can read it.
    pub(super) fn page(&self, request: &Parts) -> Result<(), Refused> {
        let host = self.host(request)?;
        let is = |name: HeaderName, value: &str| {
            let mut values = request.headers.get_all(name).iter();
            values.next().is_some_and(|it| it == value)
        };
        let is_opened = request.method == Method::GET
            && is(MODE, "navigate")
            && is(DESTINATION, "document")
            && !request.headers.contains_key(ORIGIN);
        if is_opened {
            return Ok(());
        }
        self.sender(&request.headers, host.as_ref())
    }

    /// The host that a request is for, if it says so. Refuses those for another one.
    fn host(&self, request: &Parts) -> Result<Option<Authority>, Refused> {
        let headers = &request.headers;
        let host = match only(headers, HOST)? {
            Some(host) => host,
            // Some health checks of load balancers send none. Every browser does.
            None if request.version <= Version::HTTP_10 && request.uri.authority().is_none() => {
                return Ok(None);
            }
            None => return Err(Refused::invalid("expected a `Host` header")),
        };
        let host = parse_authority(host).ok_or_else(|| self.wrong_host())?;
        // Of `GET http://name/path`, the name counts.
        let target = request.uri.authority().is_none_or(|target| *target == host);
        if !target || !self.is_own(&host) {
            return Err(self.wrong_host());
        }
        Ok(Some(host))
    }

    /// Refuses requests that say themselves that they come from another site than this host.
    fn sender(&self, headers: &HeaderMap, host: Option<&Authority>) -> Result<(), Refused> {
        for origin in headers.get_all(ORIGIN) {
            let origin = parse_origin(origin);
            if origin.is_none() || origin.as_ref() != host {
                return Err(other_site());
            }
        }
        let is_own = |site: &HeaderValue| ["same-origin", "none"].iter().any(|own| site == own);
        if headers.get_all(SITE).iter().all(is_own) {
            Ok(())
        } else {
            Err(other_site())
        }
    }

    /// Refuses a body that is not declared as JSON: a page of another site can't send one without asking first, which is refused.
    pub(super) fn content(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let content_type = only(headers, CONTENT_TYPE)?.and_then(|it| it.to_str().ok());
        let essence = content_type.and_then(|it| it.split(';').next());
        match essence.map(str::trim) {
            Some(it) if it.eq_ignore_ascii_case("application/json") => Ok(()),
            Some(_) | None => Err(Refused::not_json()),
        }
    }

    /// The tokens as they are now.
    pub(super) fn tokens(&self) -> Vec<(Role, Token)> {
        let tokens = self.tokens.iter();
        tokens
            .map(|(role, token)| (*role, token.load().as_ref().clone()))
            .collect()
    }

    /// What the given token is good for.
    pub(super) fn role_of(&self, given: &[u8]) -> Option<Role> {
        // Each is compared, so that the time says nothing about which one it was.
        let matching = self
            .tokens
            .iter()
            .map(|(role, token)| (role, token.load().matches(given)));
        let matching: Vec<_> = matching.collect();
        let good = matching.into_iter().filter(|(_, is_it)| *is_it);
        good.map(|(role, _)| *role).max()
    }

    /// Whom the proxy names as the sender of a request, if it comes from the proxy and names somebody: then nothing else in the request counts, such as a token. If no token is needed, it has to name somebody: all that it lets through must not become everybody's.
    pub(super) fn proxied(
        &self,
        peer: Peer,
        headers: &HeaderMap,
    ) -> Result<Option<Identity>, Refused> {
        let Some(proxy) = &self.proxy else {
            return Ok(None);
        };
        let named = proxy::identity(proxy, peer, headers)?;
        if named.is_none() && self.tokens.is_empty() && proxy::is_from(proxy, peer) {
            return Err(Refused::unauthorized(format!(
                "expected the header `{}`, in which the proxy names who has signed in",
                proxy.header
            )));
        }
        Ok(named)
    }

    /// What a request may do: by the proxy that names its sender, or else by its token.
    pub(super) fn identity(&self, peer: Peer, headers: &HeaderMap) -> Result<Identity, Refused> {
        match self.proxied(peer, headers)? {
            Some(named) => Ok(named),
            None => self.token(headers).map(Identity::unnamed),
        }
    }

    /// What a request may do by its token. Refuses requests without one.
    pub(super) fn token(&self, headers: &HeaderMap) -> Result<Role, Refused> {
        if self.tokens.is_empty() {
            return Ok(Role::Act);
        }
        let expected = "expected the header `Authorization: Bearer TOKEN`";
        let given = only(headers, AUTHORIZATION)?.map(HeaderValue::as_bytes);
        let given = given.and_then(|given| given.split_at_checked("Bearer ".len()));
        match given {
            Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"Bearer ") => {
                let role = self.role_of(given);
                role.ok_or_else(|| Refused::unauthorized("this is not the token of this host"))
            }
            Some(_) | None => Err(Refused::unauthorized(expected)),
        }
    }

    /// Counts and logs a request that was refused because of its site or its token.
    pub(super) fn refused(&self, by: &Caller, refused: &Refused) {
        let Some(reason) = refused.access() else {
            return;
        };
        telemetry::admin_refused(reason).increment(1);
        let mut unlogged = lock(&self.unlogged);
        let (count, logged) = &mut *unlogged;
        *count += 1;
        if logged.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL) {
            tracing::warn!(%by, count = *count, "requests to the admin interface are refused: {refused}");
            *unlogged = (0, Some(Instant::now()));
        }
    }

    fn is_own(&self, authority: &Authority) -> bool {
        let host = authority.host();
        let address = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let is_address = address.unwrap_or(host).parse::<IpAddr>().is_ok();
        let is_named = |name: &String| host.eq_ignore_ascii_case(name);
        is_address || host.eq_ignore_ascii_case("localhost") || self.hosts.iter().any(is_named)
    }

    fn wrong_host(&self) -> Refused {
        Refused::forbidden(
            "the `Host` header names another host: expected an IP address, `localhost`, or a name of `admin-hosts`",
        )
    }
}

fn other_site() -> Refused {
    Refused::forbidden("requests of other sites are refused")
}

/// A host with or without a port, and without a user.
fn parse_authority(value: &HeaderValue) -> Option<Authority> {
    let text = value.to_str().ok()?;
    let authority: Authority = text.parse().ok()?;
    (!text.contains('@')).then_some(authority)
}

/// The host and port of an origin; none of `null`.
fn parse_origin(value: &HeaderValue) -> Option<Authority> {
    let uri: Uri = value.to_str().ok()?.parse().ok()?;
    let is_web = matches!(uri.scheme_str(), Some("http" | "https"));
    uri.authority().filter(|_| is_web).cloned()
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
