use super::*;
use crate::ordinary_message;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

const QUEUE: &str = "arn:aws:sqs:eu-west-1:123456789012:orders";
const TEXT: &str = r#"{"id":"m-1","attempts":1}"#;

fn message(body: &str, attributes: &[(&str, Attribute)]) -> Message {
    let attributes = attributes.iter().cloned();
    Message {
        body: body.into(),
        attributes: attributes
            .map(|(name, value)| (name.to_owned(), value))
            .collect::<BTreeMap<_, _>>(),
        ..ordinary_message()
    }
}

fn file(text: &str) -> Result<EnvelopeKeys, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    EnvelopeKeys::read(&path, Readers::Few).map_err(|error| error.to_string())
}

fn key(digit: char) -> String {
    digit.to_string().repeat(64)
}

#[test]
fn the_first_key_signs_and_all_verify() {
    let (old, new) = (file(&key('a')).unwrap(), file(&key('b')).unwrap());
    let both = file(&format!(
        "# the new one is not known everywhere yet\n\n {} \n{}\n",
        key('a'),
        key('b')
    ));
    let (both, message) = (both.unwrap(), message("body", &[]));
    let by = |keys: &EnvelopeKeys| keys.sign(QUEUE, (&message).into(), TEXT);
    assert_eq!(by(&both), by(&old));
    for signed in [by(&old), by(&new)] {
        assert!(both.verify(QUEUE, &message, &signed));
    }
    assert!(old.verify(QUEUE, &message, &by(&both)));
    assert!(!new.verify(QUEUE, &message, &by(&both)));
    assert!(!new.verify(QUEUE, &message, &by(&old)));
}

#[test]
fn a_code_is_valid_for_its_envelope_its_queue_and_its_message_only() {
    let keys = EnvelopeKeys::of_this_process([7; 32]);
    let own = |data_type: &str| Attribute::Text {
        data_type: data_type.to_owned(),
        value: "bc".to_owned(),
    };
    let signed_message = message("body", &[("a", own("String"))]);
    let signed = keys.sign(QUEUE, (&signed_message).into(), TEXT);
    assert!(keys.verify(QUEUE, &signed_message, &signed));
    let mut delivered = signed_message.clone();
    delivered
        .attributes
        .insert(ENVELOPE.to_owned(), Attribute::string(&signed));
    assert!(keys.verify(QUEUE, &delivered, &signed));
    assert!(!keys.verify(&format!("{QUEUE}2"), &signed_message, &signed));
    let binary = Attribute::Binary {
        data_type: "String".to_owned(),
        value: b"bc".to_vec(),
    };
    for other in [
        message("body ", &[("a", own("String"))]),
        message("body", &[]),
        message("body", &[("a", own("String.x"))]),
        message("body", &[("ab", Attribute::string("c"))]),
        message("body", &[("a", binary)]),
        message("body", &[("a", own("String")), ("b", own("String"))]),
    ] {
        assert!(!keys.verify(QUEUE, &other, &signed), "{other:?}");
    }
    let cut = signed.len() - 3;
    for forged in [
        TEXT.to_owned(),
        String::new(),
        "\"}".to_owned(),
        signed.replace("m-1", "m-2"),
        signed.replace(r#""attempts":1"#, r#""attempts":1,"hops":1"#),
        format!("{} {}", &signed[..1], &signed[1..]),
        format!("{}é\"}}", &signed[..cut]),
        signed.replace(BEFORE, ",\"mac\": \""),
    ] {
        assert!(!keys.verify(QUEUE, &signed_message, &forged), "{forged}");
    }
}

#[test]
fn a_file_without_usable_keys_is_refused_without_showing_it() {
    let secret = "correct horse battery staple, but with spaces";
    for (text, expected) in [
        (String::new(), "has no key: expected one in each line"),
        ("# none\n\n".to_owned(), "has no key"),
        (format!("{}\nshort", key('a')), "line 2 of "),
        (secret.to_owned(), "line 1 of "),
        (format!("{}\n", key('a')).repeat(9), "more than 8 keys"),
        (key('a').repeat(100), "more than 4096 bytes"),
    ] {
        let error = file(&text).unwrap_err();
        assert!(error.contains(expected), "{error}");
        assert!(
            !error.contains("horse") && !error.contains("short"),
            "{error}"
        );
    }
    let shown = format!("{:?}", file(&key('a')).unwrap());
    assert_eq!(shown, "EnvelopeKeys(1 keys)");
}

#[test]
fn a_file_that_every_user_may_read_is_refused_except_in_a_function_s_package() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    std::fs::write(&path, key('a')).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let error = EnvelopeKeys::read(&path, Readers::Few).unwrap_err();
    assert!(error.to_string().contains("chmod o-r"), "{error}");
    assert!(EnvelopeKeys::read(&path, Readers::All).is_ok());
}
