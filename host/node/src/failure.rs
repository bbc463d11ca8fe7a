//! Errors of JavaScript as errors that a policy classifies.

use backstop::Error;
use backstop_core::clock;
use backstop_javascript::error::read_error;
use backstop_javascript::wire::Reader;

use crate::number;

/// What JavaScript has found at an error, and the end of its stack.
pub(crate) fn read(found: &[u8], stack: Option<String>) -> Error {
    let error = read_error(&mut Reader::new(found.to_vec()), number(clock::now().0));
    let Some(stack) = stack else { return error };
    let mut details = error.details.clone();
    details.push(("stack".to_owned(), stack));
    error.details(details)
}
