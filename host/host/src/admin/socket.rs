//! The control socket: the admin interface for this machine's commands.
//!
//! It is a Unix socket in the private cache directory of the host's policies, so that whoever may write to the directory may send requests. There is no token.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio::task::JoinSet;

use super::interface::Interface;
use super::router;
use crate::http_server;
use crate::policy::Store;

/// Serves the control socket until dropped.
#[derive(Debug)]
pub struct ControlSocket {
    path: PathBuf,
    _server: JoinSet<()>,
}

impl ControlSocket {
    /// Serves the interface on a socket in the store.
    pub fn listen(store: &Store, interface: &Arc<Interface>) -> io::Result<Self> {
        let folder = store.running();
        remove_stale_sockets(&folder)?;
        // Containers that share the directory may have equal process ids.
        let mark = RandomState::new().hash_one(0) & 0xFFFF_FFFF;
        let path = folder.join(format!("{}-{mark:08x}", std::process::id()));
        let listener = UnixListener::bind(&path)?;
        let mut server = JoinSet::new();
        server.spawn(http_server::serve(
            listener,
            router::local(Arc::clone(interface)),
        ));
        Ok(Self {
            path,
            _server: server,
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the sockets of hosts that were killed.
fn remove_stale_sockets(folder: &Path) -> io::Result<()> {
    for entry in folder.read_dir()? {
        let _ = is_live(&entry?.path());
    }
    Ok(())
}

/// Whether a host listens on a socket; if not, the socket is removed.
pub(super) fn is_live(path: &Path) -> io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(path);
            Ok(false)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
