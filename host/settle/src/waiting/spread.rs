//! When messages that are woken become visible: spread evenly over a duration, and never later than they would have.

use std::time::Duration;

/// When each of the messages comes, in milliseconds: the messages are due at `dues`, in this order, and come spread over `spread` from `now` on.
///
/// A message that is due earlier keeps its time, and its place in the spread stays free.
pub(super) fn spread(
    dues: impl ExactSizeIterator<Item = i64>,
    now: i64,
    spread: Duration,
) -> impl Iterator<Item = i64> {
    let count = i128::try_from(dues.len()).unwrap_or(i128::MAX).max(1);
    let spread = i128::try_from(spread.as_millis()).unwrap_or(i128::MAX);
    dues.zip(0_i128..).map(move |(due, place)| {
        let after = i64::try_from(spread.saturating_mul(place) / count).unwrap_or(i64::MAX);
        due.min(now.saturating_add(after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_come_evenly_from_now_on() {
        let dues = vec![9_000_i64; 5];
        let times: Vec<_> = spread(dues.into_iter(), 1_000, Duration::from_secs(5)).collect();
        assert_eq!(times, [1_000, 2_000, 3_000, 4_000, 5_000]);
        let at_once: Vec<_> = spread([7, 8].into_iter(), 5, Duration::ZERO).collect();
        assert_eq!(at_once, [5, 5]);
    }

    proptest! {
        #[test]
        fn no_message_comes_later_than_it_would_have(
            dues in proptest::collection::vec(any::<i64>(), 0..50),
            now in any::<i64>(),
            milliseconds in any::<u64>(),
        ) {
            let over = Duration::from_millis(milliseconds);
            let times: Vec<_> = spread(dues.clone().into_iter(), now, over).collect();
            prop_assert_eq!(times.len(), dues.len());
            for (time, due) in times.iter().zip(&dues) {
                prop_assert!(time <= due);
                prop_assert!(*time >= now.min(*due));
            }
        }
    }
}
