//! What is remembered of waiting messages, as bytes that outlive the process: chunks, each complete in itself and with a checksum. A damaged one is left out, and the others are read.
//!
//! Times are times of day there, since the clock of a process ends with it.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Waiting;
use super::causes::Cause;
use super::memory::{Key, Known, Memory, New};
use super::packed;
use crate::decision::Hold;
use crate::failure::{Milliseconds, Timestamp};

/// How the bytes begin. Another version has another number.
const BEGIN: &[u8; 20] = b"backstop waiting 02\n";

/// The most places of the memory that one chunk has: the memory is locked while it is made.
const PLACES: u32 = 500;

/// The most bytes of a chunk that are read: its messages have 5 KiB at most, and so have their causes.
const CHUNK_BYTES: usize = 8 << 20;

/// The longest that a message waits: no queue keeps it for longer. A later time is a mistake of a clock.
const LONGEST: Duration = Duration::from_secs(14 * 86_400);

/// The most bytes of a group that are read: the host has bounded them, and a file is no host.
const GROUP_BYTES: usize = 256;

/// What was read, or left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenOver {
    /// The messages that are remembered now.
    pub messages: u64,
    /// The chunks that are damaged, and are left out.
    pub damaged: u64,
}

/// Whose messages follow.
#[derive(Debug, Serialize, Deserialize)]
struct Head<'a> {
    source: &'a str,
    since: u64,
    /// What the messages are grouped by; empty if they are not.
    grouped_by: &'a str,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    causes: Vec<KeptCause<'a>>,
    #[serde(borrow)]
    messages: Vec<KeptMessage<'a>>,
    /// The groups of these messages, the first without a text.
    #[serde(borrow)]
    groups: Vec<&'a str>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptCause<'a> {
    code: &'a str,
    class: &'a str,
    policy: &'a str,
    first: &'a [u8],
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptMessage<'a> {
    key: Key,
    ends: u64,
    due: u64,
    failed: u64,
    delay: u32,
    attempt: u32,
    /// The number of its cause in the chunk.
    cause: u32,
    /// The number of its group in the chunk.
    group: u32,
    hold: Hold,
    known: Known,
    by_envelope: bool,
    hop_ended: bool,
    record: &'a [u8],
}

impl Waiting {
    /// Gives messages the keys that they have in every process with this secret, so that what one process remembers of a message, another one finds. To be called before anything is remembered.
    pub fn with_secret(&self, secret: [u8; 16]) {
        // Another one was chosen already: then the messages of other processes are remembered under keys that nobody finds, until they are due.
        let _ = self.secret.set(secret);
    }

    /// A number that is another one once something else is remembered.
    pub fn changes(&self) -> u64 {
        self.memory().changes()
    }

    /// Writes what is remembered. Returns the number of messages.
    pub fn write_to(&self, to: &mut dyn Write) -> io::Result<u64> {
        to.write_all(BEGIN)?;
        let head = Head {
            source: &self.source,
            since: self.since().0,
            grouped_by: self.grouped_by().unwrap_or_default(),
        };
        write_part(to, &encoded(&head)?)?;
        let (mut first, mut messages) = (0_u32, 0_u64);
        loop {
            let (now, today) = (self.now(), self.queue.now());
            let time = |at: i64| today.0.saturating_add_signed(at.saturating_sub(now));
            let bytes = {
                let memory = self.memory();
                let places = first..first.saturating_add(PLACES).min(memory.places());
                if places.is_empty() {
                    return Ok(messages);
                }
                first = places.end;
                let chunk = Chunk::of(&memory, places, time);
                if chunk.messages.is_empty() {
                    continue;
                }
                messages += chunk.messages.len() as u64;
                encoded(&chunk)?
            };
            write_part(to, &bytes)?;
        }
    }

