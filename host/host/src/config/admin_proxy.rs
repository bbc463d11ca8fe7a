//! An authenticating proxy in front of the admin interface, by the names of its headers and by its addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hyper::header::HeaderName;
use ipnet::IpNet;

use super::{AdminRole, ConfigError, Places, raw, value};

/// A proxy that signs people in and names them in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminProxy {
    /// The header with the name.
    pub header: HeaderName,
    /// Its addresses.
    pub from: Vec<IpNet>,
    /// What those may do who are in none of the groups.
    pub role: Option<AdminRole>,
    /// The header with the groups, and what each of them may do.
    pub groups: Option<(HeaderName, BTreeMap<String, AdminRole>)>,
}

/// The shortest prefixes: a shorter one has addresses of strangers in it.
const SHORTEST: [u8; 2] = [8, 7];

/// Headers that browsers and clients send by themselves.
const OTHERS: [&str; 9] = [
    "accept",
    "authorization",
    "content-type",
    "cookie",
    "host",
    "origin",
    "referer",
    "user-agent",
    "x-backstop-user",
];

/// Checks and converts the table.
pub(super) fn convert(raw: raw::AdminProxy, places: &Places) -> Result<AdminProxy, ConfigError> {
    let place = |key: &str| places.of(&format!("admin-proxy.{key}"));
    let header = header(&raw.header).map_err(|expected| value(place("header"), expected))?;
    if raw.from.is_empty() {
        return Err(value(
            place("from"),
            "no address: expected those of the proxy, such as 10.0.0.5 or 10.0.1.0/24",
        ));
    }
    let from = raw.from.iter().map(|text| network(text));
    let from: Result<Vec<_>, _> = from.collect();
    let from = from.map_err(|expected| value(place("from"), expected))?;
    let groups = match (raw.groups_header, raw.groups) {
        (None, None) => None,
        (Some(_), Some(groups)) if groups.is_empty() => {
            let expected = "no group: expected what each may do, such as { sre = \"act\" }";
            return Err(value(place("groups"), expected));
        }
        (Some(name), Some(groups)) => {
            let named = self::header(&name);
            let named = named.map_err(|expected| value(place("groups-header"), expected))?;
            if named == header {
                let expected = "expected another header than that of `header`";
                return Err(value(place("groups-header"), expected));
            }
            let is_name = |name: &&String| {
                name.trim() == name.as_str() && !name.is_empty() && !name.contains([',', '|'])
            };
            if let Some(wrong) = groups.keys().find(|name| !is_name(name)) {
                return Err(value(
                    place("groups"),
                    format!(
                        "`{wrong}` is not the name of a group: expected one without commas and bars"
                    ),
                ));
            }
            Some((named, groups))
        }
        (Some(_), None) => {
            let expected = "expected `groups` too: what each may do, such as { sre = \"act\" }";
            return Err(value(place("groups-header"), expected));
        }
        (None, Some(_)) => {
            let expected = "expected `groups-header` too: the header in which the proxy names the groups of who has signed in, such as x-forwarded-groups";
            return Err(value(place("groups"), expected));
        }
    };
    if raw.role.is_none() && groups.is_none() {
        return Err(value(
            place("role"),
            "is missing: expected what everybody whom the proxy names may do, view, bodies or act; or `groups-header` and `groups`",
        ));
    }
    Ok(AdminProxy {
        header,
        from,
        role: raw.role,
        groups,
    })
}

fn header(text: &str) -> Result<HeaderName, String> {
    let such_as = "expected one that the proxy sets itself, such as x-forwarded-user";
    let name = HeaderName::from_bytes(text.as_bytes());
    let name = name.map_err(|_| format!("`{text}` is not the name of a header: {such_as}"))?;
    if OTHERS.contains(&name.as_str()) || name.as_str().starts_with("sec-") {
        return Err(format!("clients send `{name}` themselves: {such_as}"));
    }
    Ok(name)
}

