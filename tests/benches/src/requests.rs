//! The requests to a queue that a failure causes.

/// A message that succeeds at once: a tenth of a receive and a tenth of a delete.
const SUCCEEDS: f64 = 0.2;

/// The delete that a message which fails does not need yet.
const DELETE: f64 = 0.1;

/// The next receive of a message that failed.
const RECEIVED_AGAIN: f64 = 0.1;

/// What a failure causes, by the requests for each message of which this share fails: what hides it, and the receive that brings it again.
pub fn requests_of_a_failure(requests: f64, share: f64) -> f64 {
    // Batches that are not quite full are no request saved.
    let hiding = ((requests - SUCCEEDS) / share + DELETE).max(0.0);
    hiding + RECEIVED_AGAIN
}

#[cfg(test)]
mod tests {
    use super::requests_of_a_failure;

    #[test]
    fn a_failure_is_what_hides_it_and_brings_it_again() {
        // A tenth of a receive for each, a tenth of a delete for nine of ten, and what hides one of ten.
        for (hiding, expected) in [(0.0, 0.1), (0.1, 0.2), (1.0, 1.1)] {
            let requests = requests_of_a_failure(0.1 + 0.09 + 0.1 * hiding, 0.1);
            assert!(
                (requests - expected).abs() < 1e-9,
                "{requests}, not {expected}"
            );
        }
    }
}
