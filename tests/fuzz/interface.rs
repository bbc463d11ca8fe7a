//! The admin interface of a host: whatever bytes a client sends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use backstop_host::config::Config;
use backstop_host::service::Service;
use backstop_queue::Connections;
use tempfile::TempDir;

use crate::answers::RUNTIME;

const TOKEN: &str = "a-token-for-tests-0123456789abcdef";

/// A host that has two queues in memory and does not receive from them.
struct Host {
    address: SocketAddr,
    _service: Service,
    _folder: TempDir,
}

static HOST: LazyLock<Host> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), format!("{TOKEN}\n")).unwrap();
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let text = format!(
        r#"
        admin = "{address}"
        admin-token-file = "token"
        admin-hosts = ["backstop.internal"]
        [policies]
        cache = "kept"
        [queues.orders]
        url = "local:orders"
        handler = {{ exec = ["true"] }}
        policy = "full-jitter"
        [queues.invoices]
        url = "local:invoices"
        handler = {{ exec = ["true"] }}
        policy = "linear"
        "#
    );
    let config = Config::parse(&text, &folder.path().join("backstop.toml")).unwrap();
    let service = RUNTIME
        .block_on(Service::prepare(config, &Connections::default()))
        .unwrap();
    Host {
        address,
        _service: service,
        _folder: folder,
    }
});

/// The statuses that the interface answers with. 500 would be a fault of its own.
const STATUSES: [&str; 20] = [
    "200", "202", "204", "301", "302", "303", "304", "400", "401", "403", "404", "405", "408",
    "409", "413", "415", "422", "429", "431", "503",
];

/// What a host answers to bytes.
fn answer(bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(HOST.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.take(4 << 20).read_to_end(&mut answer);
    answer
}

/// A request has an answer of a known status or none, of a bounded size, and never a fault of the host's own. `TOKEN` in it is the token.
pub(crate) fn request(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let has_token = text.contains("TOKEN");
    let sent = if has_token {
        text.replace("TOKEN", TOKEN).into_bytes()
    } else {
        input.to_vec()
    };
    let answered = answer(&sent);
    assert!(answered.len() < 4 << 20, "{} bytes", answered.len());
    if answered.is_empty() {
        return;
    }
    let head = String::from_utf8_lossy(&answered[..answered.len().min(200)]).into_owned();
    let status = head.split(' ').nth(1).unwrap_or_default();
    assert!(
        head.starts_with("HTTP/1.") && STATUSES.contains(&status),
        "{head}"
    );
    let has_acted = status == "200" && text.starts_with("POST");
    assert!(has_token || !has_acted, "without the token: {head}");
}
