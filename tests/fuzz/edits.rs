//! What a killed process or a bad disk does to a file: it is cut, or a byte is another one.

/// A cut or a change, from the first bytes of an input.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edit {
    Cut(usize),
    Change(usize, u8),
}

impl Edit {
    /// The edit of a text of this length that the first four bytes say, and the other bytes.
    pub(crate) fn of(input: &[u8]) -> Option<(impl Fn(usize) -> Self, &[u8])> {
        let (&[kind, high, low, byte], rest) = input.split_first_chunk()?;
        let place = usize::from(u16::from_be_bytes([high, low]));
        let edit = move |length: usize| {
            let at = place % length.max(1);
            if kind & 1 == 0 {
                Self::Cut(at)
            } else {
                Self::Change(at, byte)
            }
        };
        Some((edit, rest))
    }

    pub(crate) fn apply(self, text: &mut Vec<u8>) {
        match self {
            Self::Cut(at) => text.truncate(at),
            Self::Change(at, byte) => {
                if let Some(changed) = text.get_mut(at) {
                    *changed = byte;
                }
            }
        }
    }
}
