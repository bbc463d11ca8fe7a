use super::*;

fn trust(registry: &str, token_servers: &[&str]) -> Arc<Trust> {
    let token_servers = token_servers.iter().map(|it| (*it).to_owned()).collect();
    let registry = Url::parse(registry).unwrap();
    Arc::new(Trust {
        proxies: vec!["proxy.internal".to_owned()],
        ..Trust::new(registry, Arc::new(token_servers))
    })
}

#[test]
fn credentials_go_to_the_registry_and_its_own_token_servers_only_and_never_leave_tls() {
    let named = ["auth.example.net", "tokens.example.net:8443"];
    for (registry, realm, expected) in [
        ("https://r.example.com", "https://r.example.com/token", true),
        (
            "https://r.example.com:5000",
            "https://r.example.com:5001/token",
            true,
        ),
        (
            "https://r.example.com",
            "https://auth.r.example.com/token",
            true,
        ),
        (
            "https://r.example.com",
            "https://auth.example.net/token",
            true,
        ),
        (
            "https://r.example.com",
            "https://AUTH.example.NET:99/token",
            true,
        ),
        (
            "https://r.example.com",
            "https://tokens.example.net:8443/token",
            true,
        ),
        (
            "https://index.docker.io",
            "https://auth.docker.io/token",
            true,
        ),
        (
            "https://registry.gitlab.com",
            "https://gitlab.com/jwt/auth",
            true,
        ),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5001/token", true),
        ("http://r.lan", "https://r.lan/token", true),
        // Without TLS.
        ("https://r.example.com", "http://r.example.com/token", false),
        (
            "https://r.example.com",
            "http://auth.example.net/token",
            false,
        ),
        (
            "https://index.docker.io",
            "http://auth.docker.io/token",
            false,
        ),
        ("https://r.example.com", "file:///etc/passwd", false),
        ("http://r.lan", "ftp://r.lan/token", false),
        // Of others.
        ("https://r.example.com", "https://example.com/token", false),
        (
            "https://r.example.com",
            "https://auth.example.com/token",
            false,
        ),
        (
            "https://r.example.com",
            "https://evilr.example.com/token",
            false,
        ),
        (
            "https://r.example.com",
            "https://r.example.com.evil.net/token",
            false,
        ),
        (
            "https://r.example.com",
            "https://r.example.com@evil.net/token",
            false,
        ),
        (
            "https://r.example.com",
            "https://tokens.example.net/token",
            false,
        ),
        (
            "https://r.example.com",
            "https://auth.docker.io/token",
            false,
        ),
        ("https://a.azurecr.io", "https://b.azurecr.io/token", false),
        (
            "http://127.0.0.1:5000",
            "http://127.0.0.2:5000/token",
            false,
        ),
        ("http://7.0.0.1", "http://12.7.0.0.1/token", false),
    ] {
        let Ok(url) = Url::parse(realm) else {
            assert!(!expected, "{realm}");
            continue;
        };
        let found = trust(registry, &named).check_credentials(&url);
        assert_eq!(found.is_ok(), expected, "{registry} {realm}: {found:?}");
    }
}

#[test]
fn a_registry_leads_only_to_public_addresses_and_to_kinds_that_it_has_itself() {
    let (public, private) = ("https://r.example.com", "https://10.0.0.5:5000");
    for (registry, target, expected) in [
        (public, "https://203.0.114.7/blob", true),
        (public, "https://[2a00::1]/blob", true),
        (public, "https://169.254.169.254/latest/meta-data", false),
        (public, "https://127.0.0.1/", false),
        (public, "https://2130706433/", false),
        (public, "https://0x7f.1/", false),
        (public, "https://0.0.0.0/", false),
        (public, "https://10.1.2.3/", false),
        (public, "https://172.31.0.1/", false),
        (public, "https://192.168.1.1/", false),
        (public, "https://100.100.100.200/", false),
        (public, "https://192.0.0.192/", false),
        (public, "https://[::]/", false),
        (public, "https://[::1]/", false),
        (public, "https://[::ffff:169.254.169.254]/", false),
        (public, "https://[64:ff9b::a9fe:a9fe]/", false),
        (public, "https://[2002:7f00:1::]/", false),
        (public, "https://[fd00:ec2::254]/", false),
        (public, "https://[fe80::1]/", false),
        (private, "https://10.9.9.9/", true),
        (private, "https://169.254.169.254/", false),
        (private, "https://127.0.0.1/", false),
        ("http://127.0.0.1:5000", "http://127.0.0.1:9000/", true),
        ("http://127.0.0.1:5000", "http://10.1.2.3/", false),
    ] {
        let url = Url::parse(target).unwrap();
        let found = trust(registry, &[]).check(&url);
        assert_eq!(found.is_ok(), expected, "{registry} {target}: {found:?}");
    }
    let url = Url::parse("https://10.1.2.3/").unwrap();
    assert_eq!(trust(public, &["10.1.2.3"]).check(&url), Ok(()));
}

