//! Who has signed in at an authenticating proxy, as the proxy names them in a header. Only the addresses of the configuration are believed: the header of anybody else is ignored, and gives nothing.

use hyper::HeaderMap;
use hyper::header::HeaderName;

use super::answer::Refused;
use super::caller::Caller;
use super::header::only;
use crate::config::{AdminProxy, AdminRole};
use crate::http_server::Peer;

/// The most bytes of a name. A longer one is refused and not cut: two people must not become one.
const NAME_BYTES: usize = 256;

/// What a request may do, and who has sent it, if something proves that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) role: AdminRole,
    /// The name that the proxy gives.
    pub(super) name: Option<String>,
}

impl Identity {
    /// Somebody with a token, or who needs none.
    pub(super) const fn unnamed(role: AdminRole) -> Self {
        Self { role, name: None }
    }

    /// The sender of a request with these headers.
    pub(super) fn caller(&self, peer: Peer, headers: &HeaderMap) -> Caller {
        let caller = match &self.name {
            Some(name) => Caller::by_proxy(peer, name),
            None => Caller::of(peer, headers),
        };
        caller.who_may(self.role)
    }
}

/// Whether a request comes from the proxy.
pub(super) fn is_from(proxy: &AdminProxy, peer: Peer) -> bool {
    match peer {
        Peer::Address(address) => {
            let address = address.ip().to_canonical();
            proxy.from.iter().any(|network| network.contains(&address))
        }
        Peer::Process { .. } => false,
    }
}

/// Whom the proxy names, and what they may do. `None` if the request does not come from it, or names nobody.
pub(super) fn identity(
    proxy: &AdminProxy,
    peer: Peer,
    headers: &HeaderMap,
) -> Result<Option<Identity>, Refused> {
    if !is_from(proxy, peer) {
        return Ok(None);
    }
    let Some(name) = text(headers, &proxy.header)?.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    if name.len() > NAME_BYTES {
        return Err(Refused::invalid(format!(
            "expected a name of at most {NAME_BYTES} bytes in `{}`",
            proxy.header
        )));
    }
    let mut role = None;
    if let Some((header, roles)) = &proxy.groups {
        let groups = text(headers, header)?.unwrap_or_default();
        let groups = groups.split(separator(header)).map(str::trim);
        role = groups.filter_map(|group| roles.get(group)).copied().max();
    }
    match role.or(proxy.role) {
        Some(role) => Ok(Some(Identity {
            role,
            name: Some(name.to_owned()),
        })),
        None => Err(Refused::no_group()),
    }
}

/// What separates groups: a comma, and a bar in the header of authentik. A group whose name has the other sign must not become two.
fn separator(header: &HeaderName) -> char {
    if header.as_str() == "x-authentik-groups" {
        '|'
    } else {
        ','
    }
}

