//! What JavaScript finds at an error, as its packages pass it on.

use backstop_core::failure::Error;
use backstop_javascript::error::read_error;
use backstop_javascript::wire::Reader;

/// What is added to a text at most: a status as a code, or a code before a message.
const MOST_MORE: usize = 16;

/// The bytes of a failure make an error, the same each time, and no longer than they are. One that the program calls permanent is permanent.
pub(crate) fn error(input: &[u8]) {
    let read = || read_error(&mut Reader::new(input.to_vec()), 1e12);
    let found = read();
    assert_eq!(found, read());
    assert_bounded(&found, input.len() + MOST_MORE);
    if Reader::new(input.to_vec()).whole() == 1 {
        assert_eq!(found.status, Error::permanent("No", "").status, "{found:?}");
    }
}

fn assert_bounded(error: &Error, most: usize) {
    assert!(error.code.len() <= most && error.message.len() <= most);
    let details = error.details.iter();
    let length: usize = details.map(|(name, text)| name.len() + text.len()).sum();
    assert!(length <= most, "{error:?}");
}
