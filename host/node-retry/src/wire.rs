//! How values cross between JavaScript and this module: numbers as doubles, texts as their length and their bytes in UTF-8, one after another. A number that is absent is NaN.

use std::cell::RefCell;
use std::time::Duration;

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

/// Reads values in their order. What is missing is absent.
pub(crate) struct Reader {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Of what JavaScript has passed.
    pub(crate) fn given() -> Self {
        Self {
            bytes: given(),
            at: 0,
        }
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        taken
    }

    /// A number; NaN if it is absent.
    #[inline(never)]
    pub(crate) fn number(&mut self) -> f64 {
        let bytes = self.take(8).try_into();
        bytes.map_or(f64::NAN, f64::from_le_bytes)
    }

    /// A number that may be absent.
    #[inline(never)]
    pub(crate) fn optional(&mut self) -> Option<f64> {
        Some(self.number()).filter(|number| !number.is_nan())
    }

    /// A whole number; saturates, and is 0 if it is absent.
    pub(crate) fn whole(&mut self) -> u32 {
        saturated(self.number())
    }

    /// Whether a number is not zero.
    pub(crate) fn flag(&mut self) -> bool {
        self.whole() != 0
    }

    /// A duration in milliseconds that may be absent.
    #[inline(never)]
    pub(crate) fn duration(&mut self) -> Option<Duration> {
        self.optional().map(duration)
    }

    /// A text.
    #[inline(never)]
    pub(crate) fn text(&mut self) -> String {
        let length = self.whole() as usize;
        let bytes = self.take(length).to_vec();
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// Pairs of texts, after their number.
    #[inline(never)]
    pub(crate) fn pairs(&mut self) -> Vec<(String, String)> {
        let count = self.whole();
        let pairs = (0..count).map_while(|_| {
            let is_there = self.at < self.bytes.len();
            is_there.then(|| (self.text(), self.text()))
        });
        pairs.collect()
    }
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

/// A duration of JavaScript's, in milliseconds.
pub(crate) fn duration(milliseconds: f64) -> Duration {
    let seconds = milliseconds.max(0.0) / 1e3;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A duration for JavaScript, in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A whole number of JavaScript's; the nearest one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates when it is cast, and NaN becomes zero"
)]
pub(crate) fn saturated(number: f64) -> u32 {
    number as u32
}
