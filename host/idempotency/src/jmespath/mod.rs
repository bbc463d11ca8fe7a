//! Keys by JMESPath (feature `jmespath`), as the interpreters of Powertools find them: that of Python, or that of TypeScript.
//!
//! The crate `jmespath` parses. Its own interpreter has one kind of number, sorts the fields of every object, and so finds other keys.

mod arguments;
mod compare;
mod depth;
mod encoded;
mod functions;
mod interpreter;
mod numbers;
mod uses;

use std::collections::HashMap;

use backstop_core::idempotency::RecordFormat;
use jmespath::ast::Ast;

use crate::json::Json;
use functions::Function;
use interpreter::Interpreter;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    ast: Ast,
    /// The literals by their place in the text, with their digits and in their order.
    literals: HashMap<usize, Literal>,
    /// How often it uses parts of the event.
    uses: usize,
}

impl Expression {
    /// Why the text is no expression, otherwise.
    pub(crate) fn compile(text: &str) -> Result<Self, String> {
        if depth::depth(text) > depth::DEEPEST {
            return Err(format!("more than {} levels deep", depth::DEEPEST));
        }
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
fn check(ast: &Ast, text: &str, literals: &mut HashMap<usize, Literal>) -> Result<(), String> {
    match ast {
        Ast::Identity { .. } | Ast::Field { .. } | Ast::Index { .. } | Ast::Slice { .. } => Ok(()),
        Ast::Literal { offset, .. } => {
            let start = text.get(*offset..).unwrap_or_default();
            literals.insert(*offset, Literal::at_start_of(start)?);
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

/// A literal: what it is in Python, and in TypeScript.
#[derive(Debug)]
struct Literal {
    python: Json,
    typescript: Result<Json, String>,
}

impl Literal {
    /// The one at the start of this text: JSON in backticks, or a raw string.
    fn at_start_of(text: &str) -> Result<Self, String> {
        let mut characters = text.chars();
        let quote = characters.next().unwrap_or_default();
        let mut is_escaped = false;
        let inside: String = characters
            .take_while(|&character| {
                let ends = character == quote && !is_escaped;
                is_escaped = character == '\\' && !is_escaped;
                !ends
            })
            .collect();
        let (escaped, quoted) = (format!("\\{quote}"), quote.to_string());
        let read = |text: String| match quote {
            '\'' => Ok(Json::String(text)),
            _ => Json::parse(&text).map_err(|error| error.to_string()),
        };
        Ok(Self {
            python: read(inside.replace(&escaped, &quoted))?,
            // It replaces the first one alone.
            typescript: read(inside.replacen(&escaped, &quoted, 1)),
        })
    }

    fn of(&self, format: RecordFormat) -> Result<&Json, &String> {
        match format {
            RecordFormat::Python => Ok(&self.python),
            RecordFormat::TypeScript => self.typescript.as_ref(),
        }
    }
}

#[cfg(test)]
#[path = "jmespath_tests.rs"]
mod tests;
