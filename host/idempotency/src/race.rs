//! The first of two futures.

use std::pin::pin;
use std::task::Poll;

/// What came first.
pub(crate) enum First<A, B> {
    A(A),
    B(B),
}

/// Waits for either; `a` if both are ready.
pub(crate) async fn race<A: Future, B: Future>(a: A, b: B) -> First<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    std::future::poll_fn(|context| {
        if let Poll::Ready(output) = a.as_mut().poll(context) {
            return Poll::Ready(First::A(output));
        }
        b.as_mut().poll(context).map(First::B)
    })
    .await
}
