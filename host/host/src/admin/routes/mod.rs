//! The routes: one module for each, with its answer.

mod drain;
mod health;
mod metrics;
mod pause;
mod reconsider;
mod rollback;
mod status;
mod waiting;
mod wake;

use super::route::Route;

pub use pause::Resumed;
pub use status::{HostStatus, QueueStatus};
pub use waiting::{HostMessages, HostWaiting};
pub use wake::HostAnswer;

/// The method and path of each route, as the documents name them: `POST /v1/rollback`.
pub fn paths() -> impl Iterator<Item = String> {
    ROUTES.iter().map(Route::to_string)
}

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    Route::read("/livez", |_, call| {
        Box::pin(async move { health::live(&call) })
    })
    .open(),
    Route::read("/readyz", |host, call| {
        Box::pin(async move { health::ready(&host, &call) })
    })
    .open(),
    Route::read("/metrics", |host, call| {
        Box::pin(async move { metrics::metrics(&host, &call) })
    }),
    Route::read("/v1/status", |host, call| {
        Box::pin(async move { status::status(&host, &call) })
    }),
    Route::action("/v1/rollback", |host, call| {
        Box::pin(rollback::roll_back(host, call))
    }),
    Route::read("/v1/waiting", |host, call| {
        Box::pin(async move { waiting::waiting(&host, &call).await })
    }),
    Route::read("/v1/messages/{}", |host, call| {
        Box::pin(async move { waiting::message(&host, call).await })
    }),
    Route::action("/v1/wake", |host, call| Box::pin(wake::wake(host, call))),
    Route::action("/v1/pause", |host, call| {
        Box::pin(async move { pause::pause(&host, &call) })
    }),
    Route::action("/v1/resume", |host, call| {
        Box::pin(async move { pause::resume(&host, &call) })
    }),
    Route::action("/v1/set", |host, call| {
        Box::pin(async move { pause::set(&host, &call) })
    }),
    Route::action("/v1/drain", |host, call| {
        Box::pin(async move { drain::drain(&host, &call) })
    }),
    Route::action("/v1/reconsider", |host, call| {
        Box::pin(reconsider::reconsider(host, call))
    }),
    Route::action("/v1/earlier", |host, call| {
        Box::pin(reconsider::take(host, call))
    }),
];
