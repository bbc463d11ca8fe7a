//! What the operator says of registries.

/// How registries are contacted. Each host is given as `HOST` or `HOST:PORT`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistryOptions {
    /// The registries without TLS, in addition to those on this machine.
    pub plain_http: Vec<String>,
    /// The servers that a registry may send its user to for a token, with the credentials, in addition to its own host.
    pub token_servers: Vec<String>,
}
