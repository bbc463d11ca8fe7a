//! The entries of the input, with the lines that they come from.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::{Stream, stream};
use tokio::sync::mpsc::Receiver;

use super::Format;
use super::checkpoint::Checkpoint;
use super::lines::Line;
use super::summary::Reasons;
use super::undelivered::UndeliveredFile;

/// The input, shared by the delivery, which takes entries, and the loop, which settles them.
pub(super) struct Source<F>(Arc<Mutex<State>>, Arc<F>);

/// What is known of the lines.
pub(super) struct State {
    lines: Receiver<io::Result<Line>>,
    /// The lines of the entries without an outcome, by the place of the entry.
    pending: HashMap<u64, Line>,
    /// Where these lines start, and their numbers.
    starts: BTreeMap<u64, u64>,
    /// How many entries were taken.
    taken: u64,
    /// Where the next line starts, and its number.
    pub(super) position: u64,
    number: u64,
    pub(super) undelivered: UndeliveredFile,
    /// The lines in the file of undelivered entries, by reason.
    pub(super) reasons: Reasons,
    /// Why the input could not be read to its end.
    pub(super) failure: Option<io::Error>,
}

impl<F: Format> Source<F> {
    pub(super) fn new(
        lines: Receiver<io::Result<Line>>,
        resumed: Option<&Checkpoint>,
        undelivered: UndeliveredFile,
        format: F,
    ) -> Self {
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
            undelivered,
            reasons: Reasons::default(),
            failure: None,
        };
        Self(Arc::new(Mutex::new(state)), Arc::new(format))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entries. Lines that are none are undelivered at once.
    pub(super) fn entries(&self) -> impl Stream<Item = F::Entry> + use<F> {
        let (state, format) = (Arc::clone(&self.0), Arc::clone(&self.1));
        stream::poll_fn(move |context| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            loop {
                let line = match state.lines.poll_recv(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(None) => return Poll::Ready(None),
                    Poll::Ready(Some(Err(error))) => {
                        state.failure = Some(error);
                        return Poll::Ready(None);
                    }
                    Poll::Ready(Some(Ok(line))) => line,
                };
                state.pass(&line);
                if line.text.trim().is_empty() {
                    continue;
                }
                match format.parse(&line.text) {
                    Ok(entry) => {
                        state.hold(line);
                        return Poll::Ready(Some(entry));
                    }
                    Err(why) => {
                        let sample = format!("line {}: {why}", line.number);
                        state.reasons.add("invalid", "", &sample);
                        state.undelivered.add(&line.text);
                    }
                }
            }
        })
    }

    /// An entry has its outcome; `why` if it is undelivered: kind, code and text.
    pub(super) fn settle(&self, index: u64, entry: &F::Entry, why: Option<(&str, &str, String)>) {
        let mut state = self.lock();
        let Some(line) = state.release(index) else {
            return;
        };
        if let Some((kind, code, text)) = why {
            let sample = format!("line {}: {text}", line.number);
            state.reasons.add(kind, code, &sample);
            let changed = self.1.line(&line.text, entry);
            state
                .undelivered
                .add(changed.as_deref().unwrap_or(&line.text));
        }
    }

    /// Writes what was not yet taken to the file of undelivered entries. Returns how many lines that were.
    pub(super) async fn leave_rest(&self) -> u64 {
        let mut count = 0;
        while let Some(line) =
            std::future::poll_fn(|context| self.lock().lines.poll_recv(context)).await
        {
            let mut state = self.lock();
            match line {
                Ok(line) => {
                    state.pass(&line);
                    if !line.text.trim().is_empty() {
                        state.undelivered.add(&line.text);
                        count += 1;
                    }
                }
                Err(error) => state.failure = Some(error),
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
        self.starts.insert(line.span.0, line.number);
        self.pending.insert(self.taken, line);
        self.taken += 1;
    }

    fn release(&mut self, index: u64) -> Option<Line> {
        let line = self.pending.remove(&index)?;
        self.starts.remove(&line.span.0);
        Some(line)
    }

    fn pass(&mut self, line: &Line) {
        // Lines that are read again may be before the position.
        self.position = self.position.max(line.span.1);
        self.number = self.number.max(line.number + 1);
        self.starts.remove(&line.span.0);
    }

    /// What a delivery of this input would go on from now.
    pub(super) fn checkpoint(&self, input: &Path) -> Checkpoint {
        let first = self.starts.first_key_value();
        Checkpoint {
            input: input.to_owned(),
            position: self.position,
            pending: self.starts.keys().copied().collect(),
            line: first.map_or(self.number, |(_, number)| *number),
            undelivered: self.undelivered.bytes(),
        }
    }
}
