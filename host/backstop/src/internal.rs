//! What the command, the Lambda program and this project's tests use, and programs with this library do not need.
//!
//! Everything here may change in any version. Each module has the items of the module with the same name.

pub mod admin {
    pub use crate::admin::client::{ClientError, Host};
    pub use crate::admin::{
        AdminQueue, ControlSocket, HostAnswer, HostMessages, HostStatus, HostWaiting, Interface,
        QueueStatus, Resumed, TOKEN_VARIABLE, Token, TokenError, paths,
    };
}

pub mod assembly {
    pub use crate::assembly::Assembly;
}

pub mod config {
    pub use crate::config::{
        AdminConfig, Cache, Config, DeadLetterQueues, DeciderConfig, Destination, Flag,
        FunctionHandler, HandlerConfig, IdempotencyConfig, Key, LambdaConfig, LambdaFlags,
        Policies, QueueConfig, UNHINDERED_ATTEMPTS, Variables, keys, parse_endpoint, rows_of,
        schema, unknown_variables, variables,
    };
}

pub mod consumer {
    pub use crate::consumer::{Consumer, Options, Pause, Ready, Serving, Stats, Warning, check};
}

pub mod doctor {
    pub use crate::doctor::{
        Finding, Given, HoldForecast, Scope, Severity, Simulate, Waits, Workload, examine,
    };
}

pub mod lambda {
    pub use crate::lambda::start::{ColdStartError, Started, compiled_folders, start};
    pub use crate::lambda::{
        Allowed, Batch, BatchAttribute, BatchError, BatchItemFailure, BatchMessage, BatchResponse,
        Refresh, RetryHandler, RetryHandlerOptions,
    };
}

pub mod service {
    pub use crate::service::Service;
}
