//! Dead letters: what died on a queue, why, and where it came from.
//!
//! A [`Letter`] is a message of a dead-letter queue and what is known of its death, whoever put it there ([`Origin`]). [`read`] receives letters without taking them from anybody for longer than the reading. [`Filters`] choose among them, [`Groups`] count them.
//!
//! ```
//! use backstop_queue::{Connections, Outgoing, Queue};
//! use tokio_util::sync::CancellationToken;
//! use backstop_dead_letters::{Filters, Pattern, ReadOptions, read};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dead = Connections::default().local.named("orders-dead");
//! dead.send(&[Outgoing::new("an order")]).await?;
//!
//! let filters = Filters { texts: vec!["order".to_owned()], ..Filters::default() };
//! let mut found = Vec::new();
//! let stop = CancellationToken::new();
//! let seen = read(dead.clone(), ReadOptions::default(), &stop, async |letter| {
//!     if filters.matches(&letter) {
//!         found.push(letter.message.id);
//!     }
//! })
//! .await?;
//! assert_eq!((seen.letters, found.len()), (1, 1));
//! // The letter can be received again.
//! assert_eq!(dead.describe().await?.visible, Some(1));
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! | module | content |
//! |---|---|
//! | `letter`, `origin` | what is known of a dead letter, by who put it into its queue |
//! | `fingerprint` | what similar letters have in common |
//! | `filter`, `group` | choosing and counting letters |
//! | `reader` | receiving letters, and making them visible again |
//! | `arrivals` | which letters were there when a reading began |
//! | `seen` | what was read of about how much |
//! | `requests` | requests that are tried again |
//! | `triage` | the failure of a letter, for another policy |
//! | `archive` | letters in files, and back |
//! | `json_lines` | files of lines, also of those that were cut off when their process was killed |
//! | [`redrive`] | letters back to where they come from |

mod archive;
mod arrivals;
mod filter;
mod fingerprint;
mod group;
mod json_lines;
mod letter;
mod origin;
mod reader;
pub mod redrive;
mod requests;
mod seen;
mod triage;

pub use archive::{
    ArchiveError, ArchiveFile, Archived, ArchivedLetter, ArchivedLetters, ArchivingError,
    BatchSize, InvalidLine, LINE_BYTES, Restored, Restoring, archive, restore,
};
pub use filter::{Filters, IdsError, Pattern, read_ids};
pub use fingerprint::Fingerprint;
pub use group::{By, Group, Groups};
pub use letter::{Letter, Source};
pub use origin::Origin;
pub use reader::{End, ReadError, ReadOptions, Reader, Seen, read};
pub use triage::{Attempts, Rebuilt, rebuild};
