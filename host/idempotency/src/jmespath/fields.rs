//! The fields of an object that is being made.

use std::collections::HashMap;

use crate::json::Json;

/// Fields in their order. One that is set again keeps its place, as in Python and JavaScript.
#[derive(Debug, Default)]
pub(super) struct Fields {
    fields: Vec<(String, Json)>,
    places: HashMap<String, usize>,
}

impl Fields {
    pub(super) fn put(&mut self, name: String, value: Json) {
        let place = *self.places.entry(name.clone()).or_insert(self.fields.len());
        match self.fields.get_mut(place) {
            Some(field) => field.1 = value,
            None => self.fields.push((name, value)),
        }
    }

    pub(super) fn put_all(&mut self, fields: Vec<(String, Json)>) {
        for (name, value) in fields {
            self.put(name, value);
        }
    }

    pub(super) fn into_object(self) -> Json {
        Json::Object(self.fields)
    }
}