    /// Reads what another process has [written](Waiting::write_to) of the same queue, and remembers it, unless this one knows more of a message.
    pub fn take_over(&self, from: &mut dyn Read) -> io::Result<TakenOver> {
        let mut begin = [0; BEGIN.len()];
        from.read_exact(&mut begin)?;
        let mut parts = Parts { from, ended: false };
        let head = parts.next()?.flatten();
        let head = head.as_deref().map(postcard::from_bytes::<Head<'_>>);
        let Some(Ok(head)) = head.filter(|_| begin == *BEGIN) else {
            return Err(invalid(
                "it is damaged, or from another version of Backstop",
            ));
        };
        if head.source != self.source {
            return Err(invalid("it is of another queue"));
        }
        // By something else, its groups are no groups here.
        let has_groups = head.grouped_by == self.grouped_by().unwrap_or_default();
        let mut taken = TakenOver::default();
        while let Some(bytes) = parts.next()? {
            match bytes.as_deref().map(postcard::from_bytes::<Chunk<'_>>) {
                Some(Ok(chunk)) => taken.messages += self.remember_kept(&chunk, has_groups),
                Some(Err(_)) | None => taken.damaged += 1,
            }
        }
        if taken.messages > 0 {
            self.since.fetch_min(head.since, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn remember_kept(&self, chunk: &Chunk<'_>, has_groups: bool) -> u64 {
        let (now, today) = (self.now(), self.queue.now());
        let at = |time: u64| self.at(Timestamp(time), now);
        let mut memory = self.memory();
        let mut remembered = 0;
        for kept in &chunk.messages {
            let cause = usize::try_from(kept.cause).ok();
            let Some(cause) = cause.and_then(|number| chunk.causes.get(number)) else {
                continue;
            };
            let Some(packing) = packed::packing(kept.record, cause.first) else {
                continue;
            };
            if !kept.waits(today) || memory.find(kept.key).is_some() {
                continue;
            }
            let group = usize::try_from(kept.group).ok().filter(|_| has_groups);
            let group = group.and_then(|number| chunk.groups.get(number));
            let group = group.copied().filter(|group| group.len() <= GROUP_BYTES);
            let group = group.unwrap_or_default();
            let sent = packing.sent().map_or(kept.failed, |sent| sent.0);
            let new = New {
                packing,
                key: kept.key,
                ends: at(kept.ends),
                due: at(kept.due),
                sent: at(sent),
                failed: at(kept.failed),
                delay: Milliseconds(kept.delay),
                attempt: kept.attempt,
                cause: Cause {
                    code: cause.code,
                    class: cause.class,
                    policy: cause.policy,
                    group,
                },
                hold: kept.hold,
                known: kept.known,
                by_envelope: kept.by_envelope,
            };
            memory.add(new, now);
            if kept.hop_ended {
                memory.set_hop_ended(kept.key);
            }
            remembered += 1;
        }
        remembered
    }
}

impl KeptMessage<'_> {
    /// Whether it has not come yet.
    fn waits(&self, now: Timestamp) -> bool {
        let comes = match self.hold {
            Hold::Visibility => self.ends,
            Hold::Resend => self.due,
        };
        let latest = Timestamp(self.ends.max(self.due));
        comes > now.0 && latest.since(now) <= LONGEST
    }
}

impl<'a> Chunk<'a> {
    /// The messages in these places of the memory.
    fn of(memory: &'a Memory, places: Range<u32>, time: impl Fn(i64) -> u64) -> Self {
        let mut chunk = Self::default();
        let mut numbers = BTreeMap::new();
        let mut groups = BTreeMap::from([("", 0)]);
        chunk.groups.push("");
        for slot in places.filter_map(|place| memory.at_place(place)) {
            let (cause, first) = (memory.cause(slot), memory.first(slot));
            let number = *numbers.entry(memory.base(slot)).or_insert_with(|| {
                chunk.causes.push(KeptCause {
                    code: cause.code,
                    class: cause.class,
                    policy: cause.policy,
                    first,
                });
                chunk.causes.len() - 1
            });
            let group = *groups.entry(cause.group).or_insert_with(|| {
                chunk.groups.push(cause.group);
                chunk.groups.len() - 1
            });
            chunk.messages.push(KeptMessage {
                key: slot.key,
                ends: time(slot.ends),
                due: time(slot.due),
                failed: time(slot.failed),
                delay: slot.delay.0,
                attempt: slot.attempt,
                cause: u32::try_from(number).unwrap_or(u32::MAX),
                group: u32::try_from(group).unwrap_or_default(),
                hold: slot.hold,
                known: slot.known,
                by_envelope: slot.by_envelope,
                hop_ended: slot.hop_ended,
                record: memory.record(slot),
            });
        }
        chunk
    }
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn encoded(value: &impl Serialize) -> io::Result<Vec<u8>> {
    postcard::to_stdvec(value).map_err(io::Error::other)
}

/// Writes bytes with their length and their checksum before them.
fn write_part(to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&crc32fast::hash(bytes).to_le_bytes())?;
    to.write_all(bytes)
}

/// Reads what [`write_part`] wrote.
struct Parts<'a> {
    from: &'a mut dyn Read,
    /// What follows can't be read.
    ended: bool,
}

impl Parts<'_> {
    /// The next bytes; `Some(None)` if they are damaged, and `None` at the end.
    fn next(&mut self) -> io::Result<Option<Option<Vec<u8>>>> {
        if self.ended {
            return Ok(None);
        }
        let [length, checksum] = match (self.number()?, self.number()?) {
            (Some(length), Some(checksum)) => [length, checksum],
            (None, _) => return Ok(None),
            (Some(_), None) => {
                self.ended = true;
                return Ok(Some(None));
            }
        };
        let mut bytes = Vec::new();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length <= CHUNK_BYTES {
            let length = u64::try_from(length).unwrap_or(u64::MAX);
            (&mut *self.from).take(length).read_to_end(&mut bytes)?;
        }
        self.ended = bytes.len() != length;
        let is_whole = !self.ended && crc32fast::hash(&bytes) == checksum;
        Ok(Some(is_whole.then_some(bytes)))
    }

    /// The next four bytes; `None` if they are not there.
    fn number(&mut self) -> io::Result<Option<u32>> {
        let mut bytes = Vec::new();
        (&mut *self.from).take(4).read_to_end(&mut bytes)?;
        Ok(bytes.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)))
    }
}
