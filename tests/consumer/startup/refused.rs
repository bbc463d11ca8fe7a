//! What AWS refuses at a start: what may pass is waited for, and what is wrong ends the start.

use backstop_tests::aws::Queues;
use backstop_tests::backstop::Running;
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use backstop_tests::lambda::{FAILS_WHEN_TOLD, Function};
use backstop_tests::proxy::{Fault, Proxy};

use super::start_error;

/// The queues behind a proxy, where the requests of this operation meet `fault` while `is_hit` says so.
async fn refusing(
    queues: &Queues,
    operation: &'static str,
    fault: Fault,
    is_hit: impl Fn() -> bool + Send + Sync + 'static,
) -> Queues {
    let plan = move |requested: &str, _: u64| {
        if requested == operation && is_hit() {
            fault
        } else {
            Fault::None
        }
    };
    let proxy = Proxy::start(&queues.endpoint, plan).await;
    queues.behind(&proxy.endpoint)
}

#[tokio::test]
async fn credentials_that_are_not_accepted_end_a_start_that_says_so() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let fault = Fault::refused(403, "InvalidClientTokenId");
    let queues = refusing(&queues, "GetQueueAttributes", fault, || true).await;
    let arguments = [&queues.arguments()[..], &["--http", "http://127.0.0.1:1/"]].concat();
    let (code, error) = start_error(&arguments).await;
    for part in [
        "access to the queue",
        &queues.url,
        "check which credentials are in use",
        "InvalidClientTokenId",
    ] {
        assert!(error.contains(part), "{part:?} is not in:\n{error}");
    }
    assert_eq!(code, 5, "{error}");
}

#[tokio::test]
async fn a_function_that_is_throttled_is_waited_for_and_one_that_may_not_be_invoked_is_not() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let name = format!("throttled-{}", std::process::id());
    let function = Function::python(FAILS_WHEN_TOLD);
    function.make(&queues.endpoint, &name).await;
    let lambda = ["--lambda", &name];
    let denied = refusing(&queues, "Invoke", Fault::Denied, || true).await;
    let (code, error) = start_error(&[&denied.arguments()[..], &lambda].concat()).await;
    assert!(
        code == 5 && error.contains("the handler can't run: AccessDeniedException"),
        "{code}: {error}"
    );
    let over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let is_over = std::sync::Arc::clone(&over);
    let fault = Fault::refused(429, "TooManyRequestsException");
    let is_hit = move || !is_over.load(std::sync::atomic::Ordering::Relaxed);
    let throttled = refusing(&queues, "Invoke", fault, is_hit).await;
    queues.send([r#"{"fail": false}"#.to_owned()]).await;
    let arguments = [
        &throttled.arguments()[..],
        &lambda,
        &["--max-attempts", "1"],
    ]
    .concat();
    let running = Running::start(&arguments).await;
    assert!(
        running
            .log()
            .contains("does not answer: TooManyRequestsException"),
        "{}",
        running.log()
    );
    assert_eq!(queues.held().await, 1, "nothing is received for nobody");
    over.store(true, std::sync::atomic::Ordering::Relaxed);
    eventually("the queue is empty", || async { queues.held().await == 0 }).await;
    let (_, counts) = running.stop().await;
    assert_eq!(
        (counts[0]["succeeded"].as_u64(), queues.dead().await),
        (Some(1), 0)
    );
}
