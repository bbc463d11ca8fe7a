//! Structs that are made of a table of TOML, and of nothing else.

/// Reads each of these structs from a table alone; `expected` is what a mistake says would be right. A derived `Deserialize` takes a list for it too, its items in the order of the fields.
///
/// The struct derives `Deserialize` with `#[serde(remote = "Self")]`, which makes a function of it in place of the trait.
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
