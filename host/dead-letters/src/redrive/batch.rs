//! Moves a batch of letters: what each becomes, the entry in the journal, the request, the next entry, and the deletion.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use backstop_core::lock::lock;

use super::RedriveError;
use super::entry::{Entry, SentLetter};
use super::hold::Hold;
use super::prepare::{Becomes, Obstacle, Prepared, become_, prepare};
use super::send::{self, Sending, Sent};
use super::setup::Edited;
use super::target::{Target, To};
use super::work::Work;
use crate::letter::Letter;
use crate::requests::PATIENT;
use backstop_queue::{BATCH_ENTRIES, batches, is_allowed};
use backstop_traces::{Destination, Kind, Span, Start, Under};

/// A letter that can be sent.
struct Ready {
    letter: Letter,
    becomes: Becomes,
    span: Span,
}

/// Moves letters that it holds.
pub(super) struct Mover {
    pub(super) work: Arc<Work>,
    pub(super) hold: Hold,
    /// The groups of a FIFO queue in which a letter stays: those behind it stay, too.
    blocked: Mutex<HashSet<String>>,
}

impl Mover {
    pub(super) fn new(work: &Arc<Work>) -> Self {
        Self {
            hold: Hold::start(Arc::clone(&work.setup.queue), work.visibility()),
            work: Arc::clone(work),
            blocked: Mutex::default(),
        }
    }

    /// The group of a letter, if its order counts.
    fn group<'a>(&self, letter: &'a Letter) -> Option<&'a String> {
        let group = letter.message.group.as_ref();
        group.filter(|_| self.work.description.fifo)
    }

    /// A letter stays: those behind it in its group stay, too.
    pub(super) fn block(&self, letter: &Letter) {
        if let Some(group) = self.group(letter) {
            lock(&self.blocked).insert(group.clone());
        }
    }

    pub(super) fn is_blocked(&self, letter: &Letter) -> bool {
        let group = self.group(letter);
        group.is_some_and(|it| lock(&self.blocked).contains(it))
    }
}

/// Moves letters that are held.
pub(super) async fn move_letters(mover: &Mover, letters: Vec<Letter>) -> Result<(), RedriveError> {
    let mut by_target = BTreeMap::<To, Vec<Ready>>::new();
    let mut refused = Vec::new();
    for letter in letters {
        if mover.work.setup.stop.is_cancelled() {
            break;
        }
        match ready(mover, &letter).await {
            Ok((to, becomes, span)) => {
                let ready = Ready {
                    letter,
                    becomes,
                    span,
                };
                by_target.entry(to).or_default().push(ready);
            }
            Err(Obstacle::Refused(why)) => refused.push((letter, why)),
            Err(Obstacle::Error(error)) => return Err(error),
            Err(Obstacle::Stopped) => break,
        }
    }
    refuse(mover, refused).await?;
    for (to, ready) in by_target {
        let target = mover.work.router.open(&to).await?;
        for batch in batches(ready, |it| it.becomes.size()) {
            move_batch(mover, &to, &target, batch).await?;
        }
    }
    Ok(())
}

/// Where a letter goes, what it becomes there, and the span in which it is sent.
async fn ready(mover: &Mover, letter: &Letter) -> Result<(To, Becomes, Span), Obstacle> {
    let work = &mover.work;
    let Prepared { to, target, text } = prepare(&work.router, &work.plan, letter).await?;
    let text = edited(work, letter, text).await?;
    let (keys, now) = (work.setup.keys.as_ref(), work.setup.queue.now());
    let span = span(work, letter, &target);
    let becomes = become_(&work.plan, keys, letter, &target, text, now, &span)?;
    Ok((to, becomes, span))
}

/// The span of a letter that is sent: a trace with links to its sender and to its last attempt, both long ago.
fn span(work: &Work, letter: &Letter, target: &Target) -> Span {
    let place = match target {
        Target::Queue { queue, .. } => Destination::queue(queue.url()),
        Target::Function { name, .. } => Destination::function(name),
    };
    let message = &letter.message;
    let span = Span::start(|| {
        let sender = message.creation().map(|it| it.context);
        let links = sender.into_iter().chain(message.previous());
        Start::new(Kind::Redrive, &place, Under::Nothing).linked(links)
    });
    span.record(|attributes| {
        attributes.text("messaging.message.id", &letter.original_id);
        attributes.text("backstop.redrive.run", &work.plan.run);
        attributes.text("backstop.redrive.from", &work.plan.queue);
    });
    span
}

/// The text of a letter after it was edited.
async fn edited(work: &Work, letter: &Letter, text: Arc<str>) -> Result<Arc<str>, Obstacle> {
    let Some(editor) = &work.setup.editor else {
        return Ok(text);
    };
    match editor.edit(letter, &text).await? {
        Edited::Unchanged => Ok(text),
        Edited::Changed(changed) => {
            if changed.is_empty() || !changed.chars().all(is_allowed) {
                let why = "its new body is empty or has characters that SQS does not allow";
                return Err(why.to_owned().into());
            }
            let id = letter.message.id.clone();
            work.record(&[Entry::Edited { id }]).await?;
            Ok(changed.into())
        }
        Edited::Skipped(why) => Err(why.into()),
        Edited::Stop => {
            work.setup.stop.cancel();
            Err(Obstacle::Stopped)
        }
    }
}

