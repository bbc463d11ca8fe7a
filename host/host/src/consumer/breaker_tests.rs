use super::*;
use crate::decision::{Action, DecidedBy, ErrorClass, Hold};
use crate::queue::ordinary_message;
use backstop_core::backoff::Backoff;
use backstop_core::breaker::BreakerSettings;

fn breaker(by: InCommon) -> Breaker {
    let settings = BreakerSettings::default()
        .minimum(2)
        .shortest_outage(Duration::ZERO)
        .pauses(Backoff::milliseconds(1_000, 1_000))
        .most(4);
    Breaker::new("orders", Some(&BreakerOptions { by, settings }))
}

fn of_tenant(tenant: &str) -> Message {
    Message {
        body: format!(r#"{{"tenant":"{tenant}"}}"#).into(),
        ..ordinary_message()
    }
}

fn fail(breaker: &Breaker, message: &Message) {
    let entered = breaker.enter(message).ok().unwrap();
    entered.failed(
        &decision(ErrorClass::Transient),
        &Error::new("HTTP 503", "busy"),
    );
}

fn decision(class: ErrorClass) -> Decision {
    Decision {
        class,
        action: Action::Retry {
            delay: Milliseconds(1_000),
        },
        decided_by: DecidedBy::Policy,
        hold: Hold::Visibility,
        down_for: None,
    }
}

/// One attempt fails, and the policy says that its tenant is down for so many seconds.
fn fail_down(breaker: &Breaker, message: &Message, seconds: u32) {
    let decision = Decision {
        down_for: Some(Milliseconds(seconds * 1_000)),
        ..decision(ErrorClass::Transient)
    };
    let entered = breaker.enter(message).ok().unwrap();
    entered.failed(&decision, &Error::new("HTTP 503", "maintenance"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_down_is_polled_for_one_probe_at_a_time() {
    let breaker = breaker(InCommon::Queue);
    let message = of_tenant("a");
    assert!(breaker.is_free() && !breaker.has_keys());
    fail(&breaker, &message);
    assert!(breaker.is_free());
    fail(&breaker, &message);
    assert!(!breaker.is_free() && breaker.is_closed());
    assert_eq!(breaker.down()[0].state, "open");
    let started = Instant::now();
    assert_eq!(breaker.passed(|| 0).await, 1);
    let waited = started.elapsed();
    assert!((500..=1_050).contains(&waited.as_millis()), "{waited:?}");
    // A poll is under way for it.
    let another = tokio::time::timeout(Duration::from_secs(60), breaker.passed(|| 1));
    assert!(another.await.is_err());
    let probe = breaker.enter(&message).ok().unwrap();
    assert_eq!(breaker.enter(&message).err().unwrap().wait, Duration::ZERO);
    // What is dropped proves nothing: another one may probe.
    drop(probe);
    breaker.enter(&message).ok().unwrap().succeeded();
    assert!(!breaker.is_closed());
    assert_eq!(breaker.down()[0].state, "growing");
    for _ in 0..50 {
        breaker.enter(&message).ok().unwrap().succeeded();
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    breaker.enter(&message).ok().unwrap().succeeded();
    assert!(breaker.is_free() && breaker.down().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_down_stops_no_other_and_is_reported() {
    let breaker = breaker(InCommon::Pointer("/tenant".to_owned()));
    for _ in 0..2 {
        fail(&breaker, &of_tenant("b"));
    }
    let down = breaker.enter(&of_tenant("b")).err().unwrap();
    assert_eq!(down.why, NotNow::Down("b".to_owned()));
    assert!(down.wait > Duration::ZERO);
    assert!(breaker.is_free() && breaker.has_keys());
    breaker.enter(&of_tenant("a")).ok().unwrap().succeeded();
    // Without a key, or with another class, nothing counts.
    for _ in 0..9 {
        let entered = breaker.enter(&ordinary_message()).ok().unwrap();
        entered.failed(
            &decision(ErrorClass::Transient),
            &Error::new("HTTP 503", ""),
        );
        let entered = breaker.enter(&of_tenant("c")).ok().unwrap();
        entered.failed(
            &decision(ErrorClass::Permanent),
            &Error::new("HTTP 400", ""),
        );
    }
    let down: Vec<_> = breaker.down().into_iter().map(|it| it.key).collect();
    assert_eq!(down, [Some("b".to_owned())]);
    assert_eq!(breaker.wanted(), HashMap::new());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(breaker.wanted(), HashMap::from([("b".to_owned(), 1)]));
    breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
    assert_eq!(breaker.recovered(), Vec::<String>::new());
    for _ in 0..50 {
        breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    breaker.enter(&of_tenant("b")).ok().unwrap().succeeded();
    assert_eq!(breaker.recovered(), ["b"]);
    assert_eq!(breaker.recovered(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_says_how_long_a_key_is_down_stops_its_messages_for_that_time() {
    let breaker = breaker(InCommon::Pointer("/tenant".to_owned()));
    fail_down(&breaker, &of_tenant("b"), 120);
    let down = breaker.enter(&of_tenant("b")).err().unwrap();
    let b = NotNow::Down("b".to_owned());
    assert_eq!((down.why, down.wait), (b, Duration::from_secs(120)));
    breaker.enter(&of_tenant("a")).ok().unwrap().succeeded();
    // Without a key, nothing follows.
    fail_down(&breaker, &ordinary_message(), 120);
    assert!(breaker.enter(&ordinary_message()).is_ok());
    tokio::time::sleep(Duration::from_secs(119)).await;
    assert_eq!(breaker.wanted(), HashMap::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(breaker.wanted(), HashMap::from([("b".to_owned(), 1)]));
    // The probe fails, and it is believed for five minutes at most.
    fail_down(&breaker, &of_tenant("b"), 86_400);
    let down = breaker.enter(&of_tenant("b")).err().unwrap();
    assert_eq!(down.wait, Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn without_a_breaker_what_a_policy_says_changes_nothing() {
    let breaker = Breaker::new("orders", None);
    for _ in 0..2 {
        fail_down(&breaker, &of_tenant("b"), 120);
        assert!(breaker.has_said_no_breaker.load(SeqCst) && breaker.is_free());
    }
}
