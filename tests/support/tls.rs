//! A proxy that speaks TLS for a server that does not.

use std::path::Path;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::documents::top;
use crate::emulator::services;

/// A running proxy; it ends when this is dropped.
#[derive(Debug)]
pub struct TlsProxy {
    /// Its port.
    pub port: u16,
    _running: Child,
}

impl TlsProxy {
    /// A proxy at this address of this machine that forwards to a host and port. Its authority is in `ca.pem` of the folder.
    pub async fn start(folder: &Path, (host, port): (&str, &str), at: &str) -> Self {
        let mut running = Command::new(services().join("python/bin/python"))
            .arg(top().join("tests/services/tls_proxy.py"))
            .args([folder.to_str().unwrap(), host, port, at])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut port = String::new();
        let output = running.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut port).await.unwrap();
        Self {
            port: port.trim().parse().unwrap(),
            _running: running,
        }
    }
}
