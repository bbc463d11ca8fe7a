//! The admin interface of a host: JSON over HTTP/1.1, on a Unix socket in the private cache directory and at an address that the operator names.
//!
//! A connection goes through these modules: `http_server` accepts it and bounds what it may cost, `guard` refuses requests of other sites and without the token, `router` finds the route, and a function in `routes` answers. [`Interface`] is what the routes reach. `client` is the other side: how commands find hosts and query them. `host/docs/operate/admin.md` documents the interface.

mod address;
mod answer;
mod audit;
mod call;
mod caller;
mod client;
mod guard;
mod header;
mod history;
mod interface;
mod page;
mod proxy;
mod route;
mod router;
mod routes;
mod run;
mod socket;
mod token;
mod tools;
mod what_if;

pub(crate) use address::Address;
pub use address::AdminError;
pub use client::{ClientError, Host};
pub(crate) use history::{Reading, Swap};
pub use interface::{AdminQueue, Interface};
pub use route::Route;
pub use routes::{
    HostAnswer, HostAudit, HostHistory, HostLetter, HostLetters, HostMessages, HostRedrive,
    HostRedrives, HostStatus, HostStory, HostWaiting, LettersReading, QueueLetters, QueueReach,
    QueueStatus, ROUTES, Resumed, ShadowStatus, in_requests,
};
pub use socket::ControlSocket;
pub use token::{Token, TokenError};
pub use tools::{Replayed, Tools, Tried};

/// The version of the interface, in its paths and in each answer.
pub(crate) const VERSION: u64 = 1;
