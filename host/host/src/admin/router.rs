//! From a request to the route that answers it.

use std::sync::Arc;

use backstop_core::text::{cut, one_line};
use hyper::body::{Bytes, Incoming};
use hyper::{Method, Request};

use super::answer::{self, Answer, Refused};
use super::call::{self, Call};
use super::caller::Caller;
use super::guard::Guard;
use super::interface::Interface;
use super::route::{Route, Verb};
use super::routes::ROUTES;
use crate::http_server::{App, FullResponse, Peer};

/// The most bytes of an action's body that are logged.
const LOGGED_BYTES: usize = 1_000;

/// Answers the requests to an interface that the guard, if there is one, lets pass.
pub(super) fn app(interface: Arc<Interface>, guard: Option<Guard>) -> App {
    let guard = guard.map(Arc::new);
    Arc::new(move |request, peer| {
        let (interface, guard) = (Arc::clone(&interface), guard.clone());
        Box::pin(handle(interface, guard, request, peer))
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
        let (route, variable) = find(&parts.method, parts.uri.path(), guard, &parts.headers)?;
        if let (Some(guard), Verb::Action) = (guard, route.verb) {
            guard.content(&parts.headers)?;
        }
        Ok((route, variable))
    });
    let (route, variable) = match found {
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
        caller: Caller::of(peer, &parts.headers),
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

/// The route of a method and path, if the token is right or not needed.
fn find(
    method: &Method,
    path: &str,
    guard: Option<&Guard>,
    headers: &hyper::HeaderMap,
) -> Result<(&'static Route, String), Refused> {
    let at_path = || {
        ROUTES
            .iter()
            .filter_map(|route| route.variable(path).map(|variable| (route, variable)))
    };
    let is_open = at_path().any(|(route, _)| route.verb == Verb::Probe);
    if let Some(guard) = guard
        && !is_open
    {
        guard.token(headers)?;
    }
    let Some((first, _)) = at_path().next() else {
        return Err(Refused::not_found(format!(
            "there is no path {}: host/docs/admin.md lists them",
            one_line(path)
        )));
    };
    at_path()
        .find(|(route, _)| route.verb.accepts(method))
        .ok_or_else(|| Refused::method(first.verb.allowed()))
}

/// Runs an action, and logs who asked for what, and its result. It runs to its end even if the client leaves.
async fn act(
    route: &'static Route,
    interface: Arc<Interface>,
    call: Call,
) -> Result<Answer, Refused> {
    let action = route.path;
    let by = call.caller.to_string();
    let mut request = String::from_utf8_lossy(&call.body).into_owned();
    cut(&mut request, LOGGED_BYTES);
    let request = one_line(&request);
    let running = tokio::spawn(async move {
        let answered = match interface.action() {
            Ok(_permit) => match call.expect_only(&[]) {
                Ok(()) => (route.run)(interface, call).await,
                Err(refused) => Err(refused),
            },
            Err(busy) => Err(busy),
        };
        match &answered {
            Ok(Answer { result, .. }) => {
                tracing::info!(
                    action,
                    by,
                    request,
                    result,
                    "an operator's request was carried out"
                );
            }
            Err(refused) => {
                tracing::warn!(
                    action,
                    by,
                    request,
                    "an operator's request was refused: {refused}"
                );
            }
        }
        answered
    });
    running
        .await
        .unwrap_or_else(|error| Err(Refused::internal(error)))
}
