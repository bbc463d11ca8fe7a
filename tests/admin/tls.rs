//! `--admin https://…`: a host behind a proxy with TLS.

use backstop_tests::backstop::{command, text};
use backstop_tests::tls::TlsProxy;

use super::world::{TOKEN, World};

#[tokio::test]
async fn the_token_is_sent_by_tls_only_to_a_server_with_a_certificate_of_a_known_authority() {
    let world = World::with_token(&[]).await;
    let (host, port) = world.address.split_once(':').unwrap();
    let proxy = TlsProxy::start(world.folder.path(), (host, port), "127.0.0.1").await;
    let status = async |host: &str, authority: Option<&str>| {
        let url = format!("https://{host}:{}", proxy.port);
        let mut status = command(&["policy", "status", "--admin", &url]);
        status.env("BACKSTOP_ADMIN_TOKEN", TOKEN);
        match authority {
            Some(name) => status.env("SSL_CERT_FILE", world.at(name)),
            None => status.env_remove("SSL_CERT_FILE"),
        };
        let output = status.output().await.unwrap();
        let code = output.status.code().unwrap();
        (code, text(&output.stdout), text(&output.stderr))
    };
    let (code, shown, said) = status("127.0.0.1", Some("ca.pem")).await;
    assert_eq!(code, 0, "{said}");
    assert!(shown.contains("orders"), "{shown}");
    // An authority that nobody knows, and a name that the certificate does not have.
    for (host, authority) in [("127.0.0.1", None), ("localhost", Some("ca.pem"))] {
        let (code, shown, said) = status(host, authority).await;
        assert_eq!((code, shown.as_str()), (5, ""), "{said}");
        assert!(said.contains("certificate"), "{said}");
    }
    world.running.stop().await;
}