/// `10.0.0.5`, or `10.0.1.0/24`. One that has nearly everybody in it is a mistake.
fn network(text: &str) -> Result<IpNet, String> {
    let one = text.parse::<IpAddr>().map(|it| it.to_canonical());
    let network = match one {
        Ok(address) => Ok(IpNet::from(address)),
        Err(_) => text.parse::<IpNet>(),
    };
    let network = network.map_err(|_| {
        format!(
            "`{text}` is no address: expected those of the proxy, such as 10.0.0.5 or 10.0.1.0/24"
        )
    })?;
    let [shortest_4, shortest_6] = SHORTEST;
    let (shortest, is_mapped) = match network {
        IpNet::V4(_) => (shortest_4, false),
        IpNet::V6(it) => (shortest_6, it.addr().to_ipv4_mapped().is_some()),
    };
    if is_mapped {
        return Err(format!("`{text}` is an address of IPv4: write it as such"));
    }
    if network.addr().is_unspecified() || network.prefix_len() < shortest {
        return Err(format!(
            "`{text}` has the addresses of strangers in it: expected those of the proxy, such as 10.0.0.5 or 10.0.1.0/24"
        ));
    }
    if network.trunc() != network {
        return Err(format!(
            "`{text}` is neither an address nor a network: expected {} or {}",
            network.addr(),
            network.trunc()
        ));
    }
    Ok(network)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::Config;

    fn parse(table: &str, before: &str) -> Result<Config, String> {
        let text = format!(
            "{before}\n[admin-proxy]\n{table}\n[queues.q]\nurl = \"local:q\"\nhandler = {{ exec = \"true\" }}\n"
        );
        let config = Config::parse(&text, Path::new("x"));
        config.map_err(|error| backstop_core::text::chain(&error))
    }

    #[test]
    fn a_proxy_has_a_header_addresses_and_roles() {
        const ADMIN: &str = "admin = \"127.0.0.1:0\"";
        let of = |table: &str| parse(table, ADMIN).unwrap().admin.unwrap().proxy.unwrap();
        let proxy = of(
            "header = \"X-Forwarded-User\"\nfrom = [\"10.0.0.5\", \"10.0.1.0/24\", \"fd00::/8\", \"::ffff:10.1.1.1\"]\nrole = \"view\"",
        );
        assert_eq!(proxy.header, "x-forwarded-user");
        let from: Vec<_> = proxy.from.iter().map(ToString::to_string).collect();
        assert_eq!(
            from,
            ["10.0.0.5/32", "10.0.1.0/24", "fd00::/8", "10.1.1.1/32"]
        );
        let proxy = of(
            "header = \"remote-user\"\nfrom = [\"::1\"]\ngroups-header = \"remote-groups\"\ngroups = { sre = \"act\", support = \"bodies\" }",
        );
        assert_eq!((proxy.role, proxy.groups.unwrap().1.len()), (None, 2));
    }

    #[test]
    fn a_proxy_that_could_be_anybody_is_rejected_with_its_place() {
        const ADMIN: &str = "admin = \"127.0.0.1:0\"";
        const USER: &str = "header = \"x-user\"\n";
        const FROM: &str = "from = [\"10.0.0.5\"]\n";
        for (table, expected) in [
            (String::new(), "admin-proxy: the key `header` is missing"),
            (USER.to_owned(), "admin-proxy: the key `from` is missing"),
            (
                format!("{USER}from = []\nrole = \"view\""),
                "admin-proxy.from: no address: expected those of the proxy",
            ),
            (
                format!("{USER}{FROM}"),
                "admin-proxy.role: is missing: expected what everybody whom the proxy names may do",
            ),
            (
                format!("{FROM}role = \"view\""),
                "admin-proxy: the key `header` is missing",
            ),
            (
                format!("header = \"\"\n{FROM}role = \"view\""),
                "admin-proxy.header: `` is not the name of a header",
            ),
            (
                format!("header = \"x user\"\n{FROM}role = \"view\""),
                "admin-proxy.header: `x user` is not the name of a header",
            ),
            (
                format!("header = \"Cookie\"\n{FROM}role = \"view\""),
                "admin-proxy.header: clients send `cookie` themselves",
            ),
            (
                format!("header = \"sec-fetch-user\"\n{FROM}role = \"view\""),
                "clients send `sec-fetch-user` themselves",
            ),
            (format!("{USER}{FROM}role = \"admin\""), "view"),
            (
                format!("{USER}{FROM}groups = {{ sre = \"act\" }}"),
                "admin-proxy.groups: expected `groups-header` too",
            ),
            (
                format!("{USER}{FROM}groups-header = \"x-groups\""),
                "admin-proxy.groups-header: expected `groups` too",
            ),
            (
                format!("{USER}{FROM}groups-header = \"x-groups\"\ngroups = {{}}"),
                "admin-proxy.groups: no group",
            ),
            (
                format!("{USER}{FROM}groups-header = \"X-User\"\ngroups = {{ sre = \"act\" }}"),
                "admin-proxy.groups-header: expected another header",
            ),
            (
                format!(
                    "{USER}{FROM}groups-header = \"x-groups\"\ngroups = {{ \"a, b\" = \"act\" }}"
                ),
                "admin-proxy.groups: `a, b` is not the name of a group",
            ),
        ] {
            let error = parse(&table, ADMIN).unwrap_err();
            assert!(error.contains(expected), "{table}: {error}");
        }
        for (address, expected) in [
            ("", "is no address"),
            ("*", "is no address"),
            ("proxy.internal", "is no address"),
            ("10.0.0.5:80", "is no address"),
            ("0.0.0.0", "has the addresses of strangers"),
            ("::", "has the addresses of strangers"),
            ("0.0.0.0/0", "has the addresses of strangers"),
            ("128.0.0.0/1", "has the addresses of strangers"),
            ("::/0", "has the addresses of strangers"),
            ("2000::/3", "has the addresses of strangers"),
            ("::ffff:0.0.0.0/96", "write it as such"),
            ("10.0.0.5/24", "expected 10.0.0.5 or 10.0.0.0/24"),
        ] {
            let table = format!("{USER}from = [\"10.0.0.9\", \"{address}\"]\nrole = \"act\"");
            let error = parse(&table, ADMIN).unwrap_err();
            let expected = format!("{address}` {expected}");
            let found =
                error.contains(&expected) || error.contains(expected.rsplit("` ").next().unwrap());
            assert!(
                found && error.contains("admin-proxy.from: "),
                "{address}: {error}"
            );
        }
        let table = format!("{USER}{FROM}role = \"view\"");
        let error = parse(&table, "").unwrap_err();
        assert!(
            error.contains("admin-proxy: expected `admin` too"),
            "{error}"
        );
    }
}
