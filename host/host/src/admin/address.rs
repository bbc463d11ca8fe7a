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

use super::guard::{Guard, Role, Tokens};
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
    /// Two tokens are the same: who has one could do what the other one is for.
    #[error(
        "the tokens of `{one}` and `{other}` are the same: expected another one in each, such as the output of `openssl rand -hex 32`"
    )]
    Same {
        /// The key of one.
        one: &'static str,
        /// The key of the other one.
        other: &'static str,
    },
    /// Without a token, everybody on this machine may act, and no request can come from the proxy.
    #[error(
        "without a token, everybody on this machine may act, and `admin-proxy` changes that only for requests that come from {} itself: name it in `from`, or set `admin-token-file`", address.ip()
    )]
    ProxyElsewhere {
        /// The address of the interface.
        address: SocketAddr,
    },
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

/// A token, what it is good for, and where it is from.
#[derive(Debug)]
pub(crate) struct Found {
    role: Role,
    token: Token,
    /// Its key in the configuration, or its environment variable.
    key: &'static str,
    file: Option<PathBuf>,
}

impl Address {
    /// The tokens of which requests need one. Without any, they need none.
    pub(crate) fn tokens(config: &AdminConfig) -> Result<Vec<Found>, AdminError> {
        let mut tokens = Vec::<Found>::new();
        if config.token_file.is_none()
            && let Some(token) = Token::from_environment()?
        {
            tokens.push(Found {
                role: Role::Act,
                token,
                key: TOKEN_VARIABLE,
                file: None,
            });
        }
        for (role, key, file) in [
            (Role::Act, "admin-token-file", &config.token_file),
            (
                Role::Bodies,
                "admin-bodies-token-file",
                &config.bodies_token_file,
            ),
            (Role::View, "admin-view-token-file", &config.view_token_file),
        ] {
            let Some(path) = file else { continue };
            let token = Token::read(path)?;
            let same = |it: &&Found| it.token.matches(token.secret().as_bytes());
            if let Some(Found { key: one, .. }) = tokens.iter().find(same) {
                let (one, other) = (*one, key);
                return Err(AdminError::Same { one, other });
            }
            tokens.push(Found {
                role,
                token,
                key,
                file: Some(path.clone()),
            });
        }
        if tokens.is_empty() && !is_of_this_machine(config.address) {
            return Err(AdminError::NoToken {
                address: config.address,
            });
        }
        if let (true, Some(proxy)) = (tokens.is_empty(), &config.proxy) {
            let own = config.address.ip().to_canonical();
            if !proxy.from.iter().any(|network| network.contains(&own)) {
                let address = config.address;
                return Err(AdminError::ProxyElsewhere { address });
            }
        }
        Ok(tokens)
    }

    /// Listens and answers. The page shows the hosts at the URLs of the fleet, too.
    pub(crate) async fn start(
        config: &AdminConfig,
        fleet: &[String],
        interface: &Arc<Interface>,
    ) -> Result<Self, AdminError> {
        let address = config.address;
        let found = Self::tokens(config)?;
        let failed = |cause| AdminError::Address { address, cause };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (mut tokens, mut files) = (Tokens::new(), Vec::new());
        for it in found {
            let token = Arc::new(ArcSwap::from_pointee(it.token));
            files.extend(it.file.map(|path| (Arc::clone(&token), path)));
            tokens.push((it.role, token));
        }
        let mut tasks = JoinSet::new();
        for (token, path) in files {
            let others = tokens.iter().map(|(_, other)| Arc::clone(other));
            let others = others.filter(|other| !Arc::ptr_eq(other, &token)).collect();
            tasks.spawn(refresh(token, path, others));
        }
        tracing::info!("serving the admin interface at http://{address}");
        if let Some(proxy) = &config.proxy {
            let from = proxy.from.iter().map(ToString::to_string);
            let from = from.collect::<Vec<_>>().join(", ");
            let header = proxy.header.as_str();
            tracing::info!(header, from, "a proxy names who uses the admin interface");
        }
        let acting = tokens.iter().find(|(role, _)| *role == Role::Act);
        let acting = acting.map(|(_, token)| Arc::clone(token));
        let guard = Arc::new(Guard::new(
            tokens,
            config.hosts.clone(),
            config.proxy.clone(),
        ));
        let page = Page::new(interface, Arc::clone(&guard), fleet.to_vec(), acting);
        let app = router::app(Arc::clone(interface), guard, page);
        tasks.spawn(http_server::serve(listener, app));
        Ok(Self { _tasks: tasks })
    }
}

/// Whether only this machine can reach an address.
fn is_of_this_machine(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Replaces the token when its file has another one. While the file can't be used, or has the token of another file, the token stays.
async fn refresh(token: Arc<ArcSwap<Token>>, path: PathBuf, others: Vec<Arc<ArcSwap<Token>>>) {
    let mut was_usable = true;
    loop {
        sleep(TOKEN_REFRESH).await;
        let file = path.clone();
        let Ok(read) = spawn_blocking(move || Token::read(&file)).await else {
            continue;
        };
        let (is, path) = (
            |it: &Token, of: &ArcSwap<Token>| it.matches(of.load().secret().as_bytes()),
            path.display(),
        );
        let why = match read {
            Ok(new) if others.iter().any(|other| is(&new, other)) => {
                "it is the token of another file".to_owned()
            }
            Ok(new) if is(&new, &token) => String::new(),
            Ok(new) => {
                token.store(Arc::new(new));
                tracing::info!(%path, "the admin interface has a new token");
                String::new()
            }
            Err(error) => chain(&error),
        };
        if !why.is_empty() && was_usable {
            tracing::warn!(
                %path,
                "the token of the admin interface can't be read again, and the last one stays valid: {why}"
            );
        }
        was_usable = why.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_token_is_not_replaced_by_that_of_another_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (act, view) = ("a-token-to-act-0123456789", "a-token-to-look-0123456789");
        let [act_file, view_file] = [write("act", act), write("view", view)];
        let kept = |path| Arc::new(ArcSwap::from_pointee(Token::read(path).unwrap()));
        let (acting, looking) = (kept(&act_file), kept(&view_file));
        let others = vec![Arc::clone(&acting)];
        let _task = tokio::spawn(refresh(Arc::clone(&looking), view_file, others));
        for (text, expected) in [
            (act, view),
            ("", view),
            ("another-token-0123456789", "another-token-0123456789"),
        ] {
            write("view", text);
            sleep(TOKEN_REFRESH * 2).await;
            let now = looking.load();
            assert!(now.matches(expected.as_bytes()), "{text}");
        }
    }

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
