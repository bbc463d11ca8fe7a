use hyper::Request;

use super::*;

fn guard() -> Guard {
    Guard::new(Vec::new(), vec!["backstop.internal".to_owned()], None)
}

/// A request with these headers.
fn request(target: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn site(headers: &[(&str, &str)]) -> Result<(), Refused> {
    guard().site(&request("/v1/status", headers))
}

#[test]
fn requests_for_other_names_are_refused() {
    for host in [
        "127.0.0.1:9465",
        "127.0.0.1",
        "10.1.2.3:80",
        "[::1]:9465",
        "[2001:db8::1]",
        "localhost:9465",
        "LocalHost",
        "backstop.internal:9465",
        "Backstop.Internal",
    ] {
        assert_eq!(site(&[("host", host)]), Ok(()), "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:9465",
        "127.0.0.1.evil.example:9465",
        "127.0.0.1@evil.example",
        "evil.example@127.0.0.1",
        "localhost.evil.example",
        "localhost.",
        "notlocalhost",
        "backstop.internal.evil.example",
        "0x7f.1",
        "2130706433",
        "",
        "127.0.0.1:9465, evil.example",
        "127.0.0.1 evil.example",
    ] {
        assert!(site(&[("host", host)]).is_err(), "{host}");
    }
    assert!(site(&[]).is_err());
    let mut old = request("/livez", &[]);
    old.version = Version::HTTP_10;
    assert_eq!(guard().site(&old), Ok(()));
    for header in [
        ("origin", "http://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("host", "evil.example"),
    ] {
        let mut old = request("/livez", &[header]);
        old.version = Version::HTTP_10;
        assert!(guard().site(&old).is_err(), "{header:?}");
    }
    assert!(site(&[("host", "127.0.0.1"), ("host", "evil.example")]).is_err());
    let absolute = request("http://evil.example/v1/status", &[("host", "127.0.0.1")]);
    assert!(guard().site(&absolute).is_err());
    let absolute = request("http://127.0.0.1/v1/status", &[("host", "127.0.0.1")]);
    assert_eq!(guard().site(&absolute), Ok(()));
}

#[test]
fn requests_of_other_sites_are_refused() {
    let own = ("host", "127.0.0.1:9465");
    for header in [
        ("origin", "http://127.0.0.1:9465"),
        ("origin", "https://127.0.0.1:9465"),
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
    ] {
        assert_eq!(site(&[own, header]), Ok(()), "{header:?}");
    }
    for header in [
        ("origin", "http://evil.example"),
        ("origin", "http://127.0.0.1:3000"),
        ("origin", "http://127.0.0.1"),
        ("origin", "http://localhost:9465"),
        ("origin", "http://127.0.0.1:9465@evil.example"),
        ("origin", "http://127.0.0.1:9465.evil.example"),
        ("origin", "ftp://127.0.0.1:9465"),
        ("origin", "127.0.0.1:9465"),
        ("origin", "null"),
        ("origin", ""),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "Same-Origin, cross-site"),
        ("sec-fetch-site", ""),
    ] {
        let refused = site(&[own, header]).unwrap_err();
        assert_eq!(refused, other_site(), "{header:?}");
    }
    let both = [
        own,
        ("origin", "http://127.0.0.1:9465"),
        ("origin", "http://evil.example"),
    ];
    assert!(site(&both).is_err());
    let both = [
        own,
        ("sec-fetch-site", "none"),
        ("sec-fetch-site", "cross-site"),
    ];
    assert!(site(&both).is_err());
}

#[test]
fn a_body_that_a_page_of_another_site_can_send_is_refused() {
    let content = |value: &str| {
        let request = request("/", &[("content-type", value)]);
        guard().content(&request.headers)
    };
    for value in ["application/json", "Application/JSON; charset=utf-8"] {
        assert_eq!(content(value), Ok(()), "{value}");
    }
    for value in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
        "text/plain; application/json",
        "application/jsonp",
        "",
    ] {
        assert_eq!(content(value), Err(Refused::not_json()), "{value}");
    }
    assert!(guard().content(&HeaderMap::new()).is_err());
}

#[test]
fn only_the_token_is_accepted() {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, TOKEN).unwrap();
    let token = Token::read(&path).unwrap();
    let guard = Guard::new(
        vec![(Role::Act, Arc::new(ArcSwap::from_pointee(token)))],
        Vec::new(),
        None,
    );
    let given = |values: &[&str]| {
        let headers: Vec<_> = values
            .iter()
            .map(|value| ("authorization", *value))
            .collect();
        guard.token(&request("/", &headers).headers)
    };
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(given(&[&bearer]), Ok(Role::Act));
    assert_eq!(given(&[&format!("bearer {TOKEN}")]), Ok(Role::Act));
    let long = format!("Bearer {}", TOKEN.repeat(400));
    for values in [
        [].as_slice(),
        &[""],
        &["Bearer"],
        &["Bearer "],
        &["Bearer 0"],
        &[TOKEN],
        &[&format!("Basic {TOKEN}")],
        &[&format!("Bearer  {TOKEN}")],
        &[&format!("Bearer {TOKEN}0")],
        &[&format!("Bearer {}", TOKEN.to_uppercase())],
        &[&long],
        &[&bearer, &bearer],
    ] {
        let refused = given(values).unwrap_err();
        assert!(!refused.to_string().contains(TOKEN), "{refused}");
    }
    let open = Guard::new(Vec::new(), Vec::new(), None);
    assert_eq!(open.token(&HeaderMap::new()), Ok(Role::Act));
}