/// How many of these addresses of a name may be connected to.
fn resolve(trust: &Trust, name: &str, found: &[&str]) -> Result<usize, Refusal> {
    let found = found.iter().map(|it| it.parse().unwrap()).collect();
    trust
        .reachable(name, found)
        .map(|reachable| reachable.len())
}

#[test]
fn a_registry_with_a_public_address_leads_inside_by_none_of_its_others() {
    let others = ["127.0.0.1:0", "169.254.169.254:0", "10.0.0.1:0"];
    for public_first in [true, false] {
        let trust = trust("https://r.example.com", &[]);
        let public = "203.0.114.7:0";
        let answers = if public_first {
            [&[public][..], &others]
        } else {
            [&others[..], &[public]]
        };
        for found in answers {
            assert!(resolve(&trust, "r.example.com", found).is_ok());
        }
        for other in others {
            assert!(resolve(&trust, "evil.net", &[other]).is_err(), "{other}");
        }
        let url = Url::parse("https://169.254.169.254/latest/meta-data").unwrap();
        assert!(trust.check(&url).is_err());
        assert_eq!(resolve(&trust, "cdn.example.net", &[public]), Ok(1));
    }
}

#[test]
fn ecr_leads_to_s3_behind_an_interface_endpoint_and_nowhere_else_inside() {
    let ecr = "https://123456789012.dkr.ecr.eu-west-1.amazonaws.com";
    let china = "https://123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn";
    let bucket = "prod-eu-west-1-starport-layer-bucket.s3.eu-west-1.amazonaws.com";
    let (inside, outside) = ("10.0.0.9:0", "203.0.114.7:0");
    for (registry, name, address, expected) in [
        (ecr, bucket, inside, true),
        (ecr, "S3.eu-west-1.AMAZONAWS.com", inside, true),
        (china, "layers.s3.cn-north-1.amazonaws.com.cn", inside, true),
        (ecr, bucket, "169.254.169.254:0", false),
        (ecr, bucket, "127.0.0.1:0", false),
        (
            ecr,
            "ec2-1-2-3-4.eu-west-1.compute.amazonaws.com",
            inside,
            false,
        ),
        (ecr, "s3.evilamazonaws.com", inside, false),
        (ecr, "s3.eu-west-1.amazonaws.com.evil.net", inside, false),
        ("https://r.example.com", bucket, inside, false),
        (
            "https://a.execute-api.eu-west-1.amazonaws.com",
            bucket,
            inside,
            false,
        ),
    ] {
        let trust = trust(registry, &[]);
        let own = trust.registry.host_str().unwrap();
        assert_eq!(resolve(&trust, own, &[outside]), Ok(1));
        let found = resolve(&trust, name, &[address]);
        assert_eq!(found.is_ok(), expected, "{registry} {name}: {found:?}");
    }
}

#[test]
fn the_addresses_of_a_name_are_checked_after_it_is_resolved() {
    let (inside, outside) = ("10.0.0.9:0", "203.0.114.7:0");
    let of_public = trust("https://r.example.com", &["auth.example.net:443"]);
    assert_eq!(resolve(&of_public, "r.example.com", &[outside]), Ok(1));
    assert_eq!(resolve(&of_public, "cdn.example.net", &[outside]), Ok(1));
    assert_eq!(resolve(&of_public, "mixed.net", &[inside, outside]), Ok(1));
    let refused = resolve(&of_public, "evil.net", &[inside]).unwrap_err();
    assert!(
        refused.reason.starts_with("10.0.0.9 is a private address"),
        "{refused}"
    );
    assert!(
        refused
            .reason
            .ends_with("lets the registry send its credentials there"),
        "{refused}"
    );
    // Those that the operator has named, and proxies.
    assert_eq!(resolve(&of_public, "auth.example.net", &[inside]), Ok(1));
    assert_eq!(resolve(&of_public, "proxy.internal", &[inside]), Ok(1));
    // A registry that is itself inside leads there, and nowhere else.
    let of_private = trust("https://r.internal", &[]);
    assert!(resolve(&of_private, "store.internal", &[inside]).is_err());
    assert_eq!(resolve(&of_private, "R.internal", &[inside]), Ok(1));
    assert_eq!(resolve(&of_private, "store.internal", &[inside]), Ok(1));
    assert!(resolve(&of_private, "evil.net", &["127.0.0.1:0"]).is_err());
}

#[tokio::test]
async fn a_name_that_resolves_to_this_machine_is_not_connected_to() {
    let resolver = Resolver(trust("https://r.example.com", &[]));
    let error = resolver
        .resolve("localhost".parse().unwrap())
        .await
        .err()
        .unwrap();
    let refusal = Refusal::behind(error.as_ref()).unwrap();
    assert!(
        refusal.reason.contains("is a loopback address"),
        "{refusal}"
    );
}

#[test]
fn the_hosts_of_proxies_are_known() {
    for (text, host) in [
        ("http://proxy.example.com:3128", Some("proxy.example.com")),
        ("proxy.example.com:3128", Some("proxy.example.com")),
        ("http://user:secret@10.0.0.1:3128/", Some("10.0.0.1")),
        ("", None),
    ] {
        assert_eq!(host_of_proxy(text).as_deref(), host, "{text}");
    }
}
