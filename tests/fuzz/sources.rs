//! Where policies come from: names, signatures, artifacts, scenarios.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use backstop_core::failure::Timestamp;
use backstop_versions::scenario::Suite;
use backstop_versions::{
    ArtifactKind, Challenge, Keys, Location, Package, Source, layer_of, policy_name,
    policy_of_file, signed_with,
};

use crate::{assert_readable, text};

/// What the kept signature is of, and the key of whoever made it.
const FILE: &[u8] = b"\0asm a policy";
const KEY: &str = include_str!("key.pub");
const SIGNED: &str = include_str!("signed.minisig");

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let line = KEY.lines().last().unwrap().to_owned();
    Keys::read(&[line], Path::new("")).unwrap()
});

/// No text but the signature itself verifies, and never for another file; its first line is a comment that nobody signs.
pub(crate) fn signature(input: &[u8]) {
    let text = text(input);
    let _ = (policy_of_file(&text), policy_name(&text));
    let accepted = KEYS.verify(FILE, Some(&text));
    match &accepted {
        Err(refused) => assert_readable(&refused.to_string()),
        Ok(signed) => {
            let essence = |text: &str| {
                let lines = text.lines().skip(1).take(3);
                lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
            };
            assert_eq!(essence(&text), essence(SIGNED));
            assert_eq!(signed.at, Some(Timestamp(1_767_225_600_000)));
            assert_eq!(signed.policy.as_deref(), Some("orders"));
        }
    }
    assert!(KEYS.verify(b"\0asm another", Some(&text)).is_err());
    let for_another = KEYS.clone().signed_for(Some("others".to_owned()));
    assert!(for_another.verify(FILE, Some(&text)).is_err());
    if let Ok(id) = signed_with(&text) {
        assert_eq!(id.len(), 16);
    }
    // A line of a key, and not a path.
    if let Some(line) = text.lines().next()
        && !line.contains(['/', '.', '\0'])
        && let Err(refused) = Keys::read(&[line.to_owned()], Path::new("/nowhere"))
    {
        assert_readable(&refused.to_string());
    }
}

/// A name that is read means the same when it is written and read again, and when it is pinned.
pub(crate) fn name(input: &[u8]) {
    let text = text(input);
    let folder = Path::new("/policies");
    let source = match Source::parse(&text, folder) {
        Ok(source) => source,
        Err(refused) => return assert_readable(&refused.to_string()),
    };
    let written = source.to_string();
    let again = Source::parse(&written, folder);
    assert_eq!(
        again.as_ref().ok(),
        Some(&source),
        "{written:?} of {text:?}"
    );
    let digest = "a1".repeat(32);
    let pinned = source.pinned(&format!("sha256:{digest}"));
    let pinned_source = Source::parse(&pinned, folder).expect("a pinned name is one");
    assert!(pinned_source.is_pinned(), "{pinned:?} of {text:?}");
    match (&source.location, &pinned_source.location) {
        (Location::Registry(one), Location::Registry(other)) => {
            assert_eq!(
                (one.registry(), one.repository()),
                (other.registry(), other.repository())
            );
        }
        (one, other) => assert_eq!(one, other, "{pinned:?} of {text:?}"),
    }
    if let Location::S3 { bucket, key } = &source.location {
        assert!(!bucket.is_empty() && !bucket.contains('/') && !key.is_empty());
    }
}

/// The layer of a manifest has a digest that can be part of a URL. What is packed is found again.
pub(crate) fn layout(input: &[u8]) {
    for kind in [ArtifactKind::Policy, ArtifactKind::Signature] {
        match layer_of(input, kind) {
            Ok(layer) => {
                let digits = layer.digest.strip_prefix("sha256:").unwrap();
                let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                assert!(digits.len() == 64 && digits.bytes().all(is_digit));
            }
            Err(refused) => assert_readable(&refused),
        }
    }
    // As a policy that somebody pushes, with metadata of its own.
    let annotations = BTreeMap::from([("a".to_owned(), text(input).into_owned())]);
    let created = "2026-01-01T00:00:00Z".parse().unwrap();
    if let Ok(package) = Package::policy(input.to_vec(), annotations, created) {
        let layer = layer_of(&package.manifest, ArtifactKind::Policy).unwrap();
        assert_eq!(usize::try_from(layer.size).unwrap(), input.len());
        assert!(layer_of(&package.manifest, ArtifactKind::Signature).is_err());
    }
}

/// A challenge that is read is read again from its own parts.
pub(crate) fn challenge(input: &[u8]) {
    let text = text(input);
    let Some(challenge) = Challenge::of(&text) else {
        return;
    };
    assert!(challenge.realm.len() <= text.len());
    let quoted = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
    let mut written = format!("Bearer realm=\"{}\"", quoted(&challenge.realm));
    if let Some(service) = &challenge.service {
        written += &format!(",service=\"{}\"", quoted(service));
    }
    assert_eq!(Challenge::of(&written), Some(challenge), "{written}");
}

/// Scenarios are read, or a mistake is named with its line.
pub(crate) fn scenarios(input: &[u8]) {
    let text = text(input);
    match Suite::parse(&text, Path::new("scenarios.toml")) {
        Ok(suite) => {
            let names: std::collections::BTreeSet<_> =
                suite.scenarios.iter().map(|it| &it.name).collect();
            assert_eq!(names.len(), suite.scenarios.len());
        }
        Err(refused) => assert_readable(&refused.to_string()),
    }
}
