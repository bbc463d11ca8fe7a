//! The list of the built-in policies.

/// Passes the list of the built-in policies to a macro, in the order of the documentation: the name of each policy with its type and the function of its formula; then those with a rule of their own, with the function that parses their settings. Their modules, the package for Lambda and the documents are compared with it.
#[doc(hidden)]
#[macro_export]
macro_rules! built_in_policies {
    ($make:ident) => {
        $make! {
            formulas {
                /// `full-jitter`: a random delay from the floor to the exponential delay. It spreads retries the most, but some come early.
                ///
                /// ```
                /// use std::time::Duration;
                /// use backstop_core::policy::{FullJitter, Policy};
                ///
                /// let policy = FullJitter::default()
                ///     .base(Duration::from_millis(50))
                ///     .cap(Duration::from_secs(5))
                ///     .max_attempts(8);
                /// assert_eq!(policy.settings().to_string(), "base=50ms, cap=5s, max-attempts=8");
                /// ```
                "full-jitter" FullJitter full_jitter;

                /// `equal-jitter`: half of the exponential delay, plus a random part of the other half. No retry comes early.
                "equal-jitter" EqualJitter equal_jitter;

                /// `linear`: the base times the attempt, without jitter. For few messages, and services that need time to recover.
                "linear" Linear linear;

                /// `decorrelated-jitter`: a random delay from the base to three times the previous delay.
                "decorrelated-jitter" DecorrelatedJitter decorrelated_jitter;
            }
            rules {
                "aws-sdk-2.0" parse_2_0;
                "aws-sdk-2.1" parse_2_1;
            }
        }
    };
}
