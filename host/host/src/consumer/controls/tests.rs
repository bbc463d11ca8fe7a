use super::*;
use crate::failure::Timestamp;
use crate::maintenance::Window;
use futures_util::FutureExt;

fn controls(rate: Option<&str>) -> Arc<Controls> {
    let rate = rate.map(|rate| rate.parse().unwrap());
    let options = Options {
        rate,
        ..Options::default()
    };
    Controls::new("orders", Budget::new(100, 1 << 20), &options)
}

fn pause(controls: &Controls, over: Option<Duration>) -> Pause {
    controls.pause(
        over,
        Some("the till is closed".to_owned()),
        "anna".to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_receives_nothing_until_it_is_resumed() {
    let controls = controls(None);
    assert!(controls.is_free() && !controls.is_paused());
    assert_eq!(controls.passed().now_or_never(), Some(usize::MAX));
    pause(&controls, None);
    assert!(!controls.is_free() && controls.is_paused());
    let text = controls.pause_text().unwrap();
    assert_eq!(text, "is paused by anna: the till is closed");
    let waits = tokio::spawn({
        let controls = Arc::clone(&controls);
        async move { controls.passed().await }
    });
    sleep(Duration::from_secs(86_400)).await;
    assert!(!waits.is_finished());
    let ended = controls.resume(Duration::ZERO, "anna").unwrap();
    assert_eq!(ended.by, "anna");
    assert_eq!(waits.await.unwrap(), usize::MAX);
    assert!(controls.is_free());
    assert_eq!(controls.resume(Duration::ZERO, "anna"), None);
}

#[tokio::test(start_paused = true)]
async fn a_pause_for_a_time_ends_by_itself_and_another_one_replaces_it() {
    let controls = controls(None);
    pause(&controls, Some(Duration::from_secs(5)));
    pause(&controls, Some(Duration::from_secs(60)));
    let started = Instant::now();
    assert_eq!(controls.passed().await, usize::MAX);
    // Times of day have milliseconds.
    let took = started.elapsed();
    assert!((59_900..=60_100).contains(&took.as_millis()), "{took:?}");
    assert!(controls.is_free());
    assert_eq!(controls.pause_text(), None);
}

#[tokio::test(start_paused = true)]
async fn the_messages_in_flight_grow_over_the_ramp() {
    let controls = controls(None);
    pause(&controls, None);
    controls.resume(Duration::from_secs(100), "anna");
    let mut held = Vec::new();
    for (second, most) in [(0, 1), (10, 10), (50, 50), (99, 99)] {
        let at = controls.state().ramp.unwrap().from + Duration::from_secs(second);
        tokio::time::sleep_until(at).await;
        let more = controls.passed().await;
        assert_eq!(more + controls.budget.in_flight(), most, "after {second} s");
        held.push(controls.budget.room(more, 0).await.unwrap());
        let another = tokio::time::timeout(Duration::from_millis(20), controls.passed());
        assert!(another.await.is_err(), "after {second} s");
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(controls.passed().await, usize::MAX);
    assert!(controls.is_free());
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_set_changed_and_removed() {
    let controls = controls(Some("20/s"));
    assert!(!controls.is_free() && !controls.is_paused());
    assert_eq!(controls.passed().await, 20);
    controls.took(10);
    controls.took(10);
    controls.gave_back(5);
    // Ten are worth a poll: five more in a quarter of a second.
    let started = Instant::now();
    assert_eq!(controls.passed().await, 10);
    assert_eq!(started.elapsed(), Duration::from_millis(250));
    let serving = controls.serving(Some("is not polled".to_owned()));
    assert_eq!(serving.rate.as_deref(), Some("20/s"));
    assert_eq!(serving.not_polled.as_deref(), Some("is not polled"));
    let limits = NewLimits {
        rate: Some(None),
        max_in_flight: Some(7),
        ..NewLimits::default()
    };
    controls.set(limits, "anna");
    assert!(controls.is_free());
    let serving = controls.serving(None);
    assert_eq!((serving.rate, serving.max_in_flight), (None, 7));
}

#[tokio::test(start_paused = true)]
async fn a_pause_goes_on_after_a_restart_and_one_that_is_over_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let kept = |queue: &str| KeptPause::of(&folder.path().join("paused"), queue);
    let host = |queue| {
        let controls = controls(None);
        controls.kept_in(kept(queue));
        controls
    };
    assert!(host("orders").is_free());
    let paused = pause(&host("orders"), None);
    assert!(host("bills").is_free(), "another queue");
    let again = host("orders");
    assert_eq!(again.serving(None).paused, Some(paused));
    again.resume(Duration::ZERO, "anna");
    assert!(host("orders").is_free());
    pause(&host("orders"), Some(Duration::from_secs(3_600)));
    assert!(host("orders").is_paused());
    let over = Pause {
        since: Timestamp(1_000),
        until: Some(Timestamp(2_000)),
        why: None,
        by: "anna".to_owned(),
    };
    kept("orders").write(&over);
    assert!(host("orders").is_free());
    assert!(kept("orders").read().is_none());
    // A file that is none is reported, and no pause.
    std::fs::write(folder.path().join("paused/x.json"), "").unwrap();
    for entry in std::fs::read_dir(folder.path().join("paused")).unwrap() {
        std::fs::write(entry.unwrap().path(), "{").unwrap();
    }
    assert!(host("orders").is_free());
}

/// Controls with a window that is open every day from 2:00 to 4:00, and the time of day on some day.
fn with_window() -> (Arc<Controls>, impl Fn(&str) -> Timestamp) {
    let two_hours = Duration::from_secs(7_200);
    let why = Some("inventory".to_owned());
    let window = Window::new("0 2 * * *", "UTC", two_hours, why).unwrap();
    let budget = Budget::new(100, 1 << 20);
    let options = Options {
        pause: vec![window],
        ..Options::default()
    };
    let controls = Controls::new("orders", budget, &options);
    let at = |time: &str| {
        let time = format!("2026-11-22T{time}Z").parse::<jiff::Timestamp>();
        Timestamp(time.unwrap().as_millisecond().try_into().unwrap())
    };
    (controls, at)
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_paused_while_a_window_is_open() {
    let (controls, at) = with_window();
    assert!(controls.is_free());
    // A host that starts in the middle of it.
    controls.look_at_windows(at("03:00:00"));
    assert!(controls.is_paused() && !controls.is_free());
    let paused = controls.serving(None).paused.unwrap();
    assert_eq!(
        (paused.since, paused.until, paused.by.as_str()),
        (at("02:00:00"), Some(at("04:00:00")), "the configuration")
    );
    let text = controls.pause_text().unwrap();
    assert!(text.ends_with(" by the configuration: inventory"), "{text}");
    let waits = tokio::spawn({
        let controls = Arc::clone(&controls);
        async move { controls.passed().await }
    });
    sleep(Duration::from_secs(86_400)).await;
    assert!(!waits.is_finished());
    controls.look_at_windows(at("04:00:00"));
    assert_eq!(waits.await.unwrap(), usize::MAX);
    assert!(controls.is_free() && controls.pause_text().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_resume_ends_this_window_only() {
    let (controls, _) = with_window();
    let soon = clock::now().plus(Duration::from_secs(3_600));
    let time = jiff::Timestamp::from_millisecond(soon.0.try_into().unwrap()).unwrap();
    let begins = time.to_zoned(jiff::tz::TimeZone::UTC) - jiff::SignedDuration::from_hours(2);
    let pattern = format!("{} {} * * *", begins.minute(), begins.hour());
    let two_hours = Duration::from_secs(7_200);
    controls.set_windows(vec![Window::new(&pattern, "UTC", two_hours, None).unwrap()]);
    assert!(controls.is_paused());
    let ended = controls.resume(Duration::ZERO, "anna").unwrap();
    assert_eq!(ended.by, "the configuration");
    assert!(!controls.is_paused());
    controls.look_at_windows(clock::now());
    assert!(!controls.is_paused());
    controls.look_at_windows(clock::now().plus(Duration::from_secs(86_400)));
    assert!(controls.is_paused());
    controls.set_windows(Vec::new());
    assert!(controls.is_free());
}

#[tokio::test(start_paused = true)]
async fn the_longer_one_of_a_pause_and_a_window_counts() {
    let (controls, at) = with_window();
    controls.look_at_windows(at("03:00:00"));
    pause(&controls, None);
    assert_eq!(controls.serving(None).paused.unwrap().by, "anna");
    controls.look_at_windows(at("04:00:00"));
    assert!(controls.is_paused(), "until it is resumed");
    controls.resume(Duration::ZERO, "anna");
    assert!(controls.is_free());
    // A pause that ends in the middle of a window.
    pause(&controls, Some(Duration::from_secs(5)));
    controls.look_at_windows(at("03:00:00"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(
        controls.serving(None).paused.unwrap().by,
        "the configuration"
    );
    controls.look_at_windows(at("04:00:01"));
    assert!(controls.is_free());
}
