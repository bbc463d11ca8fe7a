//! Who looks at the page: a cookie with a name and a role, signed with a key that is made from the token. Hosts of a fleet have the same token, so a session is valid at all of them; it ends when the token is replaced.

use std::time::Duration;

use backstop_core::failure::Timestamp;
use backstop_core::text::{cut, one_line};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use hyper::HeaderMap;
use hyper::header::COOKIE;
use sha2::Sha256;

use crate::admin::guard::Role;
use crate::admin::proxy::Identity;
use crate::admin::token::Token;

/// The name of the cookie, which all ports of a machine share: hosts with the same token may.
pub(super) const NAME: &str = "backstop";

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 3_600);

/// The most bytes of a name.
const NAME_BYTES: usize = 100;

/// The most bytes of a cookie that is read.
const COOKIE_BYTES: usize = 1_024;

/// Who looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    /// The name, as the person gave it or the proxy names it.
    pub(super) name: String,
    pub(super) role: Role,
    /// Whether the proxy has signed the person in: nothing else proves a name.
    pub(super) is_by_proxy: bool,
}

impl Session {
    /// The one of somebody whom the proxy names.
    pub(super) fn by_proxy(named: Identity) -> Option<Self> {
        Some(Self {
            name: named.name?,
            role: named.role,
            is_by_proxy: true,
        })
    }
}

/// The name as it is shown and logged.
pub(super) fn name(given: &str) -> String {
    let mut name = one_line(given.trim());
    cut(&mut name, NAME_BYTES);
    name
}

/// The cookie of a session, until it ends.
pub(super) fn cookie(of: &str, session: &Session, token: &Token, now: Timestamp) -> String {
    let ends = now.plus(LASTS).0;
    let role = session.role.name();
    let signed = format!("{ends}.{role}.{}", URL_SAFE_NO_PAD.encode(&session.name));
    let code = URL_SAFE_NO_PAD.encode(code(token, &signed));
    let seconds = LASTS.as_secs();
    format!("{of}={signed}.{code}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax")
}

/// The cookie that ends a session.
pub(super) fn no_cookie(of: &str) -> String {
    format!("{of}=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax")
}

/// The session of a request, if one of the tokens has signed it and it has not ended.
pub(super) fn of(
    name: &str,
    headers: &HeaderMap,
    tokens: &[(Role, Token)],
    now: Timestamp,
) -> Option<Session> {
    let cookies = headers.get_all(COOKIE).iter();
    let mut values = cookies
        .filter_map(|header| header.to_str().ok())
        .flat_map(|header| header.split(';'))
        .filter_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='));
    values.find_map(|value| read(value, tokens, now))
}

fn read(value: &str, tokens: &[(Role, Token)], now: Timestamp) -> Option<Session> {
    if value.len() > COOKIE_BYTES {
        return None;
    }
    let (signed, code) = value.rsplit_once('.')?;
    let code = URL_SAFE_NO_PAD.decode(code).ok()?;
    let mut parts = signed.splitn(3, '.');
    let ends: u64 = parts.next()?.parse().ok()?;
    let role = Role::named(parts.next()?)?;
    let name = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    let mut tokens = tokens.iter().filter(|(of, _)| *of == role);
    let is_signed = tokens.any(|(_, token)| mac(token, signed).verify_slice(&code).is_ok());
    let name = String::from_utf8(name).ok()?;
    (is_signed && now.0 < ends).then_some(Session {
        name,
        role,
        is_by_proxy: false,
    })
}

fn code(token: &Token, signed: &str) -> Vec<u8> {
    mac(token, signed).finalize().into_bytes().to_vec()
}

fn mac(token: &Token, signed: &str) -> Hmac<Sha256> {
    // A code for something else with the same key would be none for this.
    let mut mac = Hmac::<Sha256>::new_from_slice(token.secret().as_bytes())
        .unwrap_or_else(|_| unreachable!("a key of any length will do"));
    mac.update(b"backstop page session\n");
    mac.update(signed.as_bytes());
    mac
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn token(text: &str) -> Token {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path()).unwrap()
    }

    fn found(cookie: &str, tokens: &[(Role, Token)], now: u64) -> Option<Session> {
        let mut headers = HeaderMap::new();
        let pair = cookie.split(';').next().unwrap();
        let text = format!("other=1; {pair}; backstop=nonsense");
        headers.insert(COOKIE, HeaderValue::from_str(&text).unwrap());
        of(NAME, &headers, tokens, Timestamp(now))
    }

    #[test]
    fn a_session_is_read_by_hosts_with_its_token_until_it_ends() {
        let (one, other) = (token("0123456789abcdef0"), token("another-0123456789"));
        let session = Session {
            name: "Ana Ünal; admin".to_owned(),
            role: Role::Act,
            is_by_proxy: false,
        };
        let cookie = cookie(NAME, &session, &one, Timestamp(1_000));
        let of = |role, token: &Token| vec![(role, token.clone())];
        let ends = 1_000 + 12 * 3_600_000;
        assert_eq!(found(&cookie, &of(Role::Act, &one), 2_000), Some(session));
        for (tokens, now) in [
            (of(Role::Act, &one), ends),
            (of(Role::Act, &other), 2_000),
            // The token for those who only look does not make anybody an operator.
            (of(Role::View, &one), 2_000),
            (Vec::new(), 2_000),
        ] {
            assert_eq!(found(&cookie, &tokens, now), None);
        }
    }

    #[test]
    fn a_changed_cookie_is_none() {
        let token = token("0123456789abcdef0");
        let session = Session {
            name: "ana".to_owned(),
            role: Role::View,
            is_by_proxy: false,
        };
        let cookie = cookie(NAME, &session, &token, Timestamp(1_000));
        let tokens = [(Role::View, token.clone()), (Role::Act, token)];
        let value = cookie.split(';').next().unwrap();
        assert!(found(value, &tokens, 2_000).is_some());
        for changed in [
            value.replace(".view.", ".act."),
            value.replacen("4320", "9320", 1),
            format!("{value}A"),
            value.replace(
                &URL_SAFE_NO_PAD.encode("ana"),
                &URL_SAFE_NO_PAD.encode("bob"),
            ),
            value.rsplit_once('.').unwrap().0.to_owned(),
            "backstop=".to_owned(),
            format!("backstop={}", "x".repeat(5_000)),
        ] {
            assert_eq!(found(&changed, &tokens, 2_000), None, "{changed}");
        }
    }
}
