//! Messages are read as they were packed, and take few bytes.

use super::*;
use backstop_core::examples::ordinary_failure;
use proptest::prelude::*;

fn failure(id: &str) -> Failure {
    let attempt = NonZeroU32::new(7).unwrap();
    Failure {
        message_id: id.to_owned(),
        attempt,
        random: random(id, attempt),
        previous_delay: Some(Milliseconds(5)),
        error: Error::new("HTTP 503", "busy")
            .status(503)
            .retry_after(Milliseconds(9))
            .details([("a", "b")]),
        attributes: vec![("tenant".to_owned(), "t-1".to_owned())],
        ..ordinary_failure()
    }
}

proptest! {
    #[test]
    fn what_is_packed_is_read_again(
        id in "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}|\\PC{0,200}",
        handle in proptest::option::of("[A-Za-z0-9+/]{0,400}={0,2}|\\PC{0,50}"),
        pointer in "\\PC{0,20}",
        part in proptest::option::of("\\PC{0,20}"),
        first in proptest::collection::vec(any::<u8>(), 0..30),
        like_first in any::<bool>(),
    ) {
        let failure = failure(&id);
        let payload: PayloadParts = [(pointer, part)].into();
        let decidable = Decidable { failure: &failure, kept: Milliseconds(3), payload: &payload };
        let packing = pack(&id, handle.as_deref(), (Timestamp(11), 3), Some(decidable));
        let first = if like_first { packing.failure().to_owned() } else { first };
        let bytes = restore(&packing.without(&first), &first).unwrap();
        prop_assert_eq!(&bytes, &packing.bytes);
        let read = Packed::read(&bytes).unwrap();
        prop_assert_eq!(read.id(), id);
        prop_assert_eq!(read.handle(), handle);
        prop_assert_eq!((read.sent(), read.receives()), (Timestamp(11), 3));
        let remembered = read.failure(&failure.source, failure.attempt).unwrap();
        prop_assert_eq!(remembered, RememberedFailure { failure, kept: Milliseconds(3), payload });
    }
}

#[test]
fn an_id_and_a_handle_of_sqs_take_less_than_their_text() {
    let handle = BASE64.encode([7; 300]);
    let id = "5fea7756-0ea4-451a-a703-a558b933e274";
    let packing = pack(id, Some(&handle), (Timestamp(1_767_225_600_000), 1), None);
    let length = packing.bytes.len();
    assert!(length < 300 + 16 + 16, "{length}");
}

#[test]
fn a_large_failure_is_left_out() {
    let mut failure = failure("m");
    failure.error.message = "x".repeat(FAILURE_BYTES);
    let decidable = Decidable {
        failure: &failure,
        kept: Milliseconds(0),
        payload: &PayloadParts::new(),
    };
    let packing = pack("m", None, (Timestamp(0), 1), Some(decidable));
    assert!(packing.bytes.len() < 20);
    let read = Packed::read(&packing.bytes).unwrap();
    assert_eq!(read.failure("q", failure.attempt), None);
}

#[test]
fn what_a_failure_has_in_common_with_another_one_is_left_out() {
    let with_id = |id: &str| format!("busy (request {id})");
    let (one, other) = (
        "5fea7756-0ea4-451a-a703-a558b933e274",
        "c7d8b0e2-94f1-4a3b-8a55-0f6d1c2e3b48",
    );
    for (failure, first, bytes) in [
        ("", "", 1),
        ("busy (request 12)", "", 1 + 17),
        ("busy (request 12)", "busy (request 12)", 1),
        ("busy (request 12)", "busy (request 3)", 1 + 2),
        ("busy", "busybusy", 1),
        ("busybusy", "busy", 1 + 4),
        ("abc", "xyz", 1 + 3),
        (&with_id(one), &with_id(other), 16),
        // No id as it would be written.
        (&with_id(&one.to_uppercase()), &with_id(other), 1 + 36),
        (one, other, 16),
    ] {
        let packing = Packing::of(b"own", failure.as_bytes());
        let record = packing.without(first.as_bytes());
        let others = "own".len() + 3 + 1;
        assert_eq!(record.len(), others + bytes, "{failure} {first}");
        let bytes = restore(&record, first.as_bytes());
        assert_eq!(bytes.as_ref(), Some(&packing.bytes));
    }
}
