//! The hosts that the page shows: this one, and those that `fleet` of its configuration names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arc_swap::ArcSwap;
use backstop_core::lock::lock;
use backstop_core::text::chain;
use futures_util::future::join_all;
use serde::de::DeserializeOwned;
use serde_json::Value;
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

/// What the page calls the host that serves it.
const THIS: &str = "this host";

/// The hosts.
pub(super) struct Fleet {
    interface: Arc<Interface>,
    urls: Vec<String>,
    token: Option<Arc<ArcSwap<Token>>>,
    known: Mutex<Option<(Instant, Arc<Found>)>>,
    fresh: Mutex<HashMap<String, Kept>>,
}

/// The other hosts, and the URLs at which none was found.
#[derive(Debug, Default)]
struct Found {
    others: Vec<Host>,
    missing: Vec<Missing>,
}

/// A host that does not answer, or a URL at which there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) host: String,
    pub(super) why: String,
}

/// The answers of all hosts to a question, and since when.
type Kept = (Instant, Arc<Vec<Answered>>);

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

    /// The answers of all hosts to `GET` of this path. Each was made in the last two seconds.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        by: &Caller,
        path: &str,
        query: &[(&str, &str)],
    ) -> Answers<T> {
        let found = self.found().await;
        let asked = format!("{path} {query:?}");
        let answered = match self.kept(&asked) {
            Some(answered) => answered,
            None => {
                let answered = Arc::new(self.ask(&found, by, path, query).await);
                self.keep(asked, &answered);
                answered
            }
        };
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
        path: &str,
        body: impl Fn(&str) -> Option<Value>,
    ) -> Vec<DoneAt> {
        lock(&self.fresh).clear();
        let status: Answers<HostStatus> = self.get(by, "/v1/status", &[]).await;
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
            let parts: Vec<_> = path.split('/').filter(|it| !it.is_empty()).collect();
            let answer = other
                .post_by::<Value>(&parts, &body, &by.for_others())
                .await;
            Some(DoneAt {
                host: other.name().to_owned(),
                id,
                answer: answer.map_err(|error| chain(&error)),
            })
        });
        let (own, others) = tokio::join!(own, join_all(others));
        lock(&self.fresh).clear();
        own.into_iter()
            .chain(others.into_iter().flatten())
            .collect()
    }

    async fn ask(
        &self,
        found: &Found,
        by: &Caller,
        path: &str,
        query: &[(&str, &str)],
    ) -> Vec<Answered> {
        let own = async {
            let host = THIS.to_owned();
            let answer = self.own(by, path, query, None).await;
            Answered { host, answer }
        };
        let others = found.others.iter().map(async |other| {
            let parts: Vec<_> = path.split('/').filter(|it| !it.is_empty()).collect();
            let answer = timeout(ANSWER, other.get::<Value>(&parts, query)).await;
            Answered {
                host: other.name().to_owned(),
                answer: match answer {
                    Ok(answer) => answer.map_err(|error| chain(&error)),
                    Err(_) => Err(format!("it has not answered within {ANSWER:?}")),
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
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let owned = |text: &&str| (*text).to_owned();
        let query = query
            .iter()
            .map(|(name, value)| (owned(name), owned(value)));
        let call = Call::of_page(by.clone(), query.collect(), body);
        run::at(&self.interface, path, call).await
    }

    fn kept(&self, asked: &str) -> Option<Arc<Vec<Answered>>> {
        let fresh = lock(&self.fresh);
        let (at, answered) = fresh.get(asked)?;
        (at.elapsed() < FRESH_FOR).then(|| Arc::clone(answered))
    }

    fn keep(&self, asked: String, answered: &Arc<Vec<Answered>>) {
        let mut fresh = lock(&self.fresh);
        fresh.retain(|_, (at, _)| at.elapsed() < FRESH_FOR);
        if fresh.len() < QUESTIONS {
            fresh.insert(asked, (Instant::now(), Arc::clone(answered)));
        }
    }

    /// The other hosts. One at an address of this host is this one, and not another.
    async fn found(&self) -> Arc<Found> {
        if let Some((at, found)) = &*lock(&self.known)
            && at.elapsed() < KNOWN_FOR
        {
            return Arc::clone(found);
        }
        let token = self
            .token
            .as_ref()
            .map(|token| token.load().as_ref().clone());
        let looked_up = self.urls.iter().map(|url| Host::all_at(url, token.clone()));
        let mut found = Found::default();
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
                    seen.extend(id.filter(|it| !it.is_empty()));
                    found.others.push(host);
                }
            }
        }
        let found = Arc::new(found);
        *lock(&self.known) = Some((Instant::now(), Arc::clone(&found)));
        found
    }
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
