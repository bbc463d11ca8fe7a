//! The memory of waiting messages: order, bounds, and its parts in agreement.

use super::*;
use proptest::prelude::*;

const LARGE: Limits = Limits {
    messages: 1_000,
    bytes: 1 << 20,
};

const CAUSE: Cause<'_> = Cause {
    code: "HTTP 503",
    class: "transient",
    policy: "sha256:00",
    group: "",
};

fn new(key: Key, ends: i64) -> New<'static> {
    New {
        packing: Packing::of(&key.to_le_bytes(), b"failure"),
        key,
        ends,
        due: ends,
        sent: 0,
        failed: 0,
        delay: Milliseconds(0),
        attempt: 1,
        cause: CAUSE,
        hold: Hold::Visibility,
        known: Known::Here,
        by_envelope: false,
    }
}

/// A message that is sent again until it is due.
fn hopping(key: Key, ends: i64, due: i64) -> New<'static> {
    New {
        due,
        hold: Hold::Resend,
        ..new(key, ends)
    }
}

fn keys(memory: &Memory) -> Vec<Key> {
    memory.iter().map(|(_, slot)| slot.key).collect()
}

#[test]
fn messages_leave_when_they_become_visible() {
    let mut memory = Memory::new(LARGE);
    for (key, ends) in [(1, 300), (2, 100), (3, 200)] {
        memory.add(new(key, ends), 0);
    }
    assert_eq!(keys(&memory), [2, 3, 1]);
    memory.expire(200, usize::MAX);
    assert_eq!(keys(&memory), [1]);
    let at = memory.iter().next().unwrap().0;
    memory.forget(1);
    assert!(memory.get(at).is_none());
    // The same place, another message.
    memory.add(new(4, 500), 200);
    assert!(memory.get(at).is_none());
    memory.set_end(at, 900);
    memory.forget_at(at);
    assert_eq!(memory.iter().next().unwrap().1.ends, 500);
    memory.expire(500, usize::MAX);
    assert_eq!((memory.len(), memory.bytes()), (0, 0));
}

#[test]
fn a_message_that_is_remembered_again_replaces_itself() {
    let mut memory = Memory::new(LARGE);
    memory.add(new(1, 100), 0);
    memory.add(new(1, 50), 0);
    assert_eq!((memory.len(), memory.by_end.len()), (1, 1));
    assert_eq!(memory.iter().next().unwrap().1.ends, 50);
}

#[test]
fn beyond_the_limits_the_messages_that_come_last_are_counted_instead() {
    let mut memory = Memory::new(Limits {
        messages: 2,
        ..LARGE
    });
    for (key, ends) in [
        (1, 3 * MINUTE),
        (2, MINUTE),
        (3, 2 * MINUTE),
        (4, 9 * MINUTE),
    ] {
        memory.add(new(key, ends), 0);
    }
    assert_eq!((keys(&memory), memory.not_remembered()), (vec![2, 3], 2));
    // They are no longer counted once they have become visible.
    memory.expire(5 * MINUTE, usize::MAX);
    assert_eq!((memory.len(), memory.not_remembered()), (0, 1));
    memory.expire(10 * MINUTE, usize::MAX);
    assert_eq!(memory.not_remembered(), 0);

    let mut memory = Memory::new(Limits {
        bytes: 10_000,
        ..LARGE
    });
    for key in 0..100 {
        // Each with a code of its own: those count too.
        let code = format!("{key:>250}");
        let new = New {
            cause: Cause {
                code: &code,
                ..CAUSE
            },
            ..new(key, 1_000)
        };
        memory.add(new, 0);
        assert!(memory.bytes() <= 10_000);
    }
    let (kept, left_out) = (memory.len() as u64, memory.not_remembered());
    assert!((5..50).contains(&kept), "{kept}");
    assert_eq!(kept + left_out, 100);
}

