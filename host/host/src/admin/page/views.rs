//! The views: their paths, what shows each, and its table as a file.

use hyper::StatusCode;
use maud::Markup;

use super::respond::{html, with_type};
use super::view::View;
use super::{
    audit, layout, letter, letters, message, overview, policies, reconsider, redrive, redrives,
    waiting, wake, what_if,
};
use crate::admin::answer::{self, Refused};
use crate::admin::interface::Interface;
use crate::http_server::FullResponse;

/// The views of what an action would do.
const PREVIEWS: [&str; 3] = [
    "/waiting/wake",
    "/waiting/reconsider",
    "/dead-letters/redrive",
];

/// The view of one dead letter.
const LETTER: &str = "/dead-letters/letter";

/// The view of what another policy would do.
const WHAT_IF: &str = "/policies/what-if";

/// Whether a path is one of a view.
pub(super) fn has(path: &str) -> bool {
    layout::VIEWS.iter().any(|(view, _)| *view == path)
        || is_preview(path)
        || [LETTER, WHAT_IF].contains(&path)
}

/// Whether a path is one of what an action would do.
pub(super) fn is_preview(path: &str) -> bool {
    PREVIEWS.contains(&path)
}

/// The view at a path, as a page or as a file.
pub(super) async fn answer(path: &str, view: &View<'_>, interface: &Interface) -> FullResponse {
    if let Some(exported) = export(path, view).await {
        return exported;
    }
    match shown(path, view, interface).await {
        Some(shown) => html(shown, StatusCode::OK),
        None => html(layout::nothing(view), StatusCode::NOT_FOUND),
    }
}

async fn shown(path: &str, view: &View<'_>, interface: &Interface) -> Option<Markup> {
    Some(match path {
        "/" => overview::view(view).await,
        "/waiting" => waiting::view(view).await,
        "/waiting/wake" => wake::preview(view).await,
        "/waiting/reconsider" => reconsider::preview(view).await,
        "/dead-letters" => letters::view(view).await,
        "/dead-letters/redrive" => redrive::preview(view).await,
        LETTER => letter::view(view).await,
        "/redrives" => redrives::view(view).await,
        "/message" => message::view(view).await,
        "/policies" => policies::view(view).await,
        WHAT_IF => what_if::view(view, interface).await,
        "/audit" => audit::view(view).await,
        _ => return None,
    })
}

/// What a view shows, as a file to keep: JSON or CSV, if the address says so. A file does not say what it lacks, so there is none if a host is missing.
async fn export(path: &str, view: &View<'_>) -> Option<FullResponse> {
    let form = view.value("format")?;
    let (table, missing) = match path {
        "/waiting" => waiting::table(view).await,
        "/dead-letters" => letters::table(view).await,
        "/redrives" => redrives::table(view).await,
        "/audit" => audit::table(view).await,
        _ => return None,
    };
    if let Some(missing) = missing.first() {
        let text = format!(
            "{} does not answer, and the table would lack what it has: try again",
            missing.host
        );
        return Some(answer::response(Err(Refused::unavailable(text))));
    }
    match form {
        "csv" => Some(with_type("text/csv; charset=utf-8", table.csv())),
        "json" => Some(with_type("application/json", table.json())),
        _ => None,
    }
}
