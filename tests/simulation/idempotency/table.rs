//! A model of a table of DynamoDB: its conditional requests in their JSON, and its time to live.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::expression::{Item, Scope, holds, update};

/// The most bytes of an item.
const ITEM_BYTES: usize = 400 * 1024;

/// A refusal, as DynamoDB answers it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    /// The item for which the condition did not hold, if the request asks for it.
    pub(crate) item: Option<Value>,
}

impl Refusal {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            item: None,
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> Value {
        let mut body = json!({
            "__type": format!("com.amazonaws.dynamodb.v20120810#{}", self.code),
            "message": self.message,
        });
        if let Some(item) = &self.item {
            body["Item"] = item.clone();
        }
        body
    }
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "ValidationException", message)
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The names of the partition key and the sort key.
    keys: Vec<String>,
    items: BTreeMap<String, Item>,
}

impl Table {
    pub(crate) fn new(keys: &[&str]) -> Self {
        Self {
            keys: keys.iter().map(|&it| it.to_owned()).collect(),
            items: BTreeMap::new(),
        }
    }

    /// The text by which the table finds an item: its keys, in their order.
    fn place(&self, keys: &Value) -> Result<String, Refusal> {
        let texts = self.keys.iter().map(|name| {
            let text = keys[name.as_str()]["S"].as_str();
            text.ok_or_else(|| invalid("The provided key element does not match the schema"))
        });
        Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
    }

    /// An item by its last key.
    pub(crate) fn get(&self, key: &str) -> Option<&Item> {
        let is_its = |place: &&String| place.rsplit('\n').next() == Some(key);
        let place = self.items.keys().find(is_its)?;
        self.items.get(place)
    }

    /// Deletes the items that have expired, as far as `strikes` says so. Returns their last keys.
    pub(crate) fn expire(&mut self, now: u64, mut strikes: impl FnMut() -> bool) -> Vec<String> {
        let mut gone = Vec::new();
        self.items.retain(|place, item| {
            let expires = item["expiration"]["N"].as_str().unwrap();
            let stays = expires.parse::<u64>().unwrap() >= now || !strikes();
            if !stays {
                gone.push(place.rsplit('\n').next().unwrap().to_owned());
            }
            stays
        });
        gone
    }

    /// Carries out a request.
    pub(crate) fn request(&mut self, operation: &str, body: &Value) -> Result<Value, Refusal> {
        let scope = Scope {
            names: &body["ExpressionAttributeNames"],
            values: &body["ExpressionAttributeValues"],
        };
        let is_put = operation == "PutItem";
        let place = self.place(if is_put { &body["Item"] } else { &body["Key"] })?;
        let before = self.items.get(&place);
        if let Some(condition) = body["ConditionExpression"].as_str() {
            let nothing = Item::new();
            let holds = holds(condition, &scope, before.unwrap_or(&nothing));
            if !holds.map_err(invalid)? {
                let asks = body["ReturnValuesOnConditionCheckFailure"] == "ALL_OLD";
                return Err(Refusal {
                    item: before.filter(|_| asks).map(|it| json!(it)),
                    ..Refusal::new(
                        400,
                        "ConditionalCheckFailedException",
                        "The conditional request failed",
                    )
                });
            }
        }
        let before = before.cloned();
        let item = match operation {
            "PutItem" => body["Item"].as_object().cloned(),
            "UpdateItem" => {
                let keys = body["Key"].as_object().cloned().unwrap_or_default();
                let mut item = before.clone().unwrap_or(keys);
                let text = body["UpdateExpression"].as_str().unwrap_or_default();
                update(text, &scope, &mut item).map_err(invalid)?;
                Some(item)
            }
            "DeleteItem" => None,
            other => return Err(invalid(format!("unknown operation {other}"))),
        };
        match item {
            Some(item) => {
                check(&item, is_put)?;
                self.items.insert(place, item);
            }
            None => {
                self.items.remove(&place);
            }
        }
        let asks = body["ReturnValues"] == "ALL_OLD";
        Ok(match before.filter(|_| asks) {
            Some(before) => json!({"Attributes": before}),
            None => json!({}),
        })
    }
}

fn check(item: &Item, is_put: bool) -> Result<(), Refusal> {
    let size: usize = item
        .iter()
        .map(|(name, value)| name.len() + size(value))
        .sum();
    if size > ITEM_BYTES {
        return Err(invalid(if is_put {
            "Item size has exceeded the maximum allowed size"
        } else {
            "Item size to update has exceeded the maximum allowed size"
        }));
    }
    Ok(())
}

fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}
