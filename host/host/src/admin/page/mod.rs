//! The page: what an operator sees and does in a browser, at the address of the admin interface. It asks the same questions as the commands do, and sends the same actions: it has no way of its own to the queues.
//!
//! Each view is HTML that is made here, complete without a script, at an address that can be shared. The script replaces the parts that change every few seconds, and sends actions. Everything that is shown is escaped; the browser runs and loads nothing but the files of this folder.

mod act;
mod audit;
mod chart;
mod fleet;
mod history;
mod layout;
mod letter;
mod letters;
mod message;
mod overview;
mod policies;
mod reconsider;
mod redrive;
mod redrives;
mod respond;
mod served;
mod session;
mod shadow;
mod story;
mod text;
mod view;
mod views;
mod waiting;
mod wake;
mod what_if;

use std::sync::Arc;

use arc_swap::ArcSwap;
use backstop_core::clock;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use self::fleet::Fleet;
use self::respond::{html, picture, with_cookie, with_type};
use self::session::Session;
use self::view::View;
use super::answer::{self, Answer, Refused};
use super::call::{self, Call};
use super::caller::Caller;
use super::guard::{Guard, Role};
use super::interface::Interface;
use super::proxy::Identity;
use super::token::Token;
use crate::http_server::{FullResponse, Peer};

