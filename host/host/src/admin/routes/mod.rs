//! The routes: one module for each, with its answer, and the table of all of them.

mod drain;
mod health;
mod history;
mod letter;
mod letters;
mod metrics;
mod pause;
mod reconsider;
mod redrives;
mod rollback;
mod status;
mod story;
mod waiting;
mod wake;

use super::route::{Route, Verb};

pub use history::{HostAudit, HostHistory};
pub use letter::HostLetter;
pub use letters::{HostLetters, LettersReading, QueueLetters};
pub use pause::Resumed;
pub use reconsider::in_requests;
pub use redrives::{HostRedrive, HostRedrives};
pub use status::{HostStatus, QueueStatus, ShadowStatus};
pub use story::HostStory;
pub use waiting::{HostMessages, HostWaiting, QueueReach};
pub use wake::HostAnswer;

/// Makes [`ROUTES`] from a table: what a route means, its verb and its path; what it takes, which is the query or the name of the body; `for Bodies` if its answer has bodies of messages; the name of its answer; and the function that answers. The names are those of the definitions in `admin.schema.json`.
macro_rules! routes {
    ($($(#[doc = $meaning:literal])+ $verb:ident $path:literal $(($takes:literal))? $(for $role:ident)? -> $answer:literal = $run:path;)*) => {
        /// All routes, in the order of the documentation.
        pub const ROUTES: &[Route] = &[$(Route {
            verb: Verb::$verb,
            path: $path,
            takes: concat!($($takes)?),
            answer: $answer,
            meaning: concat!($($meaning),+).trim_ascii_start(),
            needs: [$(Some(crate::config::AdminRole::$role),)? None][0],
            run: |host, call| Box::pin($run(host, call)),
        },)*];
    };
}

routes! {
    /// the process answers; restart it if it does not
    Probe "/livez" -> "live" = health::live;

    /// status 200 if all queues are checked and polled and the host is not stopping, else 503 and the reasons. A queue that an operator or a maintenance window has paused is ready, and named under `paused`
    Probe "/readyz" -> "ready" = health::ready;

    /// the [metrics](metrics.md), as at the address of `metrics`
    Read "/metrics" -> "text" = metrics::metrics;

    /// how the queues are served, and the versions of their policies
    Read "/v1/status" -> "status" = status::status;

    /// [pauses](operating.md#pausing-a-queue) a queue, until it is resumed or `for` a time
    Action "/v1/pause" ("pause") -> "paused" = pause::pause;

    /// ends a pause, and the maintenance window that is open; the messages in flight then grow over `ramp`
    Action "/v1/resume" ("resume") -> "resumed" = pause::resume;

    /// changes the `rate` (`"none"` for no limit) or the `max-in-flight` of a queue, until the host ends or its configuration changes this key
    Action "/v1/set" ("set") -> "limits" = pause::set;

    /// stops the host as SIGTERM does, and answers what it has in hand
    Action "/v1/drain" ("drain") -> "status" = drain::drain;

    /// rolls the policies of the named `queues`, or of all without `queues`, back to their previous versions. Nothing is rolled back if the host does not serve one of the queues, or if another queue shares one of the policies and `shared` does not say that it is meant. `from` is the digest that has to be active
    Action "/v1/rollback" ("rollback") -> "status" = rollback::roll_back;

    /// what the host did in each of the last `minutes`, 1 to 1440 (180 without it): for each queue a list for each number, the oldest first, and the versions that became active. It begins with the start of the host
    Read "/v1/history" ("?minutes=…") -> "history" = history::history;

    /// what operators asked the host for since its start: the last 500 actions, with who asked and what came of it
    Read "/v1/audit" -> "audit" = history::audit;

    /// what [waits](waiting.md) in the named queues, or in all. The filters `code`, `class`, `attempt`, `id`, `group` (each may be repeated) `due-after` and `failed-until` (milliseconds since 1970) choose among the messages; `reach=no` does without the queue's own count of invisible messages, which is a request to SQS; in a code and a class, `*` stands for any text
    Read "/v1/waiting" ("?queue=…") -> "waiting" = waiting::waiting;

    /// what the host remembers of one message
    Read "/v1/messages/{}" -> "messages" = waiting::message;

    /// the life of one message, as the decision records and the runs of this host tell it: what `backstop why` reads
    Read "/v1/story/{}" -> "story" = story::story;

    /// makes waiting messages of a queue visible sooner: those that match `filter`, or all with `"all": true`. An empty filter chooses nothing and is refused
    Action "/v1/wake" ("wake") -> "woken" = wake::wake;

    /// passes the waiting messages of a queue to the active version of its policy, and makes those visible sooner for which it says so. With `failed-until` and `digests` of a dry run's answer (`as-of` and `digests`), these messages and this version only: it is refused with status 409 if another version is active by now
    Action "/v1/reconsider" ("reconsider") -> "reconsidered" = reconsider::reconsider;

    /// takes the new times of messages that are sent again from another host, which listed them in its answer to `/v1/reconsider`
    Action "/v1/earlier" ("earlier") -> "taken" = reconsider::take;

    /// what the last [survey](page.md#dead-letters) of the dead letters of the named queues has found, or of all, grouped by `grouped-by`: `cause` (without it), `policy`, `fingerprint`, `origin`, `source`, `value`, `answer` or `queue`. It receives nothing
    Read "/v1/dead-letters" ("?queue=…&grouped-by=…") -> "letters" = letters::letters;

    /// the letters with this id, in the dead-letter queue or of the message, of which a survey has kept the body: three of each cause, 300 in all
    Read "/v1/dead-letters/{}" for Bodies -> "letter" = letter::letter;

    /// begins a survey of the dead letters of a queue: every letter is received once, and visible again at its end. It goes on after the answer
    Action "/v1/survey" ("survey") -> "begun" = letters::survey;

    /// the newest 50 [runs](redrive.md) in the host's place of runs, and what those do that this host carries out
    Read "/v1/redrives" -> "redrives" = redrives::redrives;

    /// one run, with the letters that were refused, failed again or may have arrived twice
    Read "/v1/redrives/{}" -> "redrive-detail" = redrives::redrive;

    /// starts a run that moves the chosen letters of a survey back to their queue, and no others. Refused if there is another survey by now, or if another run moves letters of the dead-letter queue
    Action "/v1/redrive" ("redrive") -> "redriven" = redrives::start;

    /// stops a run that this host carries out, after the batches under way
    Action "/v1/redrive/stop" ("run") -> "run-answer" = redrives::stop;

    /// goes on with a run of one of the host's dead-letter queues
    Action "/v1/redrive/resume" ("run") -> "run-answer" = redrives::resume;
}
