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
    let signature = key.sign(file, "a.wasm", Timestamp(1_000)).unwrap();
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
    assert_eq!(accepted.verify(FILE, Some(&signature)), Ok(()));
    assert_eq!(
        keys(&[&other, &line]).verify(FILE, Some(&signature)),
        Ok(())
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
