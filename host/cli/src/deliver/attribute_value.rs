//! DynamoDB's JSON for the values of attributes.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// The attributes of an item or a key. The error names the attribute.
pub(super) fn item(item: &Map<String, Value>) -> Result<HashMap<String, AttributeValue>, String> {
    let attribute = |(name, of): (&String, &Value)| {
        let value = value(of).map_err(|why| format!("`{name}`: {why}"))?;
        Ok((name.clone(), value))
    };
    item.iter().map(attribute).collect()
}

fn value(json: &Value) -> Result<AttributeValue, String> {
    use AttributeValue as A;
    let expected = || "expected an object with one type, such as {\"S\": \"text\"}".to_owned();
    let object = json.as_object().filter(|object| object.len() == 1);
    let (kind, json) = object
        .and_then(|it| it.iter().next())
        .ok_or_else(expected)?;
    let wrong = || format!("the value of {kind} is of another type");
    let text = |json: &Value| json.as_str().map(str::to_owned).ok_or_else(wrong);
    let bytes = |json: &Value| {
        let bytes = STANDARD.decode(json.as_str().ok_or_else(wrong)?);
        let bytes = bytes.map_err(|error| format!("the value of {kind} is not base64: {error}"))?;
        Ok::<_, String>(Blob::new(bytes))
    };
    let list = || json.as_array().map(|list| list.iter()).ok_or_else(wrong);
    Ok(match kind.as_str() {
        "S" => A::S(text(json)?),
        "N" => A::N(text(json)?),
        "B" => A::B(bytes(json)?),
        "BOOL" => A::Bool(json.as_bool().ok_or_else(wrong)?),
        "NULL" => A::Null(json.as_bool().ok_or_else(wrong)?),
        "SS" => A::Ss(list()?.map(text).collect::<Result<_, _>>()?),
        "NS" => A::Ns(list()?.map(text).collect::<Result<_, _>>()?),
        "BS" => A::Bs(list()?.map(bytes).collect::<Result<_, _>>()?),
        "L" => A::L(list()?.map(value).collect::<Result<_, _>>()?),
        "M" => A::M(item(json.as_object().ok_or_else(wrong)?)?),
        _ => return Err(format!("unknown type `{kind}`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_is_read() {
        use AttributeValue as A;
        let text = |text: &str| text.to_owned();
        for (json, expected) in [
            (json!({"S": "é"}), A::S(text("é"))),
            (json!({"N": "1.50"}), A::N(text("1.50"))),
            (json!({"B": "AQI="}), A::B(Blob::new([1, 2]))),
            (json!({"BOOL": false}), A::Bool(false)),
            (json!({"NULL": true}), A::Null(true)),
            (json!({"SS": ["a"]}), A::Ss(vec![text("a")])),
            (json!({"NS": ["1"]}), A::Ns(vec![text("1")])),
            (json!({"BS": ["AQI="]}), A::Bs(vec![Blob::new([1, 2])])),
            (json!({"L": [{"S": "a"}]}), A::L(vec![A::S(text("a"))])),
            (
                json!({"M": {"k": {"N": "1"}}}),
                A::M([(text("k"), A::N(text("1")))].into()),
            ),
        ] {
            assert_eq!(value(&json), Ok(expected));
        }
        let wrong = value(&json!({"N": 1})).unwrap_err();
        assert_eq!(wrong, "the value of N is of another type");
        assert!(
            value(&json!({"B": "?"}))
                .unwrap_err()
                .contains("not base64")
        );
    }
}
