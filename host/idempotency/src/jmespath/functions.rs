//! The functions of JMESPath and those of Powertools, as each library has them.

use std::cmp::Ordering;

use backstop_core::idempotency::RecordFormat;

use super::arguments::{Argument, Arguments, expected, string, type_of};
use super::interpreter::{Interpreter, is_truthy};
use super::{compare, encoded, numbers};
use crate::format::{python, typescript};
use crate::json::{Fields, Json};

type Found = Result<Json, String>;

macro_rules! functions {
    ($($name:literal => $function:ident,)*) => {
        /// A function by its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function {
            $($function,)*
        }

        impl Function {
            pub(super) fn named(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$function),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    "abs" => Abs,
    "avg" => Avg,
    "ceil" => Ceil,
    "contains" => Contains,
    "ends_with" => EndsWith,
    "floor" => Floor,
    "join" => Join,
    "keys" => Keys,
    "length" => Length,
    "map" => Map,
    "max" => Max,
    "max_by" => MaxBy,
    "merge" => Merge,
    "min" => Min,
    "min_by" => MinBy,
    "not_null" => NotNull,
    "powertools_base64" => Base64,
    "powertools_base64_gzip" => Base64Gzip,
    "powertools_json" => ParseJson,
    "reverse" => Reverse,
    "sort" => Sort,
    "sort_by" => SortBy,
    "starts_with" => StartsWith,
    "sum" => Sum,
    "to_array" => ToArray,
    "to_number" => ToNumber,
    "to_string" => ToString,
    "type" => Type,
    "values" => Values,
}

impl Function {
    pub(super) fn call(self, of: &Interpreter<'_>, arguments: Vec<Argument<'_, '_>>) -> Found {
        let mut arguments = Arguments::of(arguments);
        let format = of.format;
        let first = &mut arguments;
        let found = match self {
            Self::Abs => number(numbers::abs(format, &first.number()?)),
            Self::Avg => {
                let array = first.array()?;
                let average = numbers::average(format, &all_numbers(&array)?)?;
                average.map_or(Json::Null, number)
            }
            Self::Ceil => number(numbers::round(format, &first.number()?, f64::ceil)?),
            Self::Floor => number(numbers::round(format, &first.number()?, f64::floor)?),
            Self::Sum => number(numbers::sum(format, &all_numbers(&first.array()?)?)?),
            Self::Contains => {
                let (subject, searched) = (first.value()?, first.value()?);
                Json::Bool(contains(format, &subject, &searched)?)
            }
            Self::StartsWith => {
                let (text, start) = (first.string()?, first.string()?);
                Json::Bool(text.starts_with(&start))
            }
            Self::EndsWith => {
                let (text, end) = (first.string()?, first.string()?);
                Json::Bool(text.ends_with(&end))
            }
            Self::Join => {
                let (separator, array) = (first.string()?, first.array()?);
                let texts: Result<Vec<_>, _> = array.into_iter().map(string).collect();
                Json::String(texts?.join(&separator))
            }
            Self::Keys => {
                let fields = first.object()?;
                let names = of.in_order(&fields).map(|it| Json::String(it.0.clone()));
                Json::Array(names.collect())
            }
            Self::Values => {
                let fields = first.object()?;
                Json::Array(of.in_order(&fields).map(|it| it.1.clone()).collect())
            }
            Self::Length => length(format, &first.value()?)?,
            Self::Map => {
                let (expression, array) = (first.expression()?, first.array()?);
                let found = array.iter().map(|it| {
                    let found = of.owned(expression, it)?;
                    Ok::<_, String>(or_null(format, found))
                });
                Json::Array(found.collect::<Result<_, _>>()?)
            }
            Self::Max => first_of(format, first.array()?, Ordering::Greater)?,
            Self::Min => first_of(format, first.array()?, Ordering::Less)?,
            Self::MaxBy => first_by(format, keyed(first, of)?, Ordering::Greater)?,
            Self::MinBy => first_by(format, keyed(first, of)?, Ordering::Less)?,
            Self::Merge => {
                let mut merged = Fields::default();
                let mut next = first.object()?;
                loop {
                    for (name, value) in next {
                        merged.put(name, value);
                    }
                    if first.is_empty() {
                        break merged.into_object();
                    }
                    next = match (format, first.value()?) {
                        (_, Json::Object(fields)) => fields,
                        // Powertools for TypeScript checks the first argument only, and JavaScript merges nothing of these.
                        (
                            RecordFormat::TypeScript,
                            Json::Null | Json::Bool(_) | Json::Number(_),
                        ) => Vec::new(),
                        (_, other) => return Err(expected("an object", type_of(&other))),
                    };
                }
            }
            Self::NotNull => {
                let mut found = first.value()?;
                while !first.is_empty() {
                    let next = first.value()?;
                    if found == Json::Null {
                        found = next;
                    }
                }
                or_null(format, found)
            }
            Self::Base64 => Json::String(encoded::decode(format, &first.string()?)?),
            Self::Base64Gzip => Json::String(encoded::uncompress(format, &first.string()?)?),
            Self::ParseJson => Json::parse(&first.string()?).map_err(|error| error.to_string())?,
            Self::Reverse => {
                of.in_place(first.array_of_event())?;
                reversed(format, first.value()?)?
            }
            Self::Sort => {
                of.in_place(first.array_of_event())?;
                sorted(format, first.array()?)?
            }
            Self::SortBy => sorted_by(keyed(first, of)?, |a, b| compare::by_value(format, a, b))?,
            Self::ToArray => {
                let value = first.value()?;
                if matches!(value, Json::Array(_)) {
                    value
                } else {
                    Json::Array(vec![value])
                }
            }
            Self::ToNumber => match first.value()? {
                Json::Number(written) => Json::Number(written),
                Json::String(text) => numbers::of_text(format, &text)?.map_or(Json::Null, number),
                Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => Json::Null,
            },
            Self::ToString => match (format, first.value()?) {
                (_, Json::String(text)) => Json::String(text),
                (RecordFormat::Python, other) => Json::String(python::compact(&other)),
                (RecordFormat::TypeScript, other) => Json::String(typescript::plain(&other)),
            },
            Self::Type => Json::String(type_of(&first.value()?).to_owned()),
        };
        if arguments.is_empty() {
            Ok(found)
        } else {
            Err("too many arguments".to_owned())
        }
    }
}

/// The elements of an array, each with what an expression finds in it: numbers only, or strings only.
fn keyed(
    arguments: &mut Arguments<'_, '_>,
    of: &Interpreter<'_>,
) -> Result<Vec<(Json, Json)>, String> {
    let (array, expression) = (arguments.array()?, arguments.expression()?);
    let keyed = array.into_iter().map(|element| {
        let key = of.owned(expression, &element)?;
        match type_of(&key) {
            "number" | "string" => Ok((key, element)),
            other => Err(expected("a number or a string", other)),
        }
    });
    keyed.collect()
}

fn number(written: String) -> Json {
    Json::Number(written)
}

fn all_numbers(values: &[Json]) -> Result<Vec<&str>, String> {
    let numbers = values.iter().map(|it| {
        let Json::Number(written) = it else {
            return Err(expected("numbers", type_of(it)));
        };
        Ok(written.as_str())
    });
    numbers.collect()
}

/// Powertools for TypeScript writes `found || null`, which has 0, `false` and empty text as `null`.
fn or_null(format: RecordFormat, found: Json) -> Json {
    let is_false = match &found {
        Json::Number(written) => written
            .parse::<f64>()
            .is_ok_and(|it| it == 0.0 || it.is_nan()),
        Json::Bool(_) | Json::String(_) => !is_truthy(&found),
        Json::Null | Json::Array(_) | Json::Object(_) => false,
    };
    if format == RecordFormat::TypeScript && is_false {
        return Json::Null;
    }
    found
}

fn contains(format: RecordFormat, subject: &Json, searched: &Json) -> Result<bool, String> {
    match (subject, searched) {
        (Json::String(text), Json::String(part)) => Ok(text.contains(part)),
        (Json::String(_), other) => Err(expected("a string", type_of(other))),
        (Json::Array(_), Json::Array(_) | Json::Object(_))
            if format == RecordFormat::TypeScript =>
        {
            Err("Powertools for TypeScript finds no arrays and objects that are equal".to_owned())
        }
        (Json::Array(values), _) => {
            let mut values = values.iter();
            Ok(values.any(|it| compare::are_the_same(format, it, searched)))
        }
        (other, _) => Err(expected("an array or a string", type_of(other))),
    }
}

fn length(format: RecordFormat, value: &Json) -> Found {
    let length = match (format, value) {
        (RecordFormat::Python, Json::String(text)) => text.chars().count(),
        (RecordFormat::TypeScript, Json::String(text)) => text.encode_utf16().count(),
        (_, Json::Array(values)) => values.len(),
        (_, Json::Object(fields)) => fields.len(),
        (_, other) => return Err(expected("a string, an array or an object", type_of(other))),
    };
    Ok(Json::Number(length.to_string()))
}

fn reversed(format: RecordFormat, value: Json) -> Found {
    if let Json::Array(mut values) = value {
        values.reverse();
        return Ok(Json::Array(values));
    }
    let Json::String(text) = value else {
        return Err(expected("an array or a string", type_of(&value)));
    };
    if format == RecordFormat::TypeScript && text.chars().any(|it| it > '\u{ffff}') {
        return Err("Powertools for TypeScript splits characters beyond U+FFFF".to_owned());
    }
    Ok(Json::String(text.chars().rev().collect()))
}

/// The first of the greatest or of the least. `null` without elements.
fn first_of(format: RecordFormat, array: Vec<Json>, wanted: Ordering) -> Found {
    let keyed = array.into_iter().map(|it| (it.clone(), it)).collect();
    first_by(format, keyed, wanted)
}

fn first_by(format: RecordFormat, keyed: Vec<(Json, Json)>, wanted: Ordering) -> Found {
    let mut found: Option<(Json, Json)> = None;
    for (key, element) in keyed {
        // The only element has to be of a kind that has an order, too.
        let so_far = found.as_ref().map_or(&key, |it| &it.0);
        let order = compare::by_value(format, &key, so_far)?;
        if found.is_none() || order == wanted {
            found = Some((key, element));
        }
    }
    Ok(found.map_or(Json::Null, |it| it.1))
}

fn sorted(format: RecordFormat, array: Vec<Json>) -> Found {
    let keyed = array.into_iter().map(|it| (it.clone(), it)).collect();
    sorted_by(keyed, |a, b| compare::by_locale(format, a, b))
}

/// Sorts by the keys. They are checked first, since what has no order cannot be sorted.
fn sorted_by(
    mut keyed: Vec<(Json, Json)>,
    compare: impl Fn(&Json, &Json) -> Result<Ordering, String>,
) -> Found {
    if let Some((first, _)) = keyed.first() {
        for (key, _) in &keyed {
            compare(key, first)?;
        }
    }
    keyed.sort_by(|(a, _), (b, _)| compare(a, b).unwrap_or(Ordering::Equal));
    Ok(Json::Array(keyed.into_iter().map(|it| it.1).collect()))
}
