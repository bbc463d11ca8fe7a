//! Where the admin interface is served, `admin` and the keys that begin so, and which hosts commands query and the page shows: `fleet`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::{AdminProxy, ConfigError, Places, admin_proxy, admin_url, listen_address, raw, value};

/// An address for the admin interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminConfig {
    /// The address.
    pub address: SocketAddr,
    /// The file with the token. Without one, the token of the environment is used, if there is one.
    pub token_file: Option<PathBuf>,
    /// The file with the token of those who look and see the bodies of messages.
    pub bodies_token_file: Option<PathBuf>,
    /// The file with the token of those who only look.
    pub view_token_file: Option<PathBuf>,
    /// The names by which the interface is reached, besides `localhost` and addresses.
    pub hosts: Vec<String>,
    /// The proxy that names who has signed in.
    pub proxy: Option<AdminProxy>,
}

/// Checks and converts the values of the interface.
pub(super) fn convert(
    address: Option<&str>,
    [token_file, bodies_token_file, view_token_file]: [Option<PathBuf>; 3],
    hosts: Option<Vec<String>>,
    proxy: Option<raw::AdminProxy>,
    folder: &Path,
    places: &Places,
) -> Result<Option<AdminConfig>, ConfigError> {
    let Some(address) = address else {
        let alone = [
            ("admin-token-file", token_file.is_some()),
            ("admin-bodies-token-file", bodies_token_file.is_some()),
            ("admin-view-token-file", view_token_file.is_some()),
            ("admin-hosts", hosts.is_some()),
            ("admin-proxy", proxy.is_some()),
        ];
        return match alone.iter().find(|(_, is_set)| *is_set) {
            Some((key, _)) => Err(value(
                places.of(key),
                "expected `admin` too, the address of the admin interface, such as 127.0.0.1:9465",
            )),
            None => Ok(None),
        };
    };
    let lesser = [
        ("admin-bodies-token-file", &bodies_token_file),
        ("admin-view-token-file", &view_token_file),
    ];
    if token_file.is_none()
        && let Some((key, _)) = lesser.iter().find(|(_, file)| file.is_some())
    {
        return Err(value(
            places.of(key),
            "expected `admin-token-file` too, with the token of those who act: without one, everybody would have to be allowed to",
        ));
    }
    let hosts = hosts.unwrap_or_default();
    if let Some(invalid) = hosts.iter().find(|name| !is_host_name(name)) {
        return Err(value(
            places.of("admin-hosts"),
            format!(
                "`{invalid}` is not the name of a host: expected one without scheme and port, such as backstop.internal"
            ),
        ));
    }
    Ok(Some(AdminConfig {
        address: listen_address(&places.of("admin"), address, 9465)?,
        token_file: token_file.map(|path| folder.join(path)),
        bodies_token_file: bodies_token_file.map(|path| folder.join(path)),
        view_token_file: view_token_file.map(|path| folder.join(path)),
        hosts,
        proxy: proxy
            .map(|proxy| admin_proxy::convert(proxy, places))
            .transpose()?,
    }))
}

/// Checks the URLs of the hosts that commands query. An empty list would be no hosts, and not those of this machine.
pub(super) fn fleet(
    urls: Option<Vec<String>>,
    places: &Places,
) -> Result<Vec<String>, ConfigError> {
    let Some(urls) = urls else {
        return Ok(Vec::new());
    };
    let such_as = "expected one such as http://10.0.0.7:9465, or dns+http://backstop.internal:9465 for all hosts behind a name";
    if urls.is_empty() {
        let text = format!(
            "no host: {such_as}; without `fleet`, commands query the hosts of this machine"
        );
        return Err(value(places.of("fleet"), text));
    }
    match urls.iter().find(|url| admin_url(url).is_none()) {
        Some(invalid) => Err(value(
            places.of("fleet"),
            format!("`{invalid}` is not the URL of a host's admin interface: {such_as}"),
        )),
        None => Ok(urls),
    }
}

/// Whether a text is a name of DNS.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
