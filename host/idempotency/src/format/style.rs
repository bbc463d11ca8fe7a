//! JSON as text, in the style of a language.

use crate::json::Json;

/// A field of an object: its name and its value.
type Field = (String, Json);

/// How a language writes JSON.
#[derive(Clone, Copy)]
pub(super) struct Style {
    /// Between two elements or fields.
    pub(super) comma: &'static str,
    /// Between the name of a field and its value.
    pub(super) colon: &'static str,
    /// The fields of an object in the order in which they are written.
    pub(super) order: fn(&[Field]) -> Vec<&Field>,
    /// A number, from its digits.
    pub(super) number: fn(&str) -> String,
    /// A string, with its quotes.
    pub(super) string: fn(&str) -> String,
}

impl Style {
    pub(super) fn text(self, value: &Json) -> String {
        let mut text = String::new();
        self.write(value, &mut text);
        text
    }

    fn write(self, value: &Json, text: &mut String) {
        match value {
            Json::Null => text.push_str("null"),
            Json::Bool(true) => text.push_str("true"),
            Json::Bool(false) => text.push_str("false"),
            Json::Number(written) => text.push_str(&(self.number)(written)),
            Json::String(string) => text.push_str(&(self.string)(string)),
            Json::Array(values) => {
                text.push('[');
                for (place, value) in values.iter().enumerate() {
                    self.separate(place, text);
                    self.write(value, text);
                }
                text.push(']');
            }
            Json::Object(fields) => {
                text.push('{');
                for (place, (name, value)) in (self.order)(fields).into_iter().enumerate() {
                    self.separate(place, text);
                    text.push_str(&(self.string)(name));
                    text.push_str(self.colon);
                    self.write(value, text);
                }
                text.push('}');
            }
        }
    }

    fn separate(self, place: usize, text: &mut String) {
        if place > 0 {
            text.push_str(self.comma);
        }
    }
}
