//! Structs that deserialize from a TOML table and from nothing else.

/// Implements `Deserialize` for each of these structs, from a table only. `expected` describes the struct in an error. A derived `Deserialize` also accepts a list of the fields' values in order.
///
/// The struct derives `Deserialize` with `#[serde(remote = "Self")]`, which generates a function instead of the trait implementation.
#[macro_export]
macro_rules! only_tables {
    ($($type:ident: $expected:literal;)*) => {$(
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;

                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_map<A>(self, table: A) -> Result<$type, A::Error>
                    where
                        A: serde::de::MapAccess<'de>,
                    {
                        $type::deserialize(serde::de::value::MapAccessDeserializer::new(table))
                    }
                }

                deserializer.deserialize_map(Fields)
            }
        }
    )*};
}
