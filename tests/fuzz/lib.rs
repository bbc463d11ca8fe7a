//! Fuzzing: a function for each place where bytes of others come in, with what must hold for any of them.
//!
//! [`TARGETS`] names them. The suite replays the kept inputs of each, and then tries others for some seconds; `coverage/main.rs` is the same functions as a target of `cargo fuzz`, whose mutations follow the coverage. `host/docs/contributing/fuzzing.md` says how to run both, and what they have found.
#![allow(
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a property that does not hold fails, and says for which input"
)]

mod answers;
mod battery;
mod configuration;
mod corpus;
mod edits;
mod heavy;
mod interface;
mod javascript;
mod lambda;
mod letters;
mod libraries;
mod modules;
mod mutation;
mod options;
mod policies;
mod python;
mod records;
mod sources;
mod templates;

pub use battery::{Report, replay, try_others};
pub use corpus::corpus;

/// A place where bytes of others come in.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus`.
    pub name: &'static str,
    /// Fails if something does not hold that must hold for any input.
    pub run: fn(&[u8]),
    /// The longest input that is tried, in bytes.
    pub most: usize,
}

/// Makes the table of targets, and a macro that makes an item for each of them.
macro_rules! targets {
    ($($(#[$meaning:meta])* $name:ident = $run:path, $most:expr;)+) => {
        /// All targets.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $run, most: $most }),+];

        /// Calls a macro with the names of all targets.
        #[macro_export]
        macro_rules! for_each_target {
            ($each:ident) => { $each! { $($name)+ } };
        }
    };
}

targets! {
    /// A policy's file, of any kind: to the bytes of a component, loaded and evaluated.
    component = policies::component, 16 << 10;
    /// What a file costs to compile, by its shape.
    compile_cost = policies::compile_cost, 4 << 10;
    /// A component without its custom sections.
    sections = policies::sections, 16 << 10;
    /// Generated modules, evaluated with both allocators.
    allocators = modules::allocators, 2 << 10;
    /// What the child that compiles writes.
    compiler_answer = policies::compiler_answer, 4 << 10;
    /// A JSON body, before the template of every language.
    templates = templates::templates, 4 << 10;
    /// The signature of a policy, and public keys.
    signature = sources::signature, 1 << 10;
    /// Names of policies.
    source_name = sources::name, 512;
    /// Manifests of artifacts.
    oci_layout = sources::layout, 4 << 10;
    /// What a registry answers to a request without credentials.
    oci_challenge = sources::challenge, 1 << 10;
    /// Scenarios.
    scenarios = sources::scenarios, 4 << 10;
    /// Records of failed invocations, and the events in them.
    lambda_record = lambda::record, 4 << 10;
    /// Envelopes of events.
    lambda_envelope = lambda::envelope, 4 << 10;
    /// Names of functions.
    function_name = lambda::function_name, 256;
    /// Envelopes of messages that were sent again.
    message_envelope = letters::message_envelope, 2 << 10;
    /// What an HTTP worker answers.
    http_answer = answers::http, 8 << 10;
    /// What a command writes.
    exec_answer = answers::exec, 8 << 10;
    /// `Retry-After` and `x-amz-retry-after`.
    retry_after = answers::retry_after, 128;
    /// Requests to the admin interface.
    admin_request = interface::request, 4 << 10;
    /// Configurations.
    configuration = configuration::configuration, 4 << 10;
    /// Options with their texts, as packages of other languages pass them on.
    options = options::options, 2 << 10;
    /// Exceptions of Python.
    python_exception = python::exception, 4 << 10;
    /// Options of a worker in Python.
    python_options = python::options, 2 << 10;
    /// Events of Lambda functions in Python.
    python_event = python::event, 4 << 10;
    /// What JavaScript finds at an error.
    javascript_error = javascript::error, 4 << 10;
    /// Lines of archives.
    archive = letters::archive, 4 << 10;
    /// Journals of redrives, cut and changed.
    journal = letters::journal, 4 << 10;
    /// Checkpoints of deliveries, cut and changed.
    checkpoint = records::checkpoint, 1 << 10;
    /// Decision records.
    decision_record = records::decision_record, 8 << 10;
    /// The keys of Powertools for Python.
    powertools_python = libraries::powertools_python, 1 << 10;
    /// The keys of Powertools for TypeScript.
    powertools_typescript = libraries::powertools_typescript, 1 << 10;
    /// JMESPath as the library of Python finds it.
    jmespath_python = libraries::jmespath_python, 1 << 10;
    /// JMESPath as the library of TypeScript finds it.
    jmespath_typescript = libraries::jmespath_typescript, 1 << 10;
}

/// The target with this name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The text of an input. Bytes that are none become U+FFFD: what reads text reads any.
fn text(input: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(input)
}

/// What a person reads of a mistake has a size, whatever the input.
#[track_caller]
fn assert_readable(shown: &str) {
    assert!(
        shown.len() < 64 << 10,
        "{} bytes: {shown:.500}",
        shown.len()
    );
}