/// The text of a header, which must not be repeated: somebody between may have added one.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Refused> {
    let value = only(headers, name.clone())?;
    let text = value
        .map(|value| str::from_utf8(value.as_bytes()))
        .transpose();
    let text = text.map_err(|_| Refused::invalid(format!("`{name}` is not text")))?;
    Ok(text.map(str::trim))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use hyper::header::HeaderValue;

    const PROXY: &str = "10.0.0.5:4242";

    fn proxy(role: Option<AdminRole>, groups: &[(&str, AdminRole)]) -> AdminProxy {
        let roles: BTreeMap<_, _> = groups
            .iter()
            .map(|(name, role)| ((*name).to_owned(), *role))
            .collect();
        let header = HeaderName::from_static("x-groups");
        AdminProxy {
            header: HeaderName::from_static("x-user"),
            from: vec!["10.0.0.5/32".parse().unwrap(), "fd00::/8".parse().unwrap()],
            role,
            groups: (!roles.is_empty()).then_some((header, roles)),
        }
    }

    fn of(
        proxy: &AdminProxy,
        peer: &str,
        headers: &[(&'static str, &[u8])],
    ) -> Result<Option<(String, AdminRole)>, Refused> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let found = identity(proxy, Peer::Address(peer.parse().unwrap()), &map)?;
        Ok(found.map(|it| (it.name.unwrap(), it.role)))
    }

    #[test]
    fn a_name_is_believed_from_the_proxy_and_ignored_from_all_others() {
        let proxy = proxy(Some(AdminRole::Act), &[]);
        let ana = [("x-user", b"ana@example.com".as_slice())];
        let expected = Some(("ana@example.com".to_owned(), AdminRole::Act));
        for peer in [PROXY, "[::ffff:10.0.0.5]:1", "[fd00::7]:1"] {
            assert_eq!(of(&proxy, peer, &ana), Ok(expected.clone()), "{peer}");
        }
        for peer in [
            "10.0.0.6:4242",
            "127.0.0.1:1",
            "[::1]:1",
            "[::ffff:10.0.0.6]:1",
            "[fe80::1]:1",
        ] {
            assert_eq!(of(&proxy, peer, &ana), Ok(None), "{peer}");
            // Nor is anything wrong with it: it is not looked at.
            let twice = [ana, ana].concat();
            assert_eq!(of(&proxy, peer, &twice), Ok(None), "{peer}");
        }
        let process = Peer::Process { uid: 0, pid: None };
        let mut headers = HeaderMap::new();
        headers.insert("x-user", HeaderValue::from_static("ana"));
        assert_eq!(identity(&proxy, process, &headers).unwrap(), None);
    }

    #[test]
    fn a_header_that_is_missing_repeated_or_no_name_makes_nobody() {
        let proxy = proxy(Some(AdminRole::Act), &[]);
        let long = [b'x'; NAME_BYTES + 1];
        for headers in [
            &[] as &[(&'static str, &[u8])],
            &[("x-user", b"".as_slice())],
            &[("x-user", b"  ")],
            &[("x_user", b"ana")],
            &[("x-users", b"ana")],
        ] {
            assert_eq!(of(&proxy, PROXY, headers), Ok(None), "{headers:?}");
        }
        for headers in [
            [("x-user", b"ana".as_slice()), ("x-user", b"ana")].as_slice(),
            &[("x-user", b""), ("x-user", b"ana")],
            &[("x-user", b"\xff\xfe")],
            &[("x-user", &long)],
        ] {
            assert!(of(&proxy, PROXY, headers).is_err(), "{headers:?}");
        }
    }

    #[test]
    fn the_most_that_one_of_the_groups_may_counts() {
        let groups = [("sre", AdminRole::Act), ("support", AdminRole::Bodies)];
        let (strict, open) = (proxy(None, &groups), proxy(Some(AdminRole::View), &groups));
        let user = ("x-user", b"ana".as_slice());
        for (named, least, most) in [
            (b"sre".as_slice(), Some(AdminRole::Act), AdminRole::Act),
            (b"support", Some(AdminRole::Bodies), AdminRole::Bodies),
            (b"a, support ,sre", Some(AdminRole::Act), AdminRole::Act),
            // A group whose name has another sign is none of ours.
            (b"me|sre|support", None, AdminRole::View),
            (b"", None, AdminRole::View),
            (b"SRE", None, AdminRole::View),
            (b"sre-x,xsre,s re", None, AdminRole::View),
        ] {
            let headers = [user, ("x-groups", named)];
            let role = |proxy| of(proxy, PROXY, &headers).map(|it| it.unwrap().1);
            assert_eq!(role(&strict).ok(), least, "{named:?}");
            assert_eq!(role(&open), Ok(most), "{named:?}");
        }
        assert!(of(&strict, PROXY, &[user]).is_err());
        let twice = [user, ("x-groups", b"a"), ("x-groups", b"sre")];
        assert!(of(&open, PROXY, &twice).is_err());
        let authentik = HeaderName::from_static("x-authentik-groups");
        assert_eq!(
            (separator(&authentik), separator(&strict.header)),
            ('|', ',')
        );
        // Groups of nobody are nothing.
        assert_eq!(of(&open, PROXY, &[("x-groups", b"sre")]), Ok(None));
    }
}
