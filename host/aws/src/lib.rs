//! How Backstop speaks to AWS: every answer has a limit in bytes before anything reads it, and a request without an answer is explained to people.

mod answer_limit;
mod endpoint;
mod url;

pub use answer_limit::AnswerLimit;
pub use endpoint::{BAD_ENDPOINT, Endpoint, NO_CREDENTIALS, NO_REGION, NoAnswer, is_of_host};
pub use url::{http_url, parse_endpoint};
