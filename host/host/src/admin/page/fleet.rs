//! The hosts that the page shows: this one, and those that `fleet` of its configuration names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use backstop_core::lock::lock;
use backstop_core::text::chain;
use futures_util::future::join_all;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout};

use crate::admin::call::Call;
use crate::admin::caller::Caller;
use crate::admin::client::{ClientError, Host};
use crate::admin::interface::Interface;
use crate::admin::routes::HostStatus;
use crate::admin::run;
use crate::admin::token::Token;

/// How long the list of hosts is good. Then names are looked up again.
const KNOWN_FOR: Duration = Duration::from_secs(30);

/// How long an answer is good: several people who look at the page cost the hosts no more than one.
const FRESH_FOR: Duration = Duration::from_secs(2);

/// How long a host may take to answer a question of the page.
const ANSWER: Duration = Duration::from_secs(5);

/// The most questions whose answers are kept.
const QUESTIONS: usize = 32;

/// What is escaped in a part of a path: the names of routes are as they are.
const PART: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-');

/// The path of a host's status.
pub(super) const STATUS: [&str; 2] = ["v1", "status"];

/// What the page calls the host that serves it.
pub(super) const THIS: &str = "this host";

/// The hosts.
pub(super) struct Fleet {
    interface: Arc<Interface>,
    urls: Vec<String>,
    token: Option<Arc<ArcSwap<Token>>>,
    known: Mutex<Option<KnownHosts>>,
    fresh: Mutex<HashMap<String, Kept>>,
}

/// The other hosts, and the URLs at which none was found.
#[derive(Debug, Default)]
struct Found {
    others: Vec<Host>,
    missing: Vec<Missing>,
    /// Whether each has said which one it is.
    are_all_known: bool,
}

/// A host that does not answer, or a URL at which there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) host: String,
    pub(super) why: String,
}

/// The answers of all hosts to a question, and when it was asked first.
type Kept = (Instant, Arc<OnceCell<Arc<Vec<Answered>>>>);

/// The hosts, and when they were looked up.
type KnownHosts = (Instant, Arc<OnceCell<Arc<Found>>>);

/// What one host answered.
#[derive(Debug, Clone)]
struct Answered {
    host: String,
    answer: Result<Value, String>,
}

/// What hosts answered, and those that did not.
#[derive(Debug)]
pub(super) struct Answers<T> {
    pub(super) of: Vec<(String, T)>,
    pub(super) missing: Vec<Missing>,
}

/// What a host did, or why it did not.
#[derive(Debug)]
pub(super) struct DoneAt {
    pub(super) host: String,
    pub(super) id: String,
    pub(super) answer: Result<Value, String>,
}

impl Fleet {
    pub(super) fn new(
        interface: Arc<Interface>,
        urls: Vec<String>,
        token: Option<Arc<ArcSwap<Token>>>,
    ) -> Self {
        Self {
            interface,
            urls,
            token,
            known: Mutex::default(),
            fresh: Mutex::default(),
        }
    }

