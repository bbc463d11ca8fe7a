//! A registry's answer to a request without credentials.

use http_auth::parser::ChallengeParser;

/// Where to get tokens for a registry.
#[derive(Debug, PartialEq, Eq)]
pub struct Challenge {
    /// The URL of the token server, not yet checked.
    pub realm: String,
    /// The name of the registry there.
    pub service: Option<String>,
}

impl Challenge {
    /// Parses a `WWW-Authenticate` header; `None` if it requires no token.
    pub fn of(header: &str) -> Option<Self> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_names_the_token_server() {
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
