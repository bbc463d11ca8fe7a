//! Runs a route, for a request and for the page. An action is logged and kept, whoever has asked for it.

use std::sync::Arc;

use backstop_core::clock;
use backstop_core::text::{cut, one_line};
use serde_json::Value;

use super::answer::{Answer, Refused};
use super::audit::Done;
use super::call::Call;
use super::caller::Caller;
use super::interface::Interface;
use super::route::{Route, Verb};
use super::routes::ROUTES;
use crate::config::AdminRole;

/// The most bytes of an action's body that are logged.
const LOGGED_BYTES: usize = 1_000;

impl Interface {
    /// What this host answers at a path to this process, as over HTTP: to an action with this body, or to a question without one.
    pub async fn answer(
        self: &Arc<Self>,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, String> {
        let call = Call::of_page(Caller::this_process(), Vec::new(), body);
        at(self, path, call).await
    }
}

/// The answer of this host at a path, as other hosts answer it over HTTP.
pub(super) async fn at(
    interface: &Arc<Interface>,
    path: &str,
    call: Call,
) -> Result<Value, String> {
    let interface = Arc::clone(interface);
    let found = ROUTES
        .iter()
        .find_map(|route| Some((route, route.variable(path)?)));
    let (route, variable) = found.ok_or_else(|| format!("there is no path {path}"))?;
    let call = Call { variable, ..call };
    let answered = match route.verb {
        Verb::Probe | Verb::Read => (route.run)(interface, call).await,
        Verb::Action => act(route, interface, call).await,
    };
    answered
        .map(Answer::into_json)
        .map_err(|refused| refused.to_string())
}

/// Refuses what somebody who looks at the page may not see, at any host. The page asks other hosts with its own token, which is good for everything, so the right is checked before: that to look when the page is opened, that to act where it acts.
pub(super) fn may_ask(path: &str, role: AdminRole) -> Result<(), Refused> {
    let mut found = ROUTES.iter().filter(|it| it.variable(path).is_some());
    let needed = found.find_map(|route| route.needs);
    needed.map_or(Ok(()), |needed| Refused::unless(role, needed))
}

/// Runs an action, and logs who asked for what, and its result. It runs to its end even if the client leaves.
pub(super) async fn act(
    route: &'static Route,
    interface: Arc<Interface>,
    call: Call,
) -> Result<Answer, Refused> {
    let action = route.path;
    let by = call.caller.to_string();
    let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
    // What only counts is no action.
    let is_dry = body.get("dry-run").is_some_and(|it| it == true);
    let mut request = String::from_utf8_lossy(&call.body).into_owned();
    cut(&mut request, LOGGED_BYTES);
    let request = one_line(&request);
    let running = tokio::spawn(async move {
        let permit = if is_dry {
            interface.preview()
        } else {
            interface.action()
        };
        let answered = match permit {
            Ok(_permit) => match call.expect_only(&[]) {
                Ok(()) => (route.run)(Arc::clone(&interface), call).await,
                Err(refused) => Err(refused),
            },
            Err(busy) => Err(busy),
        };
        let outcome = answered.as_ref();
        let outcome = outcome.map(|answer| answer.result.as_str());
        if !is_dry {
            let queues = interface.queues().into_iter().flatten();
            let queues = queues
                .map(|queue| &queue.name)
                .filter(|name| concerns(&body, name));
            interface.audit.add(Done {
                at: clock::now(),
                action: action.to_owned(),
                queues: queues.cloned().collect(),
                by: by.clone(),
                request: request.clone(),
                result: outcome.ok().map(str::to_owned),
                refused: outcome.err().map(ToString::to_string),
            });
        }
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

/// Whether a body names a queue, or none, which is all.
fn concerns(body: &Value, queue: &str) -> bool {
    let list = body.get("queues").and_then(Value::as_array);
    let names = body
        .get("queue")
        .into_iter()
        .chain(list.into_iter().flatten());
    let mut names = names.peekable();
    names.peek().is_none() || names.any(|name| name == queue)
}
