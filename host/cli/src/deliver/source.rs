//! The entries of the input, with the lines that they come from.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, ready};

use backstop_core::lock::lock;
use futures_util::{Stream, stream};

use super::Format;
use super::checkpoint::{Checkpoint, Job};
use super::lines::{Line, Lines, Part, Place, TOO_LONG};
use super::read_hash::ReadHash;
use super::summary::Reasons;
use super::undelivered::UndeliveredFile;

/// The input, shared by the delivery, which takes entries, and the loop, which settles them.
pub(super) struct Source<E>(Arc<Mutex<State>>, Arc<Format<E>>);

/// What is known of the lines.
pub(super) struct State {
    lines: Lines,
    /// The lines of the entries without an outcome, by the place of the entry.
    pending: HashMap<u64, Line>,
    /// Where these lines start, and their numbers.
    starts: BTreeMap<u64, u64>,
    /// How many entries were taken.
    taken: u64,
    /// Where the next line starts, and its number.
    pub(super) position: u64,
    number: u64,
    /// The hash of everything before it.
    read: ReadHash,
    pub(super) undelivered: UndeliveredFile,
    /// The lines in the file of undelivered entries, by reason.
    pub(super) reasons: Reasons,
    /// Why the input could not be read to its end.
    pub(super) failure: Option<io::Error>,
}

impl<E> Source<E> {
    pub(super) fn new(
        lines: Lines,
        resumed: Option<(&Checkpoint, ReadHash)>,
        undelivered: UndeliveredFile,
        format: Format<E>,
    ) -> Self {
        let (resumed, read) = resumed.unzip();
        let state = State {
            lines,
            pending: HashMap::new(),
            // They are pending until they are read again.
            starts: resumed
                .iter()
                .flat_map(|it| it.pending.iter().map(|start| (*start, it.line)))
                .collect(),
            taken: 0,
            position: resumed.map_or(0, |it| it.position),
            number: resumed.map_or(1, |it| it.line),
            read: read.unwrap_or_default(),
            undelivered,
            reasons: Reasons::default(),
            failure: None,
        };
        Self(Arc::new(Mutex::new(state)), Arc::new(format))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// The entries. Lines that are none are undelivered at once.
    pub(super) fn entries(&self) -> impl Stream<Item = E> + use<E> {
        let (state, format) = (Arc::clone(&self.0), Arc::clone(&self.1));
        stream::poll_fn(move |context| {
            let mut state = lock(&state);
            loop {
                let (line, read) = match ready!(state.lines.poll_next(context)) {
                    None => return Poll::Ready(None),
                    Some(Err(error)) => {
                        state.fail(error);
                        return Poll::Ready(None);
                    }
                    Some(Ok((Part::Piece { bytes, end }, read))) => {
                        state.leave_piece(&bytes, end, read);
                        // Requests in flight get their turn in between.
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Some(Ok((Part::Line(line), read))) => (line, read),
                };
                state.pass(line.place, read);
                if is_blank(&line.bytes) {
                    continue;
                }
                match (format.parse)(&line.bytes) {
                    Ok(entry) => {
                        state.hold(line);
                        return Poll::Ready(Some(entry));
                    }
                    Err(why) => {
                        state.refuse(line.place, &why);
                        state.undelivered.add(&line.bytes);
                    }
                }
            }
        })
    }

    /// An entry has its outcome; `why` if it is undelivered: kind, code and text.
    pub(super) fn settle(&self, index: u64, entry: &E, why: Option<(&str, &str, String)>) {
        let mut state = self.lock();
        let Some(line) = state.pending.remove(&index) else {
            return;
        };
        state.starts.remove(&line.place.span.0);
        if let Some((kind, code, text)) = why {
            let sample = format!("line {}: {text}", line.place.number);
            state.reasons.add(kind, code, &sample);
            let changed = (self.1.line)(&line.bytes, entry);
            let line = changed.as_ref().map_or(&*line.bytes, |it| it.as_bytes());
            state.undelivered.add(line);
        }
    }

    /// Writes what was not yet taken to the file of undelivered entries. Returns how many lines that were.
    pub(super) async fn leave_rest(&self) -> u64 {
        let mut count = 0;
        while let Some(part) =
            std::future::poll_fn(|context| self.lock().lines.poll_next(context)).await
        {
            let mut state = self.lock();
            match part {
                Ok((Part::Line(line), read)) => {
                    state.pass(line.place, read);
                    if !is_blank(&line.bytes) {
                        state.undelivered.add(&line.bytes);
                        count += 1;
                    }
                }
                Ok((Part::Piece { bytes, end }, read)) => state.leave_piece(&bytes, end, read),
                Err(error) => state.fail(error),
            }
            if state.undelivered.has_failed() {
                break;
            }
        }
        count
    }
}

impl State {
    fn hold(&mut self, line: Line) {
        let Place { number, span } = line.place;
        self.starts.insert(span.0, number);
        self.pending.insert(self.taken, line);
        self.taken += 1;
    }

    fn pass(&mut self, place: Place, read: ReadHash) {
        // Lines that are read again may be before the position.
        if place.span.1 > self.position {
            self.position = place.span.1;
            self.read = read;
        }
        self.number = self.number.max(place.number + 1);
        self.starts.remove(&place.span.0);
    }

    /// A line is no entry.
    fn refuse(&mut self, place: Place, why: &str) {
        let sample = format!("line {}: {why}", place.number);
        self.reasons.add("invalid", "", &sample);
    }

    /// Takes the next bytes of a line that is too long.
    fn leave_piece(&mut self, bytes: &[u8], end: Option<Place>, read: ReadHash) {
        self.undelivered.add_piece(bytes);
        if let Some(place) = end {
            self.undelivered.end_line();
            self.pass(place, read);
            self.refuse(place, TOO_LONG);
        }
    }

    /// The input can't be read any further. Of a line that was not read to its end, nothing is written.
    fn fail(&mut self, error: io::Error) {
        self.undelivered.take_line_back();
        self.failure = Some(error);
    }

    /// What a delivery of this input would go on from now.
    pub(super) fn checkpoint(&self, job: &Job, input: &Path) -> Checkpoint {
        let first = self.starts.first_key_value();
        Checkpoint {
            job: job.clone(),
            input: input.to_owned(),
            position: self.position,
            read: self.read.digest(),
            pending: self.starts.keys().copied().collect(),
            line: first.map_or(self.number, |(_, number)| *number),
            undelivered: self.undelivered.bytes(),
        }
    }
}

/// Whether a line holds nothing.
fn is_blank(line: &[u8]) -> bool {
    str::from_utf8(line).is_ok_and(|line| line.trim().is_empty())
}
