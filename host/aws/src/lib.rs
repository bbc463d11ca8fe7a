//! Access to AWS: a size limit for every response, the time at the service, explanations for requests that got no response, and what an error means.

mod endpoint;
mod meaning;
mod queue_url;
mod response_limit;
mod service_time;
mod url;

pub use endpoint::{Endpoint, FailedRequest, NoResponse};
pub use meaning::{BAD_ENDPOINT, Meaning, NO_CREDENTIALS, NO_REGION, is_configuration_error};
pub use queue_url::{queue_identity, queue_region};
pub use response_limit::ResponseLimit;
pub use service_time::{Answered, ServiceTime};
pub use url::{http_url, parse_endpoint};
