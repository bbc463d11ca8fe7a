//! Enums whose variants have a name each.

/// Defines an enum from the table of its variants and their names, with `ALL`, `as_str` and `Display`.
///
/// ```
/// backstop_core::names! {
///     /// A side of the road.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Side {
///         /// As in Kenya.
///         Left = "left",
///         /// As in Peru.
///         Right = "right",
///     }
/// }
///
/// assert_eq!(Side::ALL.map(Side::as_str), ["left", "right"]);
/// assert_eq!(Side::Left.to_string(), "left");
/// ```
#[macro_export]
macro_rules! names {
    ($(#[$about:meta])* $visible:vis enum $of:ident {
        $($(#[$meaning:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$about])*
        $visible enum $of {
            $($(#[$meaning])* $variant,)+
        }

        impl $of {
            /// All, in the order of their definition.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name, the same wherever it is shown.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
