//! The functions that Powertools adds, which read text in text.

use std::io::Read;

use backstop_core::idempotency::RecordFormat;
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;

/// The most bytes that compressed text may have. A sender must not fill the memory.
const UNCOMPRESSED_BYTES: u64 = 8 * 1024 * 1024;

/// Base64 whose last digit may have bits that say nothing, as both languages read it.
const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
const PADDED: GeneralPurpose = GeneralPurpose::new(&ALPHABET, LENIENT);
const UNPADDED: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    LENIENT.with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The bytes of a text in base64.
fn bytes(format: RecordFormat, text: &str) -> Result<Vec<u8>, String> {
    let bytes = match format {
        RecordFormat::Python => UNPADDED.decode(digits(text)?),
        RecordFormat::TypeScript => PADDED.decode(text),
    };
    bytes.map_err(|error| error.to_string())
}

/// The digits that Python reads: it skips other characters, such as line breaks, and ends where the padding is complete.
fn digits(text: &str) -> Result<String, String> {
    if !text.is_ascii() {
        return Err("base64 has characters of ASCII only".to_owned());
    }
    let mut digits = String::with_capacity(text.len());
    let mut padding = 0;
    for character in text.chars() {
        let over = digits.len() % 4;
        if character == '=' && over >= 2 {
            padding += 1;
            if over + padding >= 4 {
                return Ok(digits);
            }
        } else if character.is_ascii_alphanumeric() || matches!(character, '+' | '/') {
            digits.push(character);
            padding = 0;
        }
    }
    if digits.len().is_multiple_of(4) {
        Ok(digits)
    } else {
        Err("incorrect padding".to_owned())
    }
}

pub(super) fn decode(format: RecordFormat, text: &str) -> Result<String, String> {
    let bytes = bytes(format, text)?;
    match format {
        RecordFormat::Python => String::from_utf8(bytes).map_err(|error| error.to_string()),
        // `TextDecoder` skips a byte order mark.
        RecordFormat::TypeScript => {
            let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
            Ok(String::from_utf8_lossy(text).into_owned())
        }
    }
}

pub(super) fn uncompress(format: RecordFormat, text: &str) -> Result<String, String> {
    let bytes = bytes(format, text)?;
    let mut uncompressed = Vec::new();
    let mut reader = MultiGzDecoder::new(bytes.as_slice()).take(UNCOMPRESSED_BYTES + 1);
    let read = reader.read_to_end(&mut uncompressed);
    read.map_err(|error| error.to_string())?;
    if uncompressed.len() as u64 > UNCOMPRESSED_BYTES {
        return Err(format!("the text has more than {UNCOMPRESSED_BYTES} bytes"));
    }
    match format {
        RecordFormat::Python => String::from_utf8(uncompressed).map_err(|error| error.to_string()),
        RecordFormat::TypeScript => Ok(String::from_utf8_lossy(&uncompressed).into_owned()),
    }
}
