//! A message of a queue, as a handler receives it.

use backstop::queue::Attribute;
use backstop_embed::jobs::Job;
use napi::bindgen_prelude::{Either, Uint8Array};
use napi_derive::napi;

use crate::number;

/// One receive of a message, and the number of its job.
#[napi(object, object_from_js = false)]
pub struct Taken {
    pub number: f64,
    pub id: String,
    pub body: String,
    /// The sender's attributes: text, or bytes of binary ones.
    pub attributes: Vec<Named>,
    pub receive_count: u32,
    /// Milliseconds since 1970.
    pub sent: f64,
    pub group_id: Option<String>,
    pub deduplication_id: Option<String>,
    pub sender_id: Option<String>,
    pub trace_header: Option<String>,
}

/// An attribute of the sender.
#[napi(object, object_from_js = false)]
pub struct Named {
    pub name: String,
    pub value: Either<String, Uint8Array>,
}

impl From<&Job> for Taken {
    fn from(job: &Job) -> Self {
        let message = &*job.message;
        let attributes = message.attributes.iter().map(|(name, it)| Named {
            name: name.clone(),
            value: match it {
                Attribute::Text { value, .. } => Either::A(value.clone()),
                Attribute::Binary { value, .. } => Either::B(value.clone().into()),
            },
        });
        Self {
            number: number(job.number),
            id: message.id.clone(),
            body: message.body.to_string(),
            attributes: attributes.collect(),
            receive_count: message.receive_count.get(),
            sent: number(message.sent.0),
            group_id: message.group.clone(),
            deduplication_id: message.deduplication_id.clone(),
            sender_id: message.sender.clone(),
            trace_header: message.trace_header.clone(),
        }
    }
}
