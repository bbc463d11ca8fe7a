//! Keys by JMESPath (feature `jmespath`), as the interpreters of Powertools find them: that of Python, or that of TypeScript.
//!
//! The crate `jmespath` parses. Its own interpreter has one kind of number, sorts the fields of every object, and so finds other keys.

mod arguments;
mod compare;
mod encoded;
mod functions;
mod interpreter;
mod numbers;
mod uses;

use std::collections::HashMap;

use backstop_core::idempotency::RecordFormat;
use jmespath::Variable;
use jmespath::ast::Ast;

use crate::json::Json;
use functions::Function;
use interpreter::Interpreter;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    ast: Ast,
    /// The literals by their place in the text, with their digits and in their order.
    literals: HashMap<usize, Json>,
    /// How often it uses parts of the event.
    uses: usize,
}

impl Expression {
    /// Why the text is no expression, otherwise.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        let ast = jmespath::parse(text).map_err(|error| error.reason.to_string())?;
        let mut literals = HashMap::new();
        check(&ast, text, &mut literals)?;
        let uses = uses::uses(&ast);
        Ok(Self {
            ast,
            literals,
            uses,
        })
    }

    pub(crate) fn find(&self, format: RecordFormat, event: &Json) -> Result<Json, String> {
        let interpreter = Interpreter {
            format,
            literals: &self.literals,
            uses: self.uses,
        };
        let found = interpreter.evaluate(&self.ast, event)?;
        Ok(found.into_owned())
    }
}

/// Reads the literals, and refuses unknown functions.
fn check(ast: &Ast, text: &str, literals: &mut HashMap<usize, Json>) -> Result<(), String> {
    match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Slice { .. } => Ok(()),
        Ast::Literal { offset, value } => {
            literals.insert(*offset, literal(text.get(*offset..), value)?);
            Ok(())
        }
        Ast::Function { name, args, .. } => {
            if Function::named(name).is_none() {
                return Err(format!("there is no function `{name}`"));
            }
            args.iter().try_for_each(|it| check(it, text, literals))
        }
        Ast::MultiList { elements, .. } => {
            elements.iter().try_for_each(|it| check(it, text, literals))
        }
        Ast::MultiHash { elements, .. } => elements
            .iter()
            .try_for_each(|it| check(&it.value, text, literals)),
        Ast::Expref { ast: node, .. }
        | Ast::Flatten { node, .. }
        | Ast::Not { node, .. }
        | Ast::ObjectValues { node, .. } => check(node, text, literals),
        Ast::Condition {
            predicate, then, ..
        } => {
            check(predicate, text, literals)?;
            check(then, text, literals)
        }
        Ast::Comparison { lhs, rhs, .. }
        | Ast::Projection { lhs, rhs, .. }
        | Ast::And { lhs, rhs, .. }
        | Ast::Or { lhs, rhs, .. }
        | Ast::Subexpr { lhs, rhs, .. } => {
            check(lhs, text, literals)?;
            check(rhs, text, literals)
        }
    }
}

/// A literal at the start of this text: JSON in backticks, or a raw string.
fn literal(text: Option<&str>, parsed: &Variable) -> Result<Json, String> {
    if let Some(string) = parsed.as_string() {
        return Ok(Json::String(string.clone()));
    }
    let text = text.and_then(|it| it.strip_prefix('`')).unwrap_or_default();
    let mut is_escaped = false;
    let end = text.find(|character| {
        let ends = character == '`' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends
    });
    let inside = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    Json::parse(&inside.replace("\\`", "`")).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "jmespath_tests.rs"]
mod tests;
