//! The arguments of a function, each of the type that it wants.

use std::borrow::Cow;

use jmespath::ast::Ast;

use crate::json::Json;

/// An argument of a function.
pub(super) enum Argument<'a, 'v> {
    Value(Cow<'v, Json>),
    /// `&` and an expression.
    Expression(&'a Ast),
}

/// The arguments that are left.
pub(super) struct Arguments<'a, 'v>(std::vec::IntoIter<Argument<'a, 'v>>);

impl<'a, 'v> Arguments<'a, 'v> {
    pub(super) fn of(arguments: Vec<Argument<'a, 'v>>) -> Self {
        Self(arguments.into_iter())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Whether the next argument is an array of the event, and not one that the expression has made.
    pub(super) fn array_of_event(&self) -> bool {
        let next = self.0.as_slice().first();
        matches!(next, Some(Argument::Value(Cow::Borrowed(Json::Array(_)))))
    }

    pub(super) fn value(&mut self) -> Result<Json, String> {
        match self.0.next() {
            Some(Argument::Value(value)) => Ok(value.into_owned()),
            Some(Argument::Expression(_)) => Err(expected("a value", "an expression")),
            None => Err("too few arguments".to_owned()),
        }
    }

    pub(super) fn expression(&mut self) -> Result<&'a Ast, String> {
        match self.0.next() {
            Some(Argument::Expression(ast)) => Ok(ast),
            Some(Argument::Value(value)) => Err(expected("an expression", type_of(&value))),
            None => Err("too few arguments".to_owned()),
        }
    }

    pub(super) fn number(&mut self) -> Result<String, String> {
        let value = self.value()?;
        let kind = type_of(&value);
        if let Json::Number(written) = value {
            Ok(written)
        } else {
            Err(expected("a number", kind))
        }
    }

    pub(super) fn string(&mut self) -> Result<String, String> {
        string(self.value()?)
    }

    pub(super) fn array(&mut self) -> Result<Vec<Json>, String> {
        let value = self.value()?;
        let kind = type_of(&value);
        if let Json::Array(values) = value {
            Ok(values)
        } else {
            Err(expected("an array", kind))
        }
    }

    pub(super) fn object(&mut self) -> Result<Vec<(String, Json)>, String> {
        let value = self.value()?;
        let kind = type_of(&value);
        if let Json::Object(fields) = value {
            Ok(fields)
        } else {
            Err(expected("an object", kind))
        }
    }
}

pub(super) fn expected(expected: &str, found: &str) -> String {
    format!("expected {expected}, not {found}")
}

pub(super) fn string(value: Json) -> Result<String, String> {
    let Json::String(text) = value else {
        return Err(expected("a string", type_of(&value)));
    };
    Ok(text)
}

pub(super) fn type_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
