//! Deserializes structs from objects and from nothing else.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Deserializes a struct from the text of an object. A derived `Deserialize` alone also accepts an array of the fields' values in order.
pub fn object<'de, T: Deserialize<'de>>(text: &'de str) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = only_object(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Like [`object`], for a field: `#[serde(deserialize_with = "backstop_json::only_object")]`.
pub fn only_object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Fields<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }

    deserializer.deserialize_map(Fields(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Outer {
        #[serde(deserialize_with = "only_object")]
        inner: Inner,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Inner {
        a: u32,
    }

    #[test]
    fn a_struct_is_read_from_an_object_and_not_from_an_array() {
        let outer = object::<Outer>(r#" {"inner": {"a": 1}} "#).unwrap();
        assert_eq!(outer.inner, Inner { a: 1 });
        for json in [
            r#"[{"a": 1}]"#,
            r#"{"inner": [1]}"#,
            r#"{"inner": null}"#,
            r#"{"inner": {"a": 1}} more"#,
            "{}",
        ] {
            assert!(object::<Outer>(json).is_err(), "{json}");
        }
        // The derived implementation alone accepts it.
        assert!(serde_json::from_str::<Inner>("[1]").is_ok());
    }
}
