//! Lambda functions, as the retry handler and the dead letters see them: their names, their invocation, the records that Lambda writes of failed invocations, and the events that are retried.

mod api;
mod event;
pub mod invocation;
mod name;
mod record;

pub use api::{Functions, LambdaApi};
pub use event::{Event, redriven_event};
pub use name::{FunctionName, is_function, unqualified};
pub use record::{InvocationRecord, NoRecord};
