//! What a policy sees of an error of JavaScript: the rules that npm's `backstop-retry`, in WebAssembly, and `backstop-sqs`, with the host inside, share.
//!
//! | module | content |
//! |---|---|
//! | [`mod@error`] | the error that a policy sees, of what JavaScript finds at one |
//! | [`wire`] | how values come from JavaScript |

pub mod error;
pub mod wire;
