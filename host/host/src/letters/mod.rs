//! The dead letters of the host's queues, for operators: what a survey has found, what the policy would do with them, and the runs that move them back.
//!
//! A survey receives every letter once, and what it has found is kept: whoever looks costs the letters no receive. What is chosen from a survey is a set of letters by their ids, so a run moves the letters that somebody has seen and no others. Runs have their folders where the command `backstop dlq` has them.
//!
//! | module | content |
//! |---|---|
//! | `classify` | what a policy would do with a letter |
//! | `row`, `survey`, `groups` | what is kept of a letter, of all of them, and how they are grouped |
//! | `sample` | letters that are kept with their bodies |
//! | `report` | a run as operators see it |
//! | `state` | what is kept while the host lives |
//! | `desk` | the dead-letter queues of a host |
//! | `reading` | makes a survey |
//! | `choice` | which letters of a survey are to be moved, and how |
//! | `start`, `runs` | moves letters back, and tells of the runs |

mod choice;
mod classify;
mod desk;
mod groups;
mod reading;
mod report;
mod row;
mod runs;
mod sample;
mod start;
mod state;
mod survey;

pub use choice::{Only, RedriveRequest};
pub use classify::{Classified, Classifier, Verdict, Would};
pub use desk::{Desk, DeskQueue, RunsPlace};
pub use groups::{Grouping, LetterGroup};
pub use reading::SurveyRequest;
pub use report::{RunDetail, RunReport};
pub(crate) use runs::MOST_IDS;
pub use runs::{Found, outcome};
pub use sample::LetterSample;
pub use start::Started;
pub use state::Surveying;
pub use survey::{QueueSeen, Survey, SurveyReport};

/// Why something about dead letters is not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum DeskError {
    /// The request is wrong, or what it names is not there.
    #[error("{0}")]
    Refused(String),
    /// Something else is under way, or has changed since.
    #[error("{0}")]
    Conflict(String),
    /// A queue or a file can't be used.
    #[error("{}", backstop_core::text::chain(.0))]
    Redrive(#[from] backstop_dead_letters::redrive::RedriveError),
}
