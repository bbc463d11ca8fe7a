//! Objects of JSON that say themselves whether they are as they were written: their last field is a checksum of the rest.
//!
//! A disk, a copy or an editor that changes a byte can leave valid JSON that says something else. The checksum finds every change of up to 32 bits in a row, unless the change reaches from the object into the name of the checksum, which is then none. It is no protection from somebody who writes a new one.

/// What stands before the eight digits of the checksum, and after them.
const BEFORE: &[u8] = b",\"sum\":\"";
const AFTER: &[u8] = b"\"}";

/// The digits of a checksum.
const DIGITS: usize = 8;

/// An object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opened {
    /// The object as it was before it was sealed.
    Whole(Vec<u8>),
    /// It has no checksum: it was written by an earlier version, or is none of ours.
    Unsealed,
    /// It is not as it was written.
    Changed,
}

/// Adds the checksum to the text of an object that has fields. Other text stays as it is.
///
/// ```
/// use backstop_files::sealed::{Opened, open, seal};
///
/// let line = seal(br#"{"id":"m-1"}"#);
/// assert_eq!(open(&line), Opened::Whole(br#"{"id":"m-1"}"#.to_vec()));
/// let changed = String::from_utf8(line)?.replace("m-1", "m-2");
/// assert_eq!(open(changed.as_bytes()), Opened::Changed);
/// # Ok::<(), std::string::FromUtf8Error>(())
/// ```
pub fn seal(object: &[u8]) -> Vec<u8> {
    let Some(fields) = object.strip_suffix(b"}") else {
        return object.to_vec();
    };
    let sum = format!("{:08x}", crc32fast::hash(object));
    [fields, BEFORE, sum.as_bytes(), AFTER].concat()
}

/// Opens what was sealed. A line break at the end is none of it.
pub fn open(sealed: &[u8]) -> Opened {
    let Some((fields, sum)) = split(sealed.strip_suffix(b"\n").unwrap_or(sealed)) else {
        return Opened::Unsealed;
    };
    let object = [fields, b"}"].concat();
    if format!("{:08x}", crc32fast::hash(&object)).as_bytes() == sum {
        Opened::Whole(object)
    } else {
        Opened::Changed
    }
}

/// The object without the brace at its end, and its checksum.
fn split(sealed: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = sealed.strip_suffix(AFTER)?;
    let (rest, sum) = text.split_at_checked(text.len().checked_sub(DIGITS)?)?;
    Some((rest.strip_suffix(BEFORE)?, sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_one_byte_is_found() {
        let object = br#"{"event":"sending","ids":["a","b"]}"#;
        let sealed = seal(object);
        assert_eq!(open(&sealed), Opened::Whole(object.to_vec()));
        for at in 0..sealed.len() {
            assert!(!matches!(open(&sealed[..at]), Opened::Whole(_)), "{at}");
            for byte in 0..=u8::MAX {
                let mut changed = sealed.clone();
                changed[at] = byte;
                let is_same = changed == sealed;
                assert_eq!(
                    matches!(open(&changed), Opened::Whole(_)),
                    is_same,
                    "{at} {byte}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_object_with_fields_is_not_sealed() {
        for text in [
            "",
            "null",
            "[1]",
            "}",
            "{}",
            r#"{"a":1}"#,
            r#"{"a":1,"sum":"1"}"#,
        ] {
            assert_eq!(open(text.as_bytes()), Opened::Unsealed, "{text}");
        }
        assert_eq!(seal(b"null"), b"null");
    }
}
