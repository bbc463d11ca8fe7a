//! From a request to the route that answers it.

use std::sync::Arc;

use backstop_core::text::one_line;
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request};

use super::answer::{self, Refused};
use super::call::{self, Call};
use super::caller::Caller;
use super::guard::Guard;
use super::interface::Interface;
use super::page::Page;
use super::proxy::Identity;
use super::route::{Route, Verb};
use super::routes::ROUTES;
use super::run::act;
use crate::config::AdminRole;
use crate::http_server::{App, FullResponse, Peer};

/// Answers the requests of this machine's commands: there is no guard, and no page.
pub(super) fn local(interface: Arc<Interface>) -> App {
    Arc::new(move |request, peer| Box::pin(handle(Arc::clone(&interface), None, request, peer)))
}

/// Answers the requests that the guard lets pass, and those to the page.
pub(super) fn app(interface: Arc<Interface>, guard: Arc<Guard>, page: Page) -> App {
    let page = Arc::new(page);
    Arc::new(move |request, peer| {
        let (interface, guard, page) = (
            Arc::clone(&interface),
            Arc::clone(&guard),
            Arc::clone(&page),
        );
        Box::pin(async move {
            if !Page::has(request.uri().path()) {
                return handle(interface, Some(guard), request, peer).await;
            }
            let (parts, body) = request.into_parts();
            page.answer(&parts, body, peer).await
        })
    })
}

async fn handle(
    interface: Arc<Interface>,
    guard: Option<Arc<Guard>>,
    request: Request<Incoming>,
    peer: Peer,
) -> FullResponse {
    let (parts, body) = request.into_parts();
    let guard = guard.as_deref();
    let admitted = guard.map_or(Ok(()), |guard| guard.site(&parts));
    let found = admitted.and_then(|()| {
        let who = || match guard {
            Some(guard) => guard.identity(peer, &parts.headers),
            None => Ok(Identity::unnamed(AdminRole::Act)),
        };
        let found = find(&parts.method, parts.uri.path(), who)?;
        if let (Some(guard), Verb::Action) = (guard, found.route.verb) {
            guard.content(&parts.headers)?;
        }
        Ok(found)
    });
    let Found {
        route,
        variable,
        who,
    } = match found {
        Ok(found) => found,
        Err(refused) => {
            let caller = Caller::of(peer, &parts.headers);
            tracing::debug!(by = %caller, "a request to the admin interface is refused: {refused}");
            if let Some(guard) = guard {
                guard.refused(&caller, &refused);
            }
            return answer::response(Err(refused));
        }
    };
    let mut call = Call {
        caller: who.caller(peer, &parts.headers),
        variable,
        query: Call::parse_query(parts.uri.query().unwrap_or_default()),
        body: Bytes::new(),
    };
    let answered = match route.verb {
        Verb::Probe | Verb::Read => (route.run)(interface, call).await,
        Verb::Action => match call::read_body(body).await {
            Ok(body) => {
                call.body = body;
                act(route, interface, call).await
            }
            Err(refused) => Err(refused),
        },
    };
    answer::response(answered)
}

/// A route, the variable part of its path, and who asks for it.
struct Found {
    route: &'static Route,
    variable: String,
    who: Identity,
}

/// The route of a method and path, if the token is right or not needed, and good for it.
fn find(
    method: &Method,
    path: &str,
    who: impl FnOnce() -> Result<Identity, Refused>,
) -> Result<Found, Refused> {
    let at_path = || {
        ROUTES
            .iter()
            .filter_map(|route| route.variable(path).map(|variable| (route, variable)))
    };
    let is_open = at_path().any(|(route, _)| route.verb == Verb::Probe);
    let who = if is_open {
        Identity::unnamed(AdminRole::View)
    } else {
        who()?
    };
    let Some((first, _)) = at_path().next() else {
        return Err(Refused::not_found(format!(
            "there is no path {}: host/docs/operate/admin.md lists them",
            one_line(path)
        )));
    };
    let found = at_path().find(|(route, _)| route.verb.accepts(method));
    let (route, variable) = found.ok_or_else(|| Refused::method(first.verb.allowed()))?;
    route.admit(who.role)?;
    Ok(Found {
        route,
        variable,
        who,
    })
}
