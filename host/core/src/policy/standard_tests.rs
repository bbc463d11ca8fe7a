//! Settings of the native policies, and their answers. That the components answer alike is tested with the components.

use super::*;

use crate::decision::Action;
use crate::examples::ordinary_failure;
use crate::failure::Milliseconds;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

#[test]
fn each_formula_gives_its_own_delay() {
    let mut failure = ordinary_failure();
    failure.attempt = NonZeroU32::MIN.saturating_add(2);
    failure.previous_delay = Some(Milliseconds(150));
    let base = ms(100);
    let policies: [(&dyn Policy, u32); 4] = [
        (&FullJitter::default().base(base), 200),
        (&EqualJitter::default().base(base), 300),
        (&Linear::default().base(base), 300),
        (&DecorrelatedJitter::default().base(base), 275),
    ];
    for (policy, delay) in policies {
        let delay = Milliseconds(delay);
        let action = policy.answer(&failure).action;
        assert_eq!(action, Action::Retry { delay }, "{policy:?}");
    }
}

#[test]
fn an_invalid_value_is_rejected_as_the_component_rejects_it() {
    let full = FullJitter::default;
    for (policy, expected) in [
        (
            full().base(ms(0)),
            "setting `base` is `0s`: expected 1ms to 14d",
        ),
        (
            full().cap(ms(0)),
            "setting `cap` is `0s`: expected 1ms to 14d",
        ),
        (
            full().cap(ms(15 * 86_400_000)),
            "setting `cap` is `15d`: expected 1ms to 14d",
        ),
        (
            full().max_age(ms(0)),
            "setting `max-age` is `0s`: expected 1ms to 14d",
        ),
        (
            full().base(ms(2_000)).cap(ms(1_000)),
            "setting `base` is `2s`: expected at most the cap of 1s",
        ),
        (
            full().floor(ms(13 * 3_600_000)),
            "setting `floor` is `13h`: expected at most the cap of 12h",
        ),
        (
            full().max_attempts(0),
            "setting `max-attempts` is `0`: expected a whole number from 1",
        ),
        (
            full().permanent(["Busy"]).transient(["Busy"]),
            "`Busy` is in `permanent` and in `transient`: expected a code in one list",
        ),
        (
            full().permanent(["A,B"]),
            "setting `permanent` is `A,B`: expected codes, separated by commas, such as `CardDeclined, HTTP 4*`",
        ),
    ] {
        assert_eq!(policy.validate().unwrap_err().to_string(), expected);
        // It answers, whatever its settings.
        assert!(policy.answer(&ordinary_failure()).validate().is_ok());
    }
    assert!(full().max_attempts(0).max_attempts(1).validate().is_ok());
    assert!(
        full()
            .base(Duration::MAX)
            .cap(Duration::MAX)
            .validate()
            .is_err()
    );
    // Rounded up: half a millisecond is not zero.
    assert!(full().base(Duration::from_micros(500)).validate().is_ok());
}

#[test]
fn the_settings_are_those_that_the_component_would_get() {
    let policy = Linear::default()
        .base(ms(50))
        .cap(ms(5_000))
        .floor(ms(10))
        .max_attempts(8)
        .max_age(ms(90_000))
        .respect_retry_after(false)
        .throttled(["Busy", "Slow*"])
        .permanent(["CardDeclined"]);
    let settings = Policy::settings(&policy);
    assert_eq!(
        settings.to_string(),
        "base=50ms, cap=5s, floor=10ms, max-age=1m30s, max-attempts=8, respect-retry-after=off, permanent=CardDeclined, throttled=Busy,Slow*"
    );
    let same = crate::policy::by_name("linear", &settings).unwrap();
    assert_eq!(same.settings(), settings);
    assert_eq!(format!("{same:?}"), format!("linear({settings})"));
}

#[test]
fn a_long_code_is_cut_as_a_component_receives_it() {
    let mut failure = ordinary_failure();
    failure.error = crate::failure::Error::new(format!("{}.AccessDenied", "é".repeat(3_000)), "");
    let answer = FullJitter::default().answer(&failure);
    assert_eq!(answer.class, crate::decision::ErrorClass::Transient);
}
