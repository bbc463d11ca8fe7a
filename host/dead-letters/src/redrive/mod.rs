//! Moving dead letters back: a fixed set of them, at a rate, in growing steps, and so that a run that is killed loses none.
//!
//! A run has a folder ([`Runs`]) with what it does ([`Plan`]), its set and its journal. [`run`] reads the queue once to fix the set, and then receives letters, sends those of the set to their targets and deletes them. Before each request, the journal says what is about to happen, so that a killed run can be resumed: no letter is lost, and none is sent twice but those that were being sent at that moment, which are reported.
//!
//! Letters that fail again come back with an id that the run knows: they are counted, and linked to the letters that were moved.
//!
//! | module | content |
//! |---|---|
//! | `plan`, `store`, `run_folder`, `shared` | what a run does, all runs, the folder of one, and a place that several operators share |
//! | `entry`, `journal`, `ledger` | what a run has done, line by line and in sum |
//! | `target`, `prepare`, `outgoing` | where a letter goes, and what it becomes there |
//! | `survey`, `fixed_set` | the set |
//! | `rehearsal` | a dry run |
//! | `run`, `steps`, `pass`, `batch`, `send`, `watch` | a run, its steps, one step, one batch, the requests, letters that came back |
//! | `setup`, `work`, `hold`, `others`, `pace`, `activity` | what the steps share |
//! | `queue_lock`, `tags` | the lock of the queue, which runs on other machines see, and how it stands there |
//! | `native` | SQS's own redrive |

mod activity;
mod batch;
mod entry;
mod fixed_set;
mod hold;
mod journal;
mod ledger;
mod native;
mod others;
mod outgoing;
#[cfg(test)]
mod outgoing_tests;
mod pace;
mod pass;
mod plan;
mod prepare;
mod queue_lock;
mod rehearsal;
mod run;
mod run_folder;
mod send;
mod setup;
mod shared;
mod steps;
mod store;
mod survey;
mod tags;
mod target;
mod watch;
mod work;

use std::path::PathBuf;

use backstop_queue::QueueError;

pub use activity::{Activity, Phase, Snapshot};
pub use entry::{Ended, Entry, Outcome, SentLetter};
#[cfg(test)]
pub(crate) use fixed_set::is_complete;
pub use ledger::{Counts, Ledger};
pub use native::{MOST_PER_SECOND, run_native};
pub use plan::{DEFAULT_VISIBILITY, DEFAULT_WAIT, NothingWatched, Plan, Ramp, Step, Steps};
pub use queue_lock::{QueueLock, Wanted};
pub use rehearsal::{Rehearsal, rehearse};
pub use run::run;
pub use run_folder::RunFolder;
pub use setup::{Edited, Editor, Setup, Summary};
pub use shared::Objects;
pub use store::Runs;
pub use survey::Survey;
pub use tags::{Holder, STOP_TAG, TAG, ask_to_stop, holder};
pub use target::To;
pub use watch::check;

use crate::archive::ArchiveError;
use crate::reader::ReadError;

/// Why a run can't start or go on. No letter is lost: what is not moved stays in the dead-letter queue.
#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    /// A request to the dead-letter queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The dead-letter queue can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the run can't be read or written.
    #[error("can't use the files of the run")]
    Io(#[from] std::io::Error),
    /// The dead-letter queue has a redrive policy, which could move its letters away.
    #[error(
        "{queue} has a redrive policy of its own, which moves a message after {receives} receives: a redrive receives, so it could move letters away. Remove the policy first"
    )]
    OwnRedrive {
        /// The queue's ARN.
        queue: String,
        /// The maximum receive count.
        receives: u32,
    },
    /// Copies of the letters can't be written: none is sent without.
    #[error(transparent)]
    Copies(#[from] ArchiveError),
    /// Copies would be on one machine only.
    #[error(
        "copies are kept in a folder, and this run is kept in a bucket: run it without copies, or keep its files in a folder (--state)"
    )]
    NoCopies,
    /// A target does not exist or can't be reached.
    #[error("can't use the target {to}")]
    Target {
        /// The target.
        to: To,
        /// Why.
        #[source]
        cause: QueueError,
    },
    /// The queue that was found is another one, such as one with the same name in another region.
    #[error(
        "can't use the target {to}: the queue with this name here is {found}. Use the region of the target, or name another target with --to"
    )]
    OtherQueue {
        /// The target.
        to: To,
        /// The ARN of the queue that was found.
        found: String,
    },
    /// The target is the dead-letter queue.
    #[error("{to} is the dead-letter queue itself: name another target with --to")]
    Itself {
        /// The target.
        to: To,
    },
    /// Letters have no target.
    #[error(
        "{letters} letters do not say where they come from (one is {sample}): name the target with --to, or the queue by its name in backstop.toml"
    )]
    NoTarget {
        /// How many.
        letters: u64,
        /// The id of one.
        sample: String,
    },
    /// A target accepts nothing now.
    #[error(
        "{to} accepts no letters: {why}. Those that are not moved stay in the dead-letter queue"
    )]
    Unusable {
        /// The target.
        to: To,
        /// Why.
        why: String,
    },
    /// There is no such run.
    #[error("there is no run `{run}` in {place}: `backstop dlq runs` lists them")]
    NoRun {
        /// Its id.
        run: String,
        /// The place of all runs.
        place: String,
    },
    /// Somebody has changed the plan.
    #[error("the plan of the run {run} has changed since it was looked at: look again")]
    OtherPlan {
        /// Its id.
        run: String,
    },
    /// Another process works on the run.
    #[error("another process works on this run now ({})", folder.display())]
    Active {
        /// The run's folder.
        folder: PathBuf,
    },
    /// An earlier run of the same queue has not settled all of its letters.
    #[error(
        "the run {run} still has letters in this queue that it has sent, or may have sent: another run would send {letters} of its letters again. Resume it first: backstop dlq redrive --resume {run}"
    )]
    Unsettled {
        /// Its id.
        run: String,
        /// The letters that it has sent, or was sending, and has not deleted.
        letters: u64,
    },
    /// Another run moves letters of the queue.
    #[error(
        "the run {} of {} moves letters of this queue: wait for its end. If it was killed, its lock counts until {}; `backstop dlq redrive --resume {0}` goes on where its folder is", .holder.run, or_somebody(&.holder.who), .holder.until.rfc3339()
    )]
    Locked {
        /// Whose run it is.
        holder: Holder,
    },
    /// Another run was killed, or has left letters behind that it has sent.
    #[error(
        "the run {} of {} has not ended well: letters that it has sent, or may have sent, may still be in this queue, and another run would send them again. Resume it where its folder is: `backstop dlq redrive --resume {0}`. If that is impossible, as for a run of --native, start with `--despite {0}`", .holder.run, or_somebody(&.holder.who)
    )]
    LeftBehind {
        /// Whose run it was.
        holder: Holder,
    },
    /// An editor can't be used.
    #[error("{0}")]
    Editor(String),
}

fn or_somebody(who: &str) -> &str {
    if who.is_empty() { "somebody" } else { who }
}

impl RedriveError {
    /// Whether a target can't be used because it does not exist, or is no queue for letters. Missing permissions and failed requests are none of these.
    fn is_of_target(&self) -> bool {
        if let Self::Target { cause, .. } = self {
            return !cause.is_retryable() && !cause.is_access_denied();
        }
        matches!(self, Self::Itself { .. } | Self::OtherQueue { .. })
    }
}
