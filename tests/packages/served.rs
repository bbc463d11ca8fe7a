//! Files that a server of this machine has, as a registry or the page of a release has them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;

/// Contents, by their paths.
pub(crate) type Files = HashMap<String, Vec<u8>>;

/// Serves them until the test ends.
pub(crate) fn serve(listener: TcpListener, files: Files) {
    let router = Router::new().fallback(answer).with_state(Arc::new(files));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
}

async fn answer(State(files): State<Arc<Files>>, request: Request) -> Response {
    match files.get(request.uri().path()) {
        Some(content) => content.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
