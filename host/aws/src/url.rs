//! Validates URLs before they are used.

use url::Url;

/// Validates an endpoint that replaces AWS's own: a scheme, a host and a port.
pub fn parse_endpoint(text: &str) -> Result<String, String> {
    let url = http_url(text).map_err(|why| {
        format!("`{text}` is not an endpoint: {why}, such as http://127.0.0.1:4566")
    })?;
    let surplus = match (url.path(), url.query(), url.fragment()) {
        ("/" | "", None, None) if url.username().is_empty() && url.password().is_none() => {
            return Ok(text.to_owned());
        }
        ("/" | "", None, None) => "credentials",
        ("/" | "", _, _) => "a query",
        _ => "a path",
    };
    Err(format!(
        "`{text}` is not an endpoint: it has {surplus}, expected a scheme, a host and a port alone, such as http://127.0.0.1:4566"
    ))
}

/// Parses a URL that can be connected to; the error says what is wrong with it.
pub fn http_url(text: &str) -> Result<Url, String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(format!("it has no scheme, expected http://{text}"));
    };
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return Err(format!(
            "its scheme is {scheme}://, expected http:// or https://"
        ));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return Err("it has no host, expected one".to_owned());
    }
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && !port.ends_with(']'));
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err("the port is not a number up to 65535, expected one".to_owned());
    }
    Url::parse(text).map_err(|why| format!("{why}, expected a host and a port"))
}
