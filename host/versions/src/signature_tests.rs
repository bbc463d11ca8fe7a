use super::*;
use crate::{NewKeys, SecretKey, SigningError};
use backstop_core::failure::Timestamp;

const FILE: &[u8] = b"\0asm a policy";

/// A public key's line and the signature that it made of a file.
fn signed(file: &[u8]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    let keys = NewKeys::generate(None).unwrap();
    std::fs::write(&path, keys.secret).unwrap();
    let key = SecretKey::read(&path, || unreachable!("it is not encrypted")).unwrap();
    assert_eq!(key.id(), keys.id);
    let signature = key.sign(file, "a.wasm", "a", Timestamp(1_000)).unwrap();
    (keys.line, signature)
}

fn keys(lines: &[&str]) -> Keys {
    let lines: Vec<_> = lines.iter().map(|line| (*line).to_owned()).collect();
    Keys::read(&lines, Path::new("")).unwrap()
}

#[test]
fn only_a_whole_signature_of_the_file_by_an_accepted_key_is_taken() {
    let (line, signature) = signed(FILE);
    let (other, by_another) = signed(FILE);
    let accepted = keys(&[&line]);
    let said = Signed {
        id: signed_with(&signature).unwrap(),
        policy: Some("a".to_owned()),
        at: Some(Timestamp(1_000)),
    };
    assert_eq!(accepted.verify(FILE, Some(&signature)), Ok(said.clone()));
    assert_eq!(
        keys(&[&other, &line]).verify(FILE, Some(&signature)),
        Ok(said)
    );
    assert_eq!(accepted.verify(FILE, None), Err(SignatureError::Missing));
    let id = signed_with(&signature).unwrap();
    assert_eq!(
        accepted.verify(b"\0asm another", Some(&signature)),
        Err(SignatureError::Wrong { id: id.clone() })
    );
    assert_eq!(
        accepted.verify(FILE, Some(&by_another)),
        Err(SignatureError::UnknownKey {
            id: signed_with(&by_another).unwrap(),
            accepted: id.clone()
        })
    );
    let retold = signature.replace("file:a.wasm", "file:b.wasm");
    assert_eq!(
        accepted.verify(FILE, Some(&retold)),
        Err(SignatureError::Wrong { id })
    );
}

/// The result of a signature with this trusted comment, if it must be for the policy `orders`.
fn verified(comment: &str) -> Result<Signed, SignatureError> {
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    let file = Cursor::new(FILE);
    let signature = minisign::sign(None, &pair.sk, file, Some(comment), None).unwrap();
    let accepted = keys(&[&pair.pk.to_base64()]).signed_for(Some("orders".to_owned()));
    accepted.verify(FILE, Some(&signature.to_string()))
}

#[test]
fn a_signature_counts_only_for_the_policy_that_it_names() {
    for (comment, at) in [
        ("timestamp:5\tfile:a.wasm\thashed\tpolicy:orders", 5_000),
        ("policy:orders\ttimestamp:0", 0),
    ] {
        let signed = verified(comment).unwrap();
        assert_eq!(signed.at, Some(Timestamp(at)), "{comment}");
    }
    for (comment, expected) in [
        (
            "",
            "is for no policy, and `signed-for` requires the policy `orders`",
        ),
        ("timestamp:5\tfile:orders.wasm\thashed", "is for no policy"),
        (
            "timestamp:5\tpolicy:invoices",
            "is for the policy `invoices`",
        ),
        ("timestamp:5\tpolicy:orders2", "is for the policy `orders2`"),
        (
            "timestamp:5\tpolicy:orders\tpolicy:invoices",
            "is for no policy",
        ),
        ("timestamp:5 policy:orders", "is for no policy"),
        ("policy:orders", "has no time"),
        ("timestamp:soon\tpolicy:orders", "has no time"),
        (
            "timestamp:99999999999999999999\tpolicy:orders",
            "has no time",
        ),
    ] {
        let refused = verified(comment).unwrap_err().to_string();
        assert!(refused.contains(expected), "{comment}: {refused}");
    }
}

#[test]
fn the_name_of_a_policy_is_a_word() {
    for name in ["orders", "team/orders-2.1_b", "größe"] {
        assert_eq!(policy_name(name).as_deref(), Ok(name));
    }
    let long = "x".repeat(101);
    for name in ["", "a b", "a\tpolicy:b", "a\n", "\u{202e}", &long] {
        assert!(policy_name(name).is_err(), "{name:?}");
    }
    for (file, name) in [
        ("orders.wasm", "orders"),
        ("my orders (2).wat", "my_orders__2_"),
        ("v1.2.wasm", "v1.2"),
    ] {
        assert_eq!(policy_of_file(file), name);
    }
}

#[test]
fn a_damaged_signature_is_refused_whatever_is_left_of_it() {
    let (line, signature) = signed(FILE);
    let accepted = keys(&[&line]);
    // Without the line's end it is whole.
    for length in 0..signature.len() - 1 {
        let found = accepted.verify(FILE, signature.get(..length));
        assert!(
            matches!(found, Err(SignatureError::Malformed(_))),
            "{length}: {found:?}"
        );
    }
    let long = signature + &"x".repeat(LONGEST);
    assert!(accepted.verify(FILE, Some(&long)).is_err());
}

#[test]
fn a_key_is_a_line_or_a_file_with_one() {
    let folder = tempfile::tempdir().unwrap();
    let made = NewKeys::generate(None).unwrap();
    let read = |named: &str| Keys::read(&[named.to_owned()], folder.path());
    std::fs::write(folder.path().join("a.pub"), &made.public).unwrap();
    std::fs::write(folder.path().join("a.key"), &made.secret).unwrap();
    assert_eq!(read("a.pub").unwrap(), read(&made.line).unwrap());
    assert_eq!(read("a.pub").unwrap().to_string(), made.id);
    for (named, expected) in [
        ("b.pub", "can't read the public key"),
        ("a.key", "`a.key` is not a public key"),
        ("RWQ", "`RWQ` is not a public key"),
    ] {
        let error = read(named).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(matches!(
        Keys::read(&[], folder.path()),
        Err(KeyError::None)
    ));
}

#[test]
fn an_encrypted_key_wants_its_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.key");
    let made = NewKeys::generate(Some("correct horse".to_owned())).unwrap();
    std::fs::write(&path, made.secret).unwrap();
    let key = SecretKey::read(&path, || Ok("correct horse".to_owned())).unwrap();
    assert_eq!(key.id(), made.id);
    let wrong = SecretKey::read(&path, || Ok("battery".to_owned()));
    assert!(matches!(wrong, Err(SigningError::Locked { .. })));
    let unasked = SecretKey::read(&path, || Err(io::Error::other("no terminal")));
    assert!(matches!(unasked, Err(SigningError::Password { .. })));
}
