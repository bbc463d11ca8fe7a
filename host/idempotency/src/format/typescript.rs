//! JSON as JavaScript's `JSON.stringify` writes it.

use super::number;
use super::style::Style;
use crate::json::Json;

/// The largest name that JavaScript takes for the index of an array. Such fields come first in every object, by number.
const LARGEST_INDEX: u32 = u32::MAX - 1;

const SORTED: Style = Style {
    comma: ",",
    colon: ":",
    order: sorted,
    number: number::javascript,
    string: |string| serde_json::to_string(string).unwrap_or_else(|_| "\"\"".to_owned()),
};

/// `JSON.stringify(deepSort(value))`, of which Powertools takes the hash: fields are sorted without regard to case.
pub(super) fn text(value: &Json) -> String {
    SORTED.text(value)
}

/// `JSON.stringify(value)`, the `to_string` of JMESPath.
#[cfg(feature = "jmespath")]
pub(crate) fn plain(value: &Json) -> String {
    let style = Style {
        order: in_order,
        ..SORTED
    };
    style.text(value)
}

/// The fields in the order of `deepSort`. Names that differ in case only stay in the order of the event, as there.
fn sorted(fields: &[(String, Json)]) -> Vec<&(String, Json)> {
    // The assignment of `__proto__` there makes no field.
    let mut fields: Vec<_> = fields.iter().filter(|it| it.0 != "__proto__").collect();
    // `Object.keys` before the sort, and the new object after it, both have their indexes first.
    fields.sort_by_cached_key(|(name, _)| match index(name) {
        Some(index) => (0, index, Vec::new()),
        None => (1, 0, name.to_lowercase().encode_utf16().collect()),
    });
    fields
}

/// The fields in the order of `Object.keys`: indexes first, by number, and then as they came.
#[cfg(feature = "jmespath")]
pub(crate) fn in_order(fields: &[(String, Json)]) -> Vec<&(String, Json)> {
    let mut fields: Vec<_> = fields.iter().collect();
    fields.sort_by_key(|(name, _)| index(name).map_or((1, 0), |index| (0, index)));
    fields
}

fn index(name: &str) -> Option<u32> {
    let index: u32 = name.parse().ok()?;
    (index <= LARGEST_INDEX && index.to_string() == name).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_powertools_for_typescript_writes() {
        for (given, expected) in [
            (
                r#"{"b": 1, "C": 2, "a": [1.0, null, true], "B": 3}"#,
                r#"{"a":[1,null,true],"b":1,"B":3,"C":2}"#,
            ),
            (r#"{"B": 3, "b": 1}"#, r#"{"B":3,"b":1}"#),
            (
                r#"{"x": 1, "10": 2, "9": 3, "01": 4, "4294967294": 5, "4294967295": 6}"#,
                r#"{"9":3,"10":2,"4294967294":5,"01":4,"4294967295":6,"x":1}"#,
            ),
            (r#"{"__proto__": 1, "a": 2}"#, r#"{"a":2}"#),
            // By UTF-16, the first half of the emoji is smaller.
            (r#"{"\uffff":1,"😀":2}"#, "{\"😀\":2,\"\u{ffff}\":1}"),
            ("\"é\u{7f}\\u0001\\n\\\"\"", "\"é\u{7f}\\u0001\\n\\\"\""),
        ] {
            assert_eq!(text(&Json::parse(given).unwrap()), expected, "{given}");
        }
    }
}
