//! The messages between the host and the child that compiles: the request is an argument, the file is standard input, and the answer is a line of JSON followed by the code.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use backstop_core::text::cut;

/// The first argument of a child that compiles; the second is a [`Request`].
pub(super) const ARGUMENT: &str = "--compile-the-policy-on-standard-input";

/// The longest reason, in bytes.
const LONGEST: usize = 4 << 10;

/// The work of a child, and its limits.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The host's process: the child ends with it.
    pub(super) parent: u32,
    /// The largest file, in bytes.
    pub(super) most: usize,
    /// Memory in bytes.
    pub(super) memory: u64,
    /// Address space in bytes.
    pub(super) address_space: u64,
    /// Processor time in seconds.
    pub(super) cpu: u64,
    /// The target of the code, if it is not this machine.
    pub(super) target: Option<String>,
}

/// The result.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The code follows, with this many bytes.
    Code(usize),
    /// Why the file is not a policy.
    Refused(String),
    /// Memory ran out.
    OutOfMemory,
    /// Why the child can't work on this machine, for any file.
    Unable(String),
}

/// Writes an answer, followed by the code.
pub fn write(mut to: impl Write, outcome: &Result<Vec<u8>, Answer>) -> io::Result<()> {
    let mut line = match outcome {
        Ok(code) => serde_json::to_vec(&Answer::Code(code.len()))?,
        Err(Answer::Refused(why)) => {
            let mut why = why.clone();
            cut(&mut why, LONGEST);
            serde_json::to_vec(&Answer::Refused(why))?
        }
        Err(answer) => serde_json::to_vec(answer)?,
    };
    line.push(b'\n');
    to.write_all(&line)?;
    if let Ok(code) = outcome {
        to.write_all(code)?;
    }
    to.flush()
}

/// The answer in a child's output, if that is complete.
pub fn read(mut written: Vec<u8>) -> Option<Result<Vec<u8>, Answer>> {
    let end = written.iter().position(|byte| *byte == b'\n')?;
    let answer: Answer = serde_json::from_slice(written.get(..end)?).ok()?;
    match answer {
        Answer::Code(size) => {
            written.drain(..=end);
            (written.len() == size).then_some(Ok(written))
        }
        answer @ (Answer::Refused(_) | Answer::OutOfMemory | Answer::Unable(_)) => {
            Some(Err(answer))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written_and_an_incomplete_one_is_rejected() {
        for outcome in [
            Ok(b"code\nof several lines".to_vec()),
            Err(Answer::Refused("a\nb".to_owned())),
            Err(Answer::OutOfMemory),
            Err(Answer::Unable("no stdin".to_owned())),
        ] {
            let mut written = Vec::new();
            write(&mut written, &outcome).unwrap();
            for end in 0..written.len() {
                let cut_off = read(written[..end].to_vec());
                let is_whole_line = end + 1 == written.len() && outcome.is_err();
                assert!(cut_off.is_none() || is_whole_line, "{end}");
            }
            assert_eq!(read(written), Some(outcome));
        }
        assert_eq!(read(b"thread 'main' panicked\n".to_vec()), None);
    }

    #[test]
    fn a_reason_has_a_maximum_length() {
        let mut written = Vec::new();
        write(&mut written, &Err(Answer::Refused("x".repeat(1 << 20)))).unwrap();
        assert!(written.len() < 2 * LONGEST);
    }
}