/// The files that the browser loads, with their paths and types. They are no secret, so they need no token.
const FILES: [(&str, &str, &str); 3] = [
    (
        "/page/style.css",
        "text/css; charset=utf-8",
        include_str!("style.css"),
    ),
    (
        "/page/script.js",
        "text/javascript; charset=utf-8",
        include_str!("script.js"),
    ),
    ("/page/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

/// The most requests to the page at the same time: a host that hangs must not take the connections of probes.
const PLACES: usize = 16;

/// The page of a host.
#[derive(Debug)]
pub(super) struct Page {
    guard: Arc<Guard>,
    fleet: Fleet,
    interface: Arc<Interface>,
    /// Signs sessions if no token is needed.
    own: Token,
    /// The name of its cookie.
    cookie: String,
    /// How many requests are answered at the same time.
    places: Semaphore,
}

/// The type of a file that is sent.
const FILE: &str = "application/wasm";

/// What somebody says who wants to act.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    name: String,
    #[serde(default)]
    token: String,
}

impl Page {
    /// The page of the host with this interface, whose fleet is at these URLs and has this token.
    pub(super) fn new(
        interface: &Arc<Interface>,
        guard: Arc<Guard>,
        urls: Vec<String>,
        token: Option<Arc<ArcSwap<Token>>>,
    ) -> Self {
        let cookie = if guard.tokens().is_empty() {
            format!("{}-{}", session::NAME, interface.id)
        } else {
            session::NAME.to_owned()
        };
        Self {
            cookie,
            places: Semaphore::new(PLACES),
            guard,
            fleet: Fleet::new(Arc::clone(interface), urls, token),
            interface: Arc::clone(interface),
            own: Token::random(),
        }
    }

    /// Whether a path is one of the page.
    pub(super) fn has(path: &str) -> bool {
        path.starts_with("/page/") || views::has(path)
    }

    /// Answers a request to one of its paths.
    pub(super) async fn answer(&self, parts: &Parts, body: Incoming, peer: Peer) -> FullResponse {
        let mut caller = Caller::of(peer, &HeaderMap::new());
        // No link opens what asks every host to count.
        let admitted = if views::is_preview(parts.uri.path()) {
            self.guard.site(parts)
        } else {
            self.guard.page(parts)
        };
        let named = admitted.and_then(|()| self.guard.proxied(peer, &parts.headers));
        let answered = match named {
            Ok(named) => {
                if let Some(named) = &named {
                    caller = named.caller(peer, &parts.headers);
                }
                self.answered(parts, body, &caller, named).await
            }
            Err(refused) => Err(refused),
        };
        answered.unwrap_or_else(|refused| {
            self.guard.refused(&caller, &refused);
            answer::response(Err(refused))
        })
    }

    async fn answered(
        &self,
        parts: &Parts,
        body: Incoming,
        caller: &Caller,
        named: Option<Identity>,
    ) -> Result<FullResponse, Refused> {
        let path = parts.uri.path();
        let is_read = [Method::GET, Method::HEAD].contains(&parts.method);
        if let Some((_, kind, text)) = FILES.iter().find(|(file, ..)| *file == path) {
            return Ok(with_type(kind, (*text).to_owned()));
        }
        let _place = self.places.try_acquire().map_err(|_| {
            Refused::unavailable("too many people look at the page at the same time: try again")
        })?;
        let sessions = self.sessions();
        // Whom the proxy names needs no cookie, and none counts.
        let session = match named.and_then(Session::by_proxy) {
            Some(session) => Some(session),
            None => session::of(&self.cookie, &parts.headers, &sessions, clock::now()),
        };
        if is_read {
            return Ok(self.read(parts, caller, session).await);
        }
        if parts.method != Method::POST {
            return Err(Refused::method("GET, HEAD, POST"));
        }
        if path == "/page/upload" {
            return self.upload(parts, body, session).await;
        }
        self.guard.content(&parts.headers)?;
        let call = Call::of_body(caller.clone(), call::read_body(body).await?);
        match path {
            "/page/sign-in" if session.as_ref().is_some_and(|it| it.is_by_proxy) => Err(
                Refused::conflict("the proxy has signed you in: sign out there to be another one"),
            ),
            "/page/sign-in" => self.sign_in(&call),
            "/page/sign-out" => Ok(with_cookie(&session::no_cookie(&self.cookie))),
            "/page/what-if" => {
                let session = acting(session)?;
                let by = by_session(caller, &session);
                let asked = what_if::ask(&self.interface, &by, &call)?;
                tracing::info!(%by, "asked what another policy would do");
                Ok(answer::response(Answer::json(&asked)))
            }
            "/page/act" => {
                let session = acting(session)?;
                let by = by_session(caller, &session);
                let done = act::act(&self.fleet, &by, &call).await?;
                Ok(answer::response(Answer::json(&done)))
            }
            _ => Err(Refused::not_found("there is no such path of the page")),
        }
    }

    /// A view, or the form to sign in.
    async fn read(&self, parts: &Parts, caller: &Caller, session: Option<Session>) -> FullResponse {
        let path = parts.uri.path();
        let is_by_proxy = session.as_ref().is_some_and(|it| it.is_by_proxy);
        let role = self.guard.token(&parts.headers);
        let may_look = session.is_some() || role.is_ok();
        if !may_look || (path == "/page/sign-in" && !is_by_proxy) {
            let needs_token = !self.guard.tokens().is_empty();
            let status = if may_look {
                StatusCode::OK
            } else {
                StatusCode::UNAUTHORIZED
            };
            let mut form = html(layout::sign_in(needs_token, session.as_ref()), status);
            if !may_look {
                // Who opens the page without a token is to sign in. Who has a wrong one is counted.
                if let (Err(refused), true) = (&role, parts.headers.contains_key(AUTHORIZATION)) {
                    self.guard.refused(caller, refused);
                }
                let bearer = HeaderValue::from_static("Bearer");
                form.headers_mut().insert(WWW_AUTHENTICATE, bearer);
            }
            return form;
        }
        let role = match &session {
            Some(session) if is_by_proxy => session.role,
            signed_in => {
                let signed_in = signed_in.as_ref().map(|session| session.role);
                signed_in.max(role.ok()).unwrap_or(Role::View)
            }
        };
        let view = View {
            fleet: &self.fleet,
            by: match &session {
                Some(session) => by_session(caller, session),
                None => caller.clone(),
            }
            .who_may(role),
            session,
            query: Call::parse_query(parts.uri.query().unwrap_or_default()),
            now: clock::now(),
        };
        match path {
            "/page/chart" => self.chart(&view),
            _ => views::answer(path, &view, &self.interface).await,
        }
    }

    /// Keeps a file that somebody wants to try. Its type is none that a form of another site can send.
    async fn upload(
        &self,
        parts: &Parts,
        body: Incoming,
        session: Option<Session>,
    ) -> Result<FullResponse, Refused> {
        acting(session)?;
        let is_file = parts.headers.get(CONTENT_TYPE).is_some_and(|it| it == FILE);
        if !is_file {
            return Err(Refused::not_of_type(FILE));
        }
        let bytes = call::read_file(body, what_if::FILE_BYTES).await?;
        let query = Call::parse_query(parts.uri.query().unwrap_or_default());
        let name = query.iter().find(|(name, _)| name == "name");
        let name = name.map_or("a file", |(_, name)| name);
        let file = self.interface.what_ifs().keep(name, bytes.to_vec());
        Ok(answer::response(Answer::json(&json!({ "file": file }))))
    }

    /// The picture of what another policy would do.
    fn chart(&self, view: &View<'_>) -> FullResponse {
        let id = view.value("question").unwrap_or_default();
        match what_if::chart(&self.interface, id) {
            Some(svg) => picture(svg),
            None => answer::response(Err(Refused::not_found("there is no such picture"))),
        }
    }

    /// The tokens that sign sessions.
    fn sessions(&self) -> Vec<(Role, Token)> {
        let tokens = self.guard.tokens();
        if tokens.is_empty() {
            vec![(Role::Act, self.own.clone())]
        } else {
            tokens
        }
    }

    fn sign_in(&self, call: &Call) -> Result<FullResponse, Refused> {
        let SignIn { name, token } = call.json()?;
        let name = session::name(&name);
        if name.is_empty() {
            return Err(Refused::invalid(
                "expected your name: it is logged with what you do",
            ));
        }
        let role = if self.guard.tokens().is_empty() {
            Some(Role::Act)
        } else {
            self.guard.role_of(token.trim().as_bytes())
        };
        let role = role.ok_or_else(|| Refused::unauthorized("this is not a token of this host"))?;
        let sessions = self.sessions();
        let signing = sessions.iter().find(|(of, _)| *of == role);
        let (_, signing) = signing.ok_or_else(|| Refused::unauthorized("the token has changed"))?;
        let session = Session {
            name,
            role,
            is_by_proxy: false,
        };
        let cookie = session::cookie(&self.cookie, &session, signing, clock::now());
        Ok(with_cookie(&cookie))
    }
}

/// Somebody who may act, and has a name.
fn acting(session: Option<Session>) -> Result<Session, Refused> {
    let session =
        session.ok_or_else(|| Refused::unauthorized("sign in first: every action has a name"))?;
    Refused::unless(session.role, Role::Act)?;
    Ok(session)
}

/// Somebody who has signed in, as the sender of what they do.
fn by_session(caller: &Caller, session: &Session) -> Caller {
    let named = caller.clone();
    let named = if session.is_by_proxy {
        named
    } else {
        named.named(&session.name)
    };
    named.who_may(session.role)
}