#[test]
fn a_group_costs_its_text_once_and_nothing_for_each_message() {
    let filled = |group: fn(u64) -> String| {
        let mut memory = Memory::new(Limits {
            messages: 120_000,
            bytes: 56 << 20,
        });
        for key in 0..120_000 {
            let group = group(key);
            let new = New {
                cause: Cause {
                    group: &group,
                    ..CAUSE
                },
                ..new(key, 1_000)
            };
            memory.add(new, 0);
        }
        (memory.bytes(), memory.len(), memory.not_remembered())
    };
    let (without, count, _) = filled(|_| String::new());
    assert_eq!((count, size_of::<Slot>()), (120_000, 72));
    let (with, ..) = filled(|key| format!("tenant-{}", key % 100));
    assert!(with - without < 100 * 250, "{without} {with}");
    // One for each message, as long as they get: all of it stays within the bounds.
    let (each, count, left_out) = filled(|key| format!("{key:>128}"));
    assert!(each <= 56 << 20, "{each}");
    assert_eq!(count as u64 + left_out, 120_000);
}

#[test]
fn the_failure_of_a_message_that_is_sent_again_stays_uncounted_until_it_is_due() {
    let mut memory = Memory::new(LARGE);
    memory.add(hopping(1, 900, 5_000), 0);
    memory.add(hopping(2, 900, 900), 0);
    let elsewhere = New {
        known: Known::Elsewhere,
        ..hopping(3, 900, 5_000)
    };
    memory.add(elsewhere, 0);
    assert_eq!(keys(&memory), [1, 2, 3]);
    memory.expire(900, usize::MAX);
    assert_eq!((keys(&memory), memory.len()), (vec![], 1));
    let (at, slot) = memory.ended_hops().next().unwrap();
    assert_eq!((slot.key, slot.ends), (1, 5_000));
    // It comes back, is sent again, and comes back.
    memory.set_hop(at, 1_800, 5_000);
    memory.expire(1_700, usize::MAX);
    assert_eq!((keys(&memory), memory.ended_hops().count()), (vec![1], 0));
    memory.expire(1_800, usize::MAX);
    assert_eq!(memory.find(1).map(|(found, _)| found), Some(at));
    memory.expire(5_000, usize::MAX);
    assert_eq!((memory.len(), memory.bytes()), (0, 0));
}

#[test]
fn a_message_whose_hop_has_ended_makes_place_and_is_not_counted() {
    let mut memory = Memory::new(Limits {
        messages: 2,
        ..LARGE
    });
    for key in [1, 2] {
        memory.add(hopping(key, 900, 9 * MINUTE), 0);
    }
    memory.add(new(3, MINUTE), 900);
    assert_eq!((keys(&memory), memory.not_remembered()), (vec![3], 0));
    assert_eq!(memory.ended_hops().count(), 1);
}

proptest! {
    #[test]
    fn the_order_the_index_and_the_bytes_agree_with_the_messages(
        steps in proptest::collection::vec((0_u8..7, 0_u64..8, 0_i64..4_000), 0..80)
    ) {
        let mut memory = Memory::new(Limits { messages: 5, ..LARGE });
        let mut now = 0;
        for (step, key, ends) in steps {
            match step {
                0 | 1 => memory.add(new(key, now + ends), now),
                2 => memory.forget(key),
                5 => memory.add(hopping(key, now + ends / 4, now + ends), now),
                6 => {
                    if let Some((at, _)) = memory.find(key) {
                        memory.set_hop(at, now + ends, now + ends * 2);
                    }
                }
                3 => {
                    let first = memory.iter().next().map(|(at, _)| at);
                    if let Some(at) = first {
                        memory.set_end(at, now + ends);
                    }
                }
                _ => {
                    now += ends / 4;
                    memory.expire(now, usize::MAX);
                    prop_assert!(memory.all().all(|(_, slot)| slot.ends + TENTH > now));
                }
            }
            prop_assert!(memory.len() <= 5);
            let ended = memory.ended_hops().count();
            prop_assert_eq!(memory.iter().count() + ended, memory.len());
            prop_assert_eq!(memory.by_end.len(), memory.len());
            prop_assert_eq!(memory.by_key.len(), memory.len());
            prop_assert!(memory.all().map(|(_, slot)| tenth(slot.ends)).is_sorted());
            for (_, slot) in memory.all() {
                let packed = [&slot.key.to_le_bytes()[..], b"failure"].concat();
                prop_assert_eq!(memory.packed(slot), packed);
            }
        }
    }
}