/// Notes that letters stay in the dead-letter queue, with the reasons.
async fn refuse(mover: &Mover, refused: Vec<(Letter, String)>) -> Result<(), RedriveError> {
    if refused.is_empty() {
        return Ok(());
    }
    refused.iter().for_each(|(letter, _)| mover.block(letter));
    let letters = refused
        .into_iter()
        .map(|(letter, why)| (letter.message.id, why))
        .collect();
    mover.work.record(&[Entry::Refused { letters }]).await
}

/// Sends a batch to its target and deletes it from the dead-letter queue.
async fn move_batch(
    mover: &Mover,
    to: &To,
    target: &Target,
    batch: Vec<Ready>,
) -> Result<(), RedriveError> {
    let work = &mover.work;
    let (mut letters, mut becomes, mut spans) = (Vec::new(), Vec::new(), Vec::new());
    for ready in batch {
        letters.push(ready.letter);
        becomes.push(ready.becomes);
        spans.push(ready.span);
    }
    work.keep(letters.iter()).await?;
    let ids: Vec<_> = letters.iter().map(|it| it.message.id.clone()).collect();
    work.record(&[Entry::Sending { ids }]).await?;
    let Sending { results, uncertain } = send_all(mover, target, becomes).await;
    let (mut sent, mut refused, mut unsent) = (Vec::new(), Vec::new(), Vec::new());
    let mut failure = None;
    for (position, ((letter, span), result)) in letters.iter().zip(spans).zip(results).enumerate() {
        let id = letter.message.id.clone();
        if !matches!(result, Sent::Accepted(_)) {
            span.fail("not sent");
        }
        span.end();
        match result {
            Sent::Accepted(new) => {
                let original = Some(letter.original_id.clone()).filter(|it| *it != id);
                sent.push(SentLetter { id, new, original });
            }
            Sent::Refused(why) => {
                mover.block(letter);
                refused.push((id, why));
            }
            Sent::Unusable(why) => {
                mover.block(letter);
                // One whose request had no answer stays in doubt.
                if !uncertain.contains(&position) {
                    unsent.push(id);
                }
                failure = Some(why);
            }
        }
    }
    let doubtful: Vec<_> = uncertain
        .iter()
        .filter_map(|position| Some(letters.get(*position)?.message.id.clone()))
        .collect();
    let to_delete: Vec<_> = sent.iter().map(|it| it.id.clone()).collect();
    let mut entries = Vec::new();
    if !doubtful.is_empty() {
        entries.push(Entry::Uncertain { ids: doubtful });
    }
    if !sent.is_empty() {
        let at = work.setup.queue.now();
        entries.push(Entry::Sent { at, letters: sent });
    }
    if !refused.is_empty() {
        entries.push(Entry::Refused { letters: refused });
    }
    if !unsent.is_empty() {
        entries.push(Entry::NotSent { ids: unsent });
    }
    work.record(&entries).await?;
    delete(mover, &to_delete).await?;
    match failure {
        Some(why) => Err(RedriveError::Unusable {
            to: to.clone(),
            why,
        }),
        None => Ok(()),
    }
}

async fn send_all(mover: &Mover, target: &Target, becomes: Vec<Becomes>) -> Sending {
    let (mut messages, mut events) = (Vec::new(), Vec::new());
    for one in becomes {
        match one {
            Becomes::Message(message) => messages.push(message),
            Becomes::Event(event) => events.push(event),
        }
    }
    match target {
        Target::Queue { queue, .. } => {
            send::send_batch(queue, &messages, &mover.work.setup.stop).await
        }
        Target::Function { name, api } => {
            send::invoke(api, name, events, &mover.work.setup.stop).await
        }
    }
}

/// Deletes letters that were sent. One that can't be deleted comes again, and is then deleted.
pub(super) async fn delete(mover: &Mover, ids: &[String]) -> Result<(), RedriveError> {
    let held: Vec<_> = ids
        .iter()
        .filter_map(|id| Some((id.clone(), mover.hold.take(id)?)))
        .collect();
    for batch in held.chunks(BATCH_ENTRIES) {
        let handles: Vec<_> = batch.iter().map(|(_, handle)| handle.clone()).collect();
        let queue = &mover.work.setup.queue;
        let delete = |handles: Vec<_>| async move { queue.delete(&handles).await };
        let results = PATIENT.batches(&handles, 1, delete).await;
        let deleted = batch.iter().zip(results).filter(|(_, it)| it.is_ok());
        let ids: Vec<_> = deleted.map(|((id, _), _)| id.clone()).collect();
        if !ids.is_empty() {
            mover.work.record(&[Entry::Deleted { ids }]).await?;
        }
    }
    Ok(())
}
