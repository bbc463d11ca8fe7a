//! What a value shows of itself in a log or in the message of a failed test.

/// Implements `Debug` for a type as the fields that tell its values apart, and `..` for the others.
///
/// ```
/// struct Lane {
///     name: &'static str,
///     waiting: Vec<u64>,
///     wake: fn(),
/// }
///
/// backstop_core::shown!(Lane, lane => name = lane.name, waiting = lane.waiting.len());
///
/// let lane = Lane { name: "orders", waiting: vec![1, 2], wake: || () };
/// assert_eq!(format!("{lane:?}"), "Lane { name: \"orders\", waiting: 2, .. }");
/// ```
#[macro_export]
macro_rules! shown {
    ($of:ident $(<$($of_type:ident),+>)? $(, $value:ident => $($name:ident = $shown:expr),+)?) => {
        impl $(<$($of_type),+>)? std::fmt::Debug for $of $(<$($of_type),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $(let $value = self;)?
                f.debug_struct(stringify!($of))
                    $($(.field(stringify!($name), &$shown))+)?
                    .finish_non_exhaustive()
            }
        }
    };
}