#[test]
fn a_proxy_that_names_nobody_opens_nothing() {
    let proxy = AdminProxy {
        header: HeaderName::from_static("x-user"),
        from: vec!["10.0.0.5/32".parse().unwrap()],
        role: Some(Role::Bodies),
        groups: None,
    };
    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), TOKEN).unwrap();
    let token = Arc::new(ArcSwap::from_pointee(Token::read(file.path()).unwrap()));
    let open = Guard::new(Vec::new(), Vec::new(), Some(proxy.clone()));
    let closed = Guard::new(vec![(Role::Act, token)], Vec::new(), Some(proxy));
    let bearer = format!("Bearer {TOKEN}");
    let (ana, token) = (("x-user", "ana"), ("authorization", bearer.as_str()));
    let (proxy, other) = ("10.0.0.5:4242", "127.0.0.1:4242");
    let named = Ok(Some("ana".to_owned()));
    for (guard, peer, headers, role, name) in [
        (&open, proxy, [].as_slice(), Err(()), Err(())),
        (&open, proxy, &[token], Err(()), Err(())),
        (&open, proxy, &[ana], Ok(Role::Bodies), named.clone()),
        // Who is on this machine needs no token, and gets no name.
        (&open, other, &[], Ok(Role::Act), Ok(None)),
        (&open, other, &[ana], Ok(Role::Act), Ok(None)),
        (&closed, proxy, &[], Err(()), Err(())),
        (&closed, proxy, &[token], Ok(Role::Act), Ok(None)),
        // The token of a request that the proxy names does not count: it may be one of the proxy's own.
        (
            &closed,
            proxy,
            &[ana, token],
            Ok(Role::Bodies),
            named.clone(),
        ),
        (
            &closed,
            proxy,
            &[ana, ("authorization", "Bearer eyJhbGciOi")],
            Ok(Role::Bodies),
            named,
        ),
        (&closed, other, &[ana], Err(()), Err(())),
        (&closed, other, &[ana, token], Ok(Role::Act), Ok(None)),
    ] {
        let headers_of = request("/", headers).headers;
        let peer = Peer::Address(peer.parse().unwrap());
        let found = guard.identity(peer, &headers_of);
        let found = found.map_err(|_| ());
        assert_eq!(
            found.as_ref().ok().map(|it| it.role),
            role.ok(),
            "{headers:?}"
        );
        assert_eq!(found.map(|it| it.name), name, "{headers:?}");
    }
}
