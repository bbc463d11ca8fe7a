//! Evaluates the tree of an expression.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use backstop_core::idempotency::RecordFormat;
use jmespath::ast::{Ast, Comparator};

use super::arguments::Argument;
use super::functions::Function;
use super::{Literal, compare};
use crate::format::typescript;
use crate::json::{Fields, Json};

type Found<'v> = Result<Cow<'v, Json>, String>;

/// Evaluates as the library of this format does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interpreter<'e> {
    pub(super) format: RecordFormat,
    pub(super) literals: &'e HashMap<usize, Literal>,
    /// How often the expression uses parts of the event: see [`uses`](super::uses::uses).
    pub(super) uses: usize,
}

const NULL: Cow<'static, Json> = Cow::Owned(Json::Null);

impl<'e> Interpreter<'e> {
    /// Refuses what another part of the expression would see: Powertools for TypeScript sorts and reverses the arrays of the event itself.
    pub(super) fn in_place(&self, is_of_event: bool) -> Result<(), String> {
        if is_of_event && self.format == RecordFormat::TypeScript && self.uses > 1 {
            return Err("Powertools for TypeScript changes the array in the event, so that the other parts of the expression find another order".to_owned());
        }
        Ok(())
    }

    pub(super) fn evaluate<'v>(&self, ast: &Ast, value: &'v Json) -> Found<'v> {
        match ast {
            Ast::Identity { .. } => Ok(Cow::Borrowed(value)),
            Ast::Field { name, .. } => Ok(field(value, name)),
            Ast::Index { idx, .. } => Ok(index(value, *idx)),
            Ast::Slice {
                start, stop, step, ..
            } => slice(value, *start, *stop, *step),
            Ast::Literal { offset, .. } => {
                let literal = self.literals.get(offset);
                match literal.map(|it| it.of(self.format)) {
                    Some(Ok(value)) => Ok(Cow::Owned(value.clone())),
                    Some(Err(why)) => Err(format!(
                        "a literal with a second \\` in it is none in TypeScript: {why}"
                    )),
                    None => Ok(NULL),
                }
            }
            Ast::Subexpr { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, value)?;
                self.within(rhs, left)
            }
            Ast::Or { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, value)?;
                if is_truthy(&left) {
                    return Ok(left);
                }
                self.evaluate(rhs, value)
            }
            Ast::And { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, value)?;
                if !is_truthy(&left) {
                    return Ok(left);
                }
                self.evaluate(rhs, value)
            }
            Ast::Not { node, .. } => {
                let found = self.evaluate(node, value)?;
                let is_true = is_truthy(&found);
                Ok(Cow::Owned(Json::Bool(!is_true)))
            }
            Ast::Condition {
                predicate, then, ..
            } => {
                let found = self.evaluate(predicate, value)?;
                if is_truthy(&found) {
                    return self.evaluate(then, value);
                }
                Ok(NULL)
            }
            Ast::Comparison {
                comparator,
                lhs,
                rhs,
                ..
            } => {
                let (left, right) = (self.evaluate(lhs, value)?, self.evaluate(rhs, value)?);
                self.compare(comparator, &left, &right).map(Cow::Owned)
            }
            Ast::ObjectValues { node, .. } => {
                let found = self.evaluate(node, value)?;
                let Json::Object(fields) = &*found else {
                    return Ok(NULL);
                };
                let values = self.in_order(fields).map(|it| it.1.clone());
                Ok(Cow::Owned(Json::Array(values.collect())))
            }
            Ast::Projection { lhs, rhs, .. } => {
                let left = self.evaluate(lhs, value)?;
                let Json::Array(elements) = &*left else {
                    return Ok(NULL);
                };
                let mut collected = Vec::new();
                for element in elements {
                    let found = self.evaluate(rhs, element)?;
                    if *found != Json::Null {
                        collected.push(found.into_owned());
                    }
                }
                Ok(Cow::Owned(Json::Array(collected)))
            }
            Ast::Flatten { node, .. } => {
                let found = self.evaluate(node, value)?;
                let Json::Array(elements) = &*found else {
                    return Ok(NULL);
                };
                Ok(Cow::Owned(flattened(elements)))
            }
            Ast::MultiList { elements, .. } => {
                if *value == Json::Null {
                    return Ok(NULL);
                }
                let found = elements.iter().map(|it| self.owned(it, value));
                Ok(Cow::Owned(Json::Array(found.collect::<Result<_, _>>()?)))
            }
            Ast::MultiHash { elements, .. } => {
                if *value == Json::Null {
                    return Ok(NULL);
                }
                let mut fields = Fields::default();
                for element in elements {
                    fields.put(element.key.clone(), self.owned(&element.value, value)?);
                }
                Ok(Cow::Owned(fields.into_object()))
            }
            Ast::Function { name, args, .. } => {
                let function = Function::named(name);
                let function = function.ok_or_else(|| format!("there is no function `{name}`"))?;
                let mut arguments = Vec::with_capacity(args.len());
                for arg in args {
                    arguments.push(if let Ast::Expref { ast, .. } = arg {
                        Argument::Expression(ast)
                    } else {
                        Argument::Value(self.evaluate(arg, value)?)
                    });
                }
                let found = function.call(self, arguments);
                found
                    .map(Cow::Owned)
                    .map_err(|why| format!("{name}: {why}"))
            }
            Ast::Expref { .. } => Err("an expression with `&` is an argument only".to_owned()),
        }
    }

    pub(super) fn owned(&self, ast: &Ast, value: &Json) -> Result<Json, String> {
        self.evaluate(ast, value).map(Cow::into_owned)
    }

    /// Evaluates in a value that may not live as long as the event.
    fn within<'v>(&self, ast: &Ast, value: Cow<'v, Json>) -> Found<'v> {
        match value {
            Cow::Borrowed(value) => self.evaluate(ast, value),
            Cow::Owned(value) => self.owned(ast, &value).map(Cow::Owned),
        }
    }

    /// Python orders numbers and strings, TypeScript numbers only.
    fn compare(&self, comparator: &Comparator, left: &Json, right: &Json) -> Result<Json, String> {
        let ordering = || compare::ordered(self.format, left, right);
        let is = |holds: fn(Ordering) -> bool| {
            let ordering = ordering()?;
            Ok(ordering.map_or(Json::Null, |it| Json::Bool(it.is_some_and(holds))))
        };
        let are_equal = || compare::are_equal(self.format, left, right);
        match comparator {
            Comparator::Equal => Ok(Json::Bool(are_equal())),
            Comparator::NotEqual => Ok(Json::Bool(!are_equal())),
            Comparator::LessThan => is(Ordering::is_lt),
            Comparator::LessThanEqual => is(Ordering::is_le),
            Comparator::GreaterThan => is(Ordering::is_gt),
            Comparator::GreaterThanEqual => is(Ordering::is_ge),
        }
    }

    /// The fields of an object, in the order in which the library goes through them.
    pub(super) fn in_order<'f>(
        &self,
        fields: &'f [(String, Json)],
    ) -> impl Iterator<Item = &'f (String, Json)> {
        match self.format {
            RecordFormat::Python => fields.iter().collect::<Vec<_>>(),
            RecordFormat::TypeScript => typescript::in_order(fields),
        }
        .into_iter()
    }
}