    /// Whether the configuration names other hosts.
    pub(super) fn is_named(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Forgets which hosts there are, and what they have answered: an action goes by what is true now.
    pub(super) fn forget(&self) {
        lock(&self.fresh).clear();
        *lock(&self.known) = None;
    }

    /// The answers of all hosts to `GET` of the path of these parts. Each was asked for in the last two seconds.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        by: &Caller,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Answers<T> {
        // Answers are kept for everybody who asks the same: also for those who may see less.
        if let Err(refused) = run::may_ask(&joined(path), by.role()) {
            return Answers {
                of: Vec::new(),
                missing: vec![Missing {
                    host: THIS.to_owned(),
                    why: refused.to_string(),
                }],
            };
        }
        let found = self.found().await;
        let cell = self.answers(&format!("{path:?} {query:?}"));
        let asked = async || Arc::new(self.ask(&found, by, path, query).await);
        let answered = cell.get_or_init(asked).await;
        let mut answers = Answers {
            of: Vec::new(),
            missing: found.missing.clone(),
        };
        for Answered { host, answer } in answered.iter() {
            let read = answer
                .clone()
                .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()));
            let host = host.clone();
            match read {
                Ok(value) => answers.of.push((host, value)),
                Err(why) => answers.missing.push(Missing { host, why }),
            }
        }
        answers
    }

    /// Sends each host its own body: `body` makes it from the [id](id) of the host, or none if it is not meant.
    pub(super) async fn post(
        &self,
        by: &Caller,
        path: &[&str],
        body: impl Fn(&str) -> Option<Value>,
    ) -> Vec<DoneAt> {
        if let Err(refused) = run::may_ask(&joined(path), by.role()) {
            return vec![DoneAt {
                host: THIS.to_owned(),
                id: String::new(),
                answer: Err(refused.to_string()),
            }];
        }
        let status: Answers<HostStatus> = self.get(by, &STATUS, &[]).await;
        let ids = status.of.into_iter().map(|(host, status)| {
            let id = id(&host, &status);
            (host, id)
        });
        let ids: HashMap<_, _> = ids.collect();
        let found = self.found().await;
        let meant = |host: &str| {
            let id = ids.get(host)?;
            Some((id.clone(), body(id)?))
        };
        let own = async {
            let (id, body) = meant(THIS)?;
            let answer = self.own(by, path, &[], Some(&body)).await;
            let host = THIS.to_owned();
            Some(DoneAt { host, id, answer })
        };
        let others = found.others.iter().map(async |other| {
            let (id, body) = meant(other.name())?;
            let answer = other.post_by::<Value>(path, &body, &by.for_others()).await;
            Some(DoneAt {
                host: other.name().to_owned(),
                id,
                answer: answer.map_err(|error| chain(&error)),
            })
        });
        let (own, others) = tokio::join!(own, join_all(others));
        self.forget();
        own.into_iter()
            .chain(others.into_iter().flatten())
            .collect()
    }

    async fn ask(
        &self,
        found: &Found,
        by: &Caller,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Vec<Answered> {
        let own = async {
            let host = THIS.to_owned();
            let answer = timeout(ANSWER, self.own(by, path, query, None)).await;
            let answer = answer.unwrap_or_else(|_| Err(too_slow()));
            Answered { host, answer }
        };
        let others = found.others.iter().map(async |other| {
            let answer = timeout(ANSWER, other.get::<Value>(path, query)).await;
            Answered {
                host: other.name().to_owned(),
                answer: match answer {
                    Ok(answer) => answer.map_err(|error| chain(&error)),
                    Err(_) => Err(too_slow()),
                },
            }
        });
        let (own, others) = tokio::join!(own, join_all(others));
        std::iter::once(own).chain(others).collect()
    }

    /// The answer of this host.
    async fn own(
        &self,
        by: &Caller,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let owned = |text: &&str| (*text).to_owned();
        let query = query
            .iter()
            .map(|(name, value)| (owned(name), owned(value)));
        let call = Call::of_page(by.clone(), query.collect(), body);
        run::at(&self.interface, &joined(path), call).await
    }

    /// Where the answers to a question are, or come to. Who asks the same meanwhile waits for them.
    fn answers(&self, asked: &str) -> Arc<OnceCell<Arc<Vec<Answered>>>> {
        let mut fresh = lock(&self.fresh);
        fresh.retain(|_, (at, _)| at.elapsed() < FRESH_FOR);
        if let Some((_, cell)) = fresh.get(asked) {
            return Arc::clone(cell);
        }
        let cell = Arc::<OnceCell<_>>::default();
        if fresh.len() < QUESTIONS {
            fresh.insert(asked.to_owned(), (Instant::now(), Arc::clone(&cell)));
        }
        cell
    }

    /// The other hosts. One at an address of this host is this one, and not another.
    async fn found(&self) -> Arc<Found> {
        let cell = {
            let mut known = lock(&self.known);
            let is_good = |(at, cell): &&KnownHosts| {
                let good_for = match cell.get() {
                    Some(found) if !found.are_all_known => FRESH_FOR,
                    Some(_) | None => KNOWN_FOR,
                };
                at.elapsed() < good_for
            };
            match known.as_ref().filter(is_good) {
                Some((_, cell)) => Arc::clone(cell),
                None => {
                    let cell = Arc::<OnceCell<_>>::default();
                    *known = Some((Instant::now(), Arc::clone(&cell)));
                    cell
                }
            }
        };
        let found = cell.get_or_init(async || Arc::new(self.look_up().await));
        Arc::clone(found.await)
    }

    async fn look_up(&self) -> Found {
        let token = self.token.as_ref();
        let token = token.map(|token| token.load().as_ref().clone());
        let looked_up = self.urls.iter().map(|url| Host::all_at(url, token.clone()));
        let mut found = Found {
            are_all_known: true,
            ..Found::default()
        };
        let mut hosts = Vec::new();
        for (url, looked_up) in self.urls.iter().zip(join_all(looked_up).await) {
            match looked_up {
                Ok(some) => hosts.extend(some),
                Err(error) => found.missing.push(Missing {
                    host: url.clone(),
                    why: chain(&error),
                }),
            }
        }
        let ids = hosts.iter().map(async |host| {
            let status = timeout(ANSWER, host.get::<HostStatus>(&["v1", "status"], &[])).await;
            status
                .ok()
                .and_then(Result::<_, ClientError>::ok)
                .map(|it| it.host)
        });
        let ids = join_all(ids).await;
        let mut seen = vec![self.interface.id.clone()];
        for (host, id) in hosts.into_iter().zip(ids) {
            match id {
                Some(id) if seen.contains(&id) => {}
                id => {
                    // It may be this host, which is starting.
                    found.are_all_known &= id.is_some();
                    seen.extend(id.filter(|it| !it.is_empty()));
                    found.others.push(host);
                }
            }
        }
        found
    }
}

fn too_slow() -> String {
    format!("it has not answered within {ANSWER:?}")
}

/// `/v1/messages/ID` of its parts.
fn joined(parts: &[&str]) -> String {
    let parts = parts
        .iter()
        .map(|part| format!("/{}", utf8_percent_encode(part, PART)));
    parts.collect()
}

/// The hosts that have not answered one of several questions, each once.
pub(super) fn all_missing(parts: impl IntoIterator<Item = Vec<Missing>>) -> Vec<Missing> {
    let mut missing = Vec::<Missing>::new();
    for one in parts.into_iter().flatten() {
        if missing.iter().all(|it| it.host != one.host) {
            missing.push(one);
        }
    }
    missing
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("urls", &self.urls).finish()
    }
}

/// What tells a host from the others: its own number, or its name if it is too old to have one.
pub(super) fn id(name: &str, status: &HostStatus) -> String {
    match status.host.as_str() {
        "" => name.to_owned(),
        id => id.to_owned(),
    }
}
