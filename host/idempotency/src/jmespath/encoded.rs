//! The functions that Powertools adds, which read text in text.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::MultiGzDecoder;

/// The most bytes that compressed text may have. A sender must not fill the memory.
const UNCOMPRESSED_BYTES: u64 = 8 * 1024 * 1024;

pub(super) fn decode(text: &str) -> Result<String, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

pub(super) fn uncompress(text: &str) -> Result<String, String> {
    let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
    let mut uncompressed = String::new();
    let mut reader = MultiGzDecoder::new(bytes.as_slice()).take(UNCOMPRESSED_BYTES + 1);
    let read = reader.read_to_string(&mut uncompressed);
    read.map_err(|error| error.to_string())?;
    if uncompressed.len() as u64 > UNCOMPRESSED_BYTES {
        return Err(format!("the text has more than {UNCOMPRESSED_BYTES} bytes"));
    }
    Ok(uncompressed)
}