/// What is no value: `null`, `false`, and empty strings, lists and objects.
pub(super) fn is_truthy(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(_) => true,
        Json::String(text) => !text.is_empty(),
        Json::Array(values) => !values.is_empty(),
        Json::Object(fields) => !fields.is_empty(),
    }
}

fn field<'v>(value: &'v Json, name: &str) -> Cow<'v, Json> {
    let Json::Object(fields) = value else {
        return NULL;
    };
    let field = fields.iter().find(|it| it.0 == name);
    field.map_or(NULL, |it| Cow::Borrowed(&it.1))
}

fn index(value: &Json, index: i32) -> Cow<'_, Json> {
    let Json::Array(values) = value else {
        return NULL;
    };
    let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let place = if index < 0 {
        values.len().checked_sub(from_end)
    } else {
        Some(from_end)
    };
    let found = place.and_then(|place| values.get(place));
    found.map_or(NULL, Cow::Borrowed)
}

/// As Python slices a list.
fn slice(value: &Json, start: Option<i32>, stop: Option<i32>, step: i32) -> Found<'_> {
    if step == 0 {
        return Err("the step of a slice is not 0".to_owned());
    }
    let Json::Array(values) = value else {
        return Ok(NULL);
    };
    let length = i64::try_from(values.len()).unwrap_or(i64::MAX);
    let is_backward = step < 0;
    let (least, most) = if is_backward {
        (-1, length - 1)
    } else {
        (0, length)
    };
    let bound = |bound: Option<i32>, default: i64| {
        bound.map_or(default, |bound| {
            let bound = i64::from(bound);
            let bound = if bound < 0 { bound + length } else { bound };
            bound.clamp(least, most)
        })
    };
    let (first, last) = if is_backward {
        (bound(start, most), bound(stop, least))
    } else {
        (bound(start, least), bound(stop, most))
    };
    let mut taken = Vec::new();
    let mut place = first;
    while if is_backward {
        place > last
    } else {
        place < last
    } {
        let at = usize::try_from(place).ok();
        taken.extend(at.and_then(|at| values.get(at)).cloned());
        place += i64::from(step);
    }
    Ok(Cow::Owned(Json::Array(taken)))
}

fn flattened(elements: &[Json]) -> Json {
    let mut flat = Vec::new();
    for element in elements {
        if let Json::Array(inner) = element {
            flat.extend(inner.iter().cloned());
        } else {
            flat.push(element.clone());
        }
    }
    Json::Array(flat)
}
