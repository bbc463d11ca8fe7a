//! The admin interface at an address: for other machines, probes and pages.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::net::TcpListener;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use super::guard::{Guard, Role};
use super::interface::Interface;
use super::page::Page;
use super::router;
use super::token::{TOKEN_VARIABLE, Token, TokenError};
use crate::config::AdminConfig;
use crate::http_server;
use crate::text::chain;

/// How often the file of the token is read, so that the token can be replaced while the host runs.
const TOKEN_REFRESH: Duration = Duration::from_secs(10);

/// Why the admin interface can't be served.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The address is in use, or not one of this machine.
    #[error(
        "can't serve the admin interface at {address}: expected a free address of this machine"
    )]
    Address {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// The token can't be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Other machines can reach the address, and there is no token.
    #[error(
        "the admin interface at {address} can be reached from other machines, and needs a token: expected one in the file of `admin-token-file` or in the environment variable {TOKEN_VARIABLE}, or an address of this machine only, such as 127.0.0.1:{}",
        address.port()
    )]
    NoToken {
        /// The address.
        address: SocketAddr,
    },
}

/// Serves the interface at an address until dropped.
#[derive(Debug)]
pub(crate) struct Address {
    _tasks: JoinSet<()>,
}

impl Address {
    /// The token that requests need, if they need one.
    pub(crate) fn token(config: &AdminConfig) -> Result<Option<Token>, AdminError> {
        let address = config.address;
        let token = match &config.token_file {
            Some(path) => Some(Token::read(path)?),
            None => Token::from_environment()?,
        };
        match token {
            None if !is_of_this_machine(address) => Err(AdminError::NoToken { address }),
            token => Ok(token),
        }
    }

    /// Listens and answers. The page shows the hosts at the URLs of the fleet, too.
    pub(crate) async fn start(
        config: &AdminConfig,
        fleet: &[String],
        interface: &Arc<Interface>,
    ) -> Result<Self, AdminError> {
        let address = config.address;
        let token = Self::token(config)?;
        let failed = |cause| AdminError::Address { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let token = token.map(|token| Arc::new(ArcSwap::from_pointee(token)));
        let mut tasks = JoinSet::new();
        if let (Some(token), Some(path)) = (&token, &config.token_file) {
            tasks.spawn(refresh(Arc::clone(token), path.clone()));
        }
        let mut tokens: Vec<_> = token.iter().map(|it| (Role::Act, Arc::clone(it))).collect();
        if let Some(path) = &config.view_token_file {
            let view = Arc::new(ArcSwap::from_pointee(Token::read(path)?));
            tasks.spawn(refresh(Arc::clone(&view), path.clone()));
            tokens.push((Role::View, view));
        }
        tracing::info!("serving the admin interface at http://{address}");
        let guard = Arc::new(Guard::new(tokens, config.hosts.clone()));
        let page = Page::new(interface, Arc::clone(&guard), fleet.to_vec(), token);
        let app = router::app(Arc::clone(interface), guard, page);
        tasks.spawn(http_server::serve(listener, app));
        Ok(Self { _tasks: tasks })
    }
}

/// Whether only this machine can reach an address.
fn is_of_this_machine(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Replaces the token when its file has another one. While the file can't be used, the token stays.
async fn refresh(token: Arc<ArcSwap<Token>>, path: PathBuf) {
    let mut was_usable = true;
    loop {
        sleep(TOKEN_REFRESH).await;
        let file = path.clone();
        let Ok(read) = spawn_blocking(move || Token::read(&file)).await else {
            continue;
        };
        let is_usable = read.is_ok();
        match read {
            Ok(new) if !token.load().matches(new.secret().as_bytes()) => {
                token.store(Arc::new(new));
                tracing::info!(path = %path.display(), "the admin interface has a new token");
            }
            Ok(_) => {}
            Err(error) if was_usable => {
                tracing::warn!(
                    "the token of the admin interface can't be read again, and the last one stays valid: {}",
                    chain(&error)
                );
            }
            Err(_) => {}
        }
        was_usable = is_usable;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_need_no_token() {
        for (address, is_own) in [
            ("127.0.0.1:9465", true),
            ("127.8.9.10:1", true),
            ("[::1]:9465", true),
            ("[::ffff:127.0.0.1]:9465", true),
            ("0.0.0.0:9465", false),
            ("[::]:9465", false),
            ("10.0.0.1:9465", false),
            ("[::ffff:10.0.0.1]:9465", false),
            ("[fe80::1]:9465", false),
        ] {
            assert_eq!(
                is_of_this_machine(address.parse().unwrap()),
                is_own,
                "{address}"
            );
        }
    }
}
