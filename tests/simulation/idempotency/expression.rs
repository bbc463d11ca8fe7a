//! The expressions of DynamoDB that the store uses: conditions of comparisons, `AND`, `OR` and parentheses, and updates that set attributes.

use serde_json::{Map, Value};

/// An item or its values, in DynamoDB's JSON.
pub(crate) type Item = Map<String, Value>;

/// The names and values that an expression refers to.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) names: &'a Value,
    pub(crate) values: &'a Value,
}

impl Scope<'_> {
    fn name(&self, token: &str) -> Result<String, String> {
        if !token.starts_with('#') {
            return Ok(token.to_owned());
        }
        let name = self.names[token].as_str();
        name.map(str::to_owned)
            .ok_or_else(|| format!("undefined name {token}"))
    }

    fn value(&self, token: &str) -> Result<&Value, String> {
        let value = self.values.get(token);
        value.ok_or_else(|| format!("undefined value {token}"))
    }
}

/// Whether a condition holds of an item, which may be empty.
pub(crate) fn holds(text: &str, scope: &Scope<'_>, item: &Item) -> Result<bool, String> {
    let tokens = tokens(text);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        scope,
        item,
    };
    let holds = reader.any()?;
    match reader.tokens.get(reader.at) {
        None => Ok(holds),
        Some(token) => Err(format!("unexpected {token}")),
    }
}

/// Applies `SET name = :value, …`.
pub(crate) fn update(text: &str, scope: &Scope<'_>, item: &mut Item) -> Result<(), String> {
    let assignments = text.strip_prefix("SET ").ok_or("expected SET")?;
    for assignment in assignments.split(',') {
        let (name, value) = assignment.split_once('=').ok_or("expected =")?;
        let value = scope.value(value.trim())?.clone();
        item.insert(scope.name(name.trim())?, value);
    }
    Ok(())
}

fn tokens(text: &str) -> Vec<String> {
    let spaced = text
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace(',', " , ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    scope: &'a Scope<'a>,
    item: &'a Item,
}

impl Reader<'_> {
    fn next(&mut self) -> Result<&str, String> {
        self.at += 1;
        let token = self.tokens.get(self.at - 1);
        token.map(String::as_str).ok_or("it ends early".to_owned())
    }

    fn takes(&mut self, token: &str) -> bool {
        let is_next = self.tokens.get(self.at).is_some_and(|it| it == token);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        let is_next = self.takes(token);
        is_next.then_some(()).ok_or(format!("expected {token}"))
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut holds = self.all()?;
        while self.takes("OR") {
            holds |= self.all()?;
        }
        Ok(holds)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut holds = self.one()?;
        while self.takes("AND") {
            holds &= self.one()?;
        }
        Ok(holds)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let holds = self.any()?;
            self.expect(")")?;
            return Ok(holds);
        }
        for (function, is_wanted) in [("attribute_exists", true), ("attribute_not_exists", false)] {
            if self.takes(function) {
                self.expect("(")?;
                let token = self.next()?.to_owned();
                let name = self.scope.name(&token)?;
                self.expect(")")?;
                return Ok(self.item.contains_key(&name) == is_wanted);
            }
        }
        let name = self.next()?.to_owned();
        let operator = self.next()?.to_owned();
        let token = self.next()?.to_owned();
        let name = self.scope.name(&name)?;
        let value = self.scope.value(&token)?;
        let there = self.item.get(&name);
        match operator.as_str() {
            "=" => Ok(there == Some(value)),
            "<>" => Ok(there != Some(value)),
            "<" => Ok(there.is_some_and(|it| number(it) < number(value))),
            "<=" => Ok(there.is_some_and(|it| number(it) <= number(value))),
            other => Err(format!("unknown operator {other}")),
        }
    }
}

/// The number that a value is. The store compares no other order.
fn number(value: &Value) -> i128 {
    let text = value["N"].as_str();
    let parsed = text.and_then(|it| it.parse().ok());
    parsed.unwrap_or_else(|| panic!("{value} is no integer"))
}
