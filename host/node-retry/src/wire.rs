//! How values cross between JavaScript and this module: numbers as doubles, texts as their length and their bytes in UTF-8, one after another. A number that is absent is NaN.

use std::cell::RefCell;
use std::time::Duration;

pub(crate) use backstop_javascript::wire::Reader;
#[cfg(feature = "retrier")]
pub(crate) use backstop_javascript::wire::saturated;

thread_local! {
    /// What JavaScript passes to the next function.
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// What the last function has answered.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for so many bytes, which JavaScript writes to the returned address.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn input(length: usize) -> *const u8 {
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(length, 0);
        input.as_ptr()
    })
}

/// Where the last function has left its answer.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// The bytes that JavaScript has passed.
pub(crate) fn given() -> Vec<u8> {
    INPUT.with_borrow_mut(std::mem::take)
}

/// The text that JavaScript has passed.
pub(crate) fn given_text() -> String {
    String::from_utf8(given()).unwrap_or_default()
}

/// Leaves an answer, and returns its length.
pub(crate) fn answer(bytes: Vec<u8>) -> i32 {
    let length = i32::try_from(bytes.len()).unwrap_or(i32::MAX);
    OUTPUT.with_borrow_mut(|output| *output = bytes);
    length
}

/// Reads what JavaScript has passed.
pub(crate) fn reader() -> Reader {
    Reader::new(given())
}

/// Writes values in their order.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn number(&mut self, number: impl Into<f64>) -> &mut Self {
        self.double(number.into())
    }

    // Once, and not at each place: the module is downloaded.
    #[inline(never)]
    fn double(&mut self, number: f64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    pub(crate) fn optional(&mut self, number: Option<impl Into<f64>>) -> &mut Self {
        let number = number.map_or(f64::NAN, Into::into);
        self.number(number)
    }

    #[inline(never)]
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.number(length);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    #[inline(never)]
    pub(crate) fn pairs(&mut self, pairs: &[(String, String)]) -> &mut Self {
        self.number(u32::try_from(pairs.len()).unwrap_or(u32::MAX));
        for (name, value) in pairs {
            self.text(name).text(value);
        }
        self
    }
}

/// A duration for JavaScript, in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
