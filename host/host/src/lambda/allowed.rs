//! Which functions may be invoked again. A record names its function, and everybody with permission to send to the retry queue can write records. The operator's list restricts the functions.

use backstop_functions::FunctionName;

/// The functions that the operator allows; any function if the list is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Allowed(Vec<String>);

impl Allowed {
    /// Allows the functions of a list of names and ARNs, each with or without a version or alias. An empty list allows any function.
    pub fn of(functions: &[String]) -> Self {
        Self(functions.to_vec())
    }

    /// Whether the function of a record may be invoked. Names without a region or an account have those of the retry queue, whose ARN is `queue`.
    pub(crate) fn allows(&self, function: &str, queue: &str) -> bool {
        let is_of =
            |listed: &String| match (FunctionName::parse(listed), FunctionName::parse(function)) {
                (Some(listed), Some(function)) => listed.at(queue).covers(&function.at(queue)),
                _ => false,
            };
        self.0.is_empty() || self.0.iter().any(is_of)
    }

    /// Logs which functions may be invoked.
    pub(super) fn log(&self) {
        if self.0.is_empty() {
            tracing::warn!(
                "every function that a record names is invoked if the role allows it, and everybody with permission to send to the retry queue can write records: list the intended functions in functions (BACKSTOP_FUNCTIONS)"
            );
        } else {
            tracing::info!(
                functions = self.0.join(", "),
                "only these functions are invoked"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUE: &str = "arn:aws:sqs:eu-west-1:1:retries";

    fn allows(listed: &str, function: &str) -> bool {
        Allowed::of(&[listed.to_owned()]).allows(function, QUEUE)
    }

    #[test]
    fn a_function_is_the_same_however_it_is_named() {
        let names = [
            "orders",
            "1:function:orders",
            "arn:aws:lambda:eu-west-1:1:function:orders",
        ];
        for listed in names {
            for function in names {
                assert!(allows(listed, function), "{listed} {function}");
                for version in ["$LATEST", "live", "7"] {
                    // Any version, where the list says none.
                    assert!(allows(listed, &format!("{function}:{version}")));
                }
                // None but that, where it says one.
                let live = format!("{listed}:live");
                assert!(allows(&live, &format!("{function}:live")));
                assert!(!allows(&live, &format!("{function}:7")));
                assert!(!allows(&live, function));
                assert!(allows(&format!("{listed}:$LATEST"), function));
            }
        }
    }

    #[test]
    fn another_function_is_another_one() {
        for listed in [
            "orders",
            "1:function:orders",
            "arn:aws:lambda:eu-west-1:1:function:orders",
        ] {
            for function in [
                "order",
                "orders2",
                "Orders",
                "2:function:orders",
                "arn:aws:lambda:eu-west-1:2:function:orders",
                "arn:aws:lambda:eu-west-2:1:function:orders",
                "arn:aws:lambda:eu-west-1:1:function:other:orders",
                "arn:aws:lambda:eu-west-1:1:layer:orders",
                "arn:aws:sqs:eu-west-1:1:function:orders",
                "arn:aws:lambda:eu-west-1:1:function:orders:live:7",
                "orders ",
                "orders\n",
                "orders/../other",
                "",
                ":",
                ":orders",
                "orders:",
            ] {
                assert!(!allows(listed, function), "{listed} {function:?}");
            }
        }
        // Named in full, one of another account or region is meant.
        let elsewhere = "arn:aws:lambda:us-east-1:2:function:orders";
        assert!(allows(elsewhere, &format!("{elsewhere}:live")));
        assert!(!allows(elsewhere, "orders"));
    }

    #[test]
    fn without_a_list_any_function_is_allowed() {
        for function in [
            "orders",
            "arn:aws:lambda:eu-west-1:2:function:f:live",
            "x y",
        ] {
            assert!(Allowed::default().allows(function, QUEUE));
        }
    }

    #[test]
    fn the_queue_in_memory_is_of_no_account() {
        let allowed = Allowed::of(&["orders".to_owned()]);
        let function = "arn:aws:lambda:eu-west-1:1:function:orders:live";
        assert!(allowed.allows(function, "local:retries"));
    }
}
