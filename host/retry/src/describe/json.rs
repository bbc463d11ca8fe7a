//! Values that are no JSON, or not the expected one.

use backstop_core::failure::Error;
use backstop_core::text::chain;
use serde_json::error::Category;

use super::{Describe, io};

described! {
    /// The code is `Decode`, which is permanent; for an error of the reader, that of the I/O error. Text that ends too early is that of a connection that was cut: `UnexpectedEof`.
    serde_json::Error => |error| match (error.classify(), error.io_error_kind()) {
        (_, Some(kind)) => io::describe_kind(kind, chain(error)),
        (Category::Eof | Category::Io, None) => Error::new("UnexpectedEof", chain(error)),
        (Category::Syntax | Category::Data, None) => Error::permanent("Decode", chain(error)),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_json_is_permanent_and_text_that_was_cut_is_not() {
        for (text, code, status) in [
            ("{]", "Decode", Some(422)),
            ("\"seven\"", "Decode", Some(422)),
            ("[1, 2", "UnexpectedEof", None),
        ] {
            let error = serde_json::from_str::<Vec<u32>>(text).unwrap_err();
            let described = error.describe();
            assert_eq!(
                (described.code.as_str(), described.status),
                (code, status),
                "{text}"
            );
        }
    }

    #[test]
    fn an_error_of_the_reader_has_the_code_of_the_reader() {
        struct Reset;
        impl std::io::Read for Reset {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::ConnectionReset.into())
            }
        }
        let error = serde_json::from_reader::<_, u32>(Reset).unwrap_err();
        assert_eq!(error.describe().code, "ECONNRESET");
    }
}
