//! Signed files of another policy, and earlier ones of the same: `signed-for` refuses both.

use super::*;
use backstop_core::failure::Timestamp;

/// A world whose policies must be signed for `orders`.
fn world() -> (World, SecretKey) {
    let mut world = World::new();
    let (key, public) = key();
    let keys = Keys::read(&[public], Path::new("")).unwrap();
    world.catalog.keys = Some(keys.signed_for(Some("orders".to_owned())));
    (world, key)
}

impl World {
    /// Puts a version that waits this long into the source, signed for this policy at this time.
    fn sign(&self, key: &SecretKey, milliseconds: u32, policy: &str, at: Timestamp) {
        let text = waits(milliseconds);
        let signature = key.sign(text.as_bytes(), "policy.wat", policy, at);
        self.write("policy.wat.minisig", &signature.unwrap());
        self.write("policy.wat", &text);
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1_000)
}

#[test]
fn the_signed_policy_of_another_queue_is_refused() {
    let (world, key) = world();
    world.sign(&key, 1, "invoices", at(100));
    let refused = LivePolicy::load(&world.catalog, world.spec("./policy.wat")).unwrap_err();
    let cause = std::error::Error::source(&refused).unwrap().to_string();
    assert!(
        cause.contains(
            "is for the policy `invoices`, and `signed-for` requires the policy `orders`"
        ),
        "{cause}"
    );
    world.sign(&key, 1, "orders", at(100));
    let policy = world.start("./policy.wat");
    world.sign(&key, 2, "invoices", at(200));
    let refused = refusal(&policy.reload());
    assert!(
        refused.contains("is for the policy `invoices`"),
        "{refused}"
    );
    assert_eq!(wait_of(&policy), 1);
    // Without `signed-for`, any signature by the key will do.
    let mut lenient = world;
    lenient.catalog.keys = lenient.catalog.keys.map(|keys| keys.signed_for(None));
    assert_eq!(wait_of(&lenient.start("./policy.wat")), 2);
}

#[test]
fn a_version_that_was_signed_before_one_that_was_active_is_refused_until_it_is_signed_again() {
    let (world, key) = world();
    world.sign(&key, 1, "orders", at(100));
    let policy = world.start("./policy.wat");
    world.sign(&key, 2, "orders", at(200));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    // The first version again, with its own signature.
    world.sign(&key, 1, "orders", at(100));
    let refused = refusal(&policy.reload());
    let expected = "it was signed at 1970-01-01T00:01:40Z, and a version signed at 1970-01-01T00:03:20Z has been active";
    assert!(refused.contains(expected), "{refused}");
    assert!(matches!(policy.reload(), Reload::Unchanged));
    assert_eq!(wait_of(&policy), 2);
    // A restart remembers, and a pin says what is wanted.
    drop(policy);
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 2);
    let pinned = format!("./policy.wat@{}", PolicyDigest::of(waits(1).as_bytes()));
    assert_eq!(wait_of(&world.start(&pinned)), 1);
    // Signed again, the same file is newer.
    world.sign(&key, 1, "orders", at(300));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 1);
}

#[test]
fn an_operator_s_rollback_to_an_earlier_version_lasts_and_lets_no_other_earlier_one_in() {
    let (world, key) = world();
    for (milliseconds, seconds) in [(1, 100), (2, 200)] {
        world.sign(&key, milliseconds, "orders", at(seconds));
        let policy = world.start("./policy.wat");
        assert_eq!(wait_of(&policy), milliseconds);
    }
    let policy = world.start("./policy.wat");
    policy.roll_back("it is wrong").unwrap();
    assert_eq!(wait_of(&policy), 1);
    // The source returns to that version, too: then, and after a restart, it stays.
    world.sign(&key, 1, "orders", at(100));
    assert!(matches!(policy.reload(), Reload::Unchanged));
    drop(policy);
    let policy = world.start("./policy.wat");
    assert_eq!(wait_of(&policy), 1);
    assert_eq!(policy.status().refused, None);
    world.sign(&key, 3, "orders", at(150));
    let refused = refusal(&policy.reload());
    assert!(refused.contains("has been active"), "{refused}");
    world.sign(&key, 3, "orders", at(201));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
}

#[test]
fn a_signer_s_clock_that_was_wrong_once_keeps_no_later_version_away() {
    let (world, key) = world();
    world.sign(&key, 1, "orders", Timestamp(now().0 + 31_536_000_000));
    let policy = world.start("./policy.wat");
    world.sign(&key, 2, "orders", Timestamp(now().0 + 1_000));
    assert!(matches!(policy.reload(), Reload::Swapped { .. }));
    assert_eq!(wait_of(&policy), 2);
}
