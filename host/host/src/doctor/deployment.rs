//! The settings of a retry queue, its event source mapping, its handler and the functions that it retries, as AWS reports them.

use std::collections::BTreeMap;

use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::types::{
    EventSourceMappingConfiguration, FunctionConfiguration, FunctionResponseType,
};

use crate::config::LambdaConfig;
use crate::queue::{Connections, Description, QueueError};
use backstop_aws::{Endpoint, Meaning};
use backstop_functions::unqualified;
use backstop_functions::{Functions, LambdaApi, invocation};

/// The settings of a deployment.
#[derive(Debug, Clone)]
pub(super) struct Deployment {
    pub(super) retry_queue: Description,
    /// The dead-letter queue, or why it can't be checked; `None` if there is none.
    pub(super) dead_letters: Option<Described>,
    /// The dead-letter queues of classes, or why they can't be checked.
    pub(super) class_dead_letters: Vec<(String, Described)>,
    /// The mappings of the retry queue, or why they can't be checked.
    pub(super) mappings: Result<Vec<Mapping>, String>,
    /// The handler, if it is known.
    pub(super) handler: Option<Function>,
    /// The functions that are retried.
    pub(super) functions: Vec<Function>,
}

/// A queue's attributes, or why there are none.
pub(super) type Described = Result<Description, Unseen>;

/// Why a queue can't be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unseen {
    /// It does not exist.
    Missing,
    /// For this reason.
    Unknown(String),
}

impl Unseen {
    fn of(error: QueueError) -> Self {
        if error.is_missing_queue() {
            Self::Missing
        } else {
            Self::Unknown(error.to_string())
        }
    }
}

/// One event source mapping.
#[derive(Debug, Clone, Default)]
pub(super) struct Mapping {
    pub(super) function: String,
    pub(super) state: String,
    pub(super) window: u32,
    pub(super) reports_failures: bool,
    pub(super) filters: bool,
    pub(super) max_concurrency: Option<i32>,
}

/// One function.
#[derive(Debug, Clone)]
pub(super) struct Function {
    pub(super) name: String,
    /// Whether it does not exist.
    pub(super) missing: bool,
    /// Its own settings, or why they can't be checked.
    pub(super) settings: Result<Settings, String>,
    /// Whether recursion detection is on.
    pub(super) detects_recursion: Result<bool, String>,
    /// Its event-invoke configuration, if it has one.
    pub(super) events: Result<Option<Events>, String>,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) timeout: u32,
    /// Its memory, in MiB.
    pub(super) memory: Option<i32>,
    /// Its environment, or why that can't be read.
    pub(super) variables: Result<BTreeMap<String, String>, String>,
    pub(super) reserved_concurrency: Option<i32>,
    pub(super) dead_letter_config: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    pub(super) retries: Option<i32>,
    pub(super) max_age: Option<i32>,
    pub(super) on_failure: Option<String>,
    pub(super) on_success: Option<String>,
}

impl Function {
    /// Whether it is a retry handler, by the variables of its environment.
    pub(super) fn is_handler(&self) -> bool {
        let variables = self.variables();
        variables.is_some_and(|them| them.keys().any(|name| name.starts_with("BACKSTOP")))
    }

    /// Its environment, if that can be read.
    pub(super) fn variables(&self) -> Option<&BTreeMap<String, String>> {
        self.settings.as_ref().ok()?.variables.as_ref().ok()
    }

    /// The ARN of the queue to which it sends its failures.
    pub(super) fn failures_go_to(&self) -> Option<&str> {
        let events = self.events.as_ref().ok()?.as_ref()?;
        let to = events.on_failure.as_deref()?;
        to.contains(":sqs:").then_some(to)
    }

    /// Whether this name or ARN means it too, at any version or alias.
    pub(super) fn is_named(&self, name: &str) -> bool {
        name_of(&self.name) == name_of(name)
    }
}

/// The name of a function without account, version and alias.
pub(super) fn name_of(function: &str) -> &str {
    unqualified(function).rsplit(':').next().unwrap_or(function)
}

/// Asks AWS for settings. Changes nothing.
pub(super) struct DeploymentReader<'a> {
    connections: &'a Connections,
    client: LambdaClient,
    api: LambdaApi,
}

impl<'a> DeploymentReader<'a> {
    pub(super) async fn new(connections: &'a Connections) -> Self {
        let sdk = connections.sdk().await;
        let timeouts = TimeoutConfig::builder().connect_timeout(invocation::CONNECT);
        let (client, endpoint) = invocation::client(sdk, timeouts.build());
        Self {
            connections,
            client: LambdaClient { client, endpoint },
            api: LambdaApi::new(sdk),
        }
    }

    /// The dead-letter queues of a retry queue, and why those can't be checked that can't.
    pub(super) async fn dead_letters(
        &self,
        lambda: &LambdaConfig,
        retry_queue: &Description,
    ) -> (Option<Described>, Vec<(String, Described)>) {
        let mut by_class = Vec::new();
        for (class, url) in &lambda.dead_letter_queues.classes {
            let described = self.connections.by_url(url).await.describe().await;
            by_class.push((class.clone(), described.map_err(Unseen::of)));
        }
        let own = match (&lambda.dead_letter_queues.default, &retry_queue.redrive) {
            (Some(url), _) => Ok(self.connections.by_url(url).await),
            (None, Some(redrive)) => self.connections.by_arn(&redrive.dead_letter_arn).await,
            (None, None) => return (None, by_class),
        };
        let own = match own {
            Ok(queue) => queue.describe().await,
            Err(error) => Err(error),
        };
        (Some(own.map_err(Unseen::of)), by_class)
    }

    /// The mappings of the queue with this ARN.
    pub(super) async fn mappings(&self, arn: &str) -> Result<Vec<Mapping>, String> {
        let request = self.client.client.list_event_source_mappings();
        let answer = request.event_source_arn(arn).send().await;
        let answer = answer.map_err(|error| self.client.reason(&error))?;
        let found = answer.event_source_mappings().iter();
        Ok(found.map(Mapping::of).collect())
    }

    /// The ARNs of the queues from which a function receives.
    pub(super) async fn queues_of(&self, function: &str) -> Result<Vec<String>, String> {
        let request = self.client.client.list_event_source_mappings();
        let answer = request.function_name(function).send().await;
        let answer = answer.map_err(|error| self.client.reason(&error))?;
        let found = answer.event_source_mappings().iter();
        Ok(found
            .filter_map(|mapping| mapping.event_source_arn())
            .filter(|arn| arn.contains(":sqs:"))
            .map(str::to_owned)
            .collect())
    }

    /// The settings of a function.
    pub(super) async fn function(&self, name: &str) -> Function {
        function(&self.client, &self.api, name).await
    }
}

impl Mapping {
    fn of(found: &EventSourceMappingConfiguration) -> Self {
        let filters = found.filter_criteria();
        Self {
            function: found.function_arn().unwrap_or_default().to_owned(),
            state: found.state().unwrap_or_default().to_owned(),
            window: found
                .maximum_batching_window_in_seconds()
                .and_then(|seconds| u32::try_from(seconds).ok())
                .unwrap_or_default(),
            reports_failures: found
                .function_response_types()
                .contains(&FunctionResponseType::ReportBatchItemFailures),
            filters: filters.is_some_and(|criteria| !criteria.filters().is_empty()),
            max_concurrency: found
                .scaling_config()
                .and_then(|scaling| scaling.maximum_concurrency()),
        }
    }
}

/// A client of Lambda's API, and its endpoint.
struct LambdaClient {
    client: Client,
    endpoint: Endpoint,
}

impl LambdaClient {
    /// Why a request failed and, if that is known, what to change.
    fn reason<E>(&self, error: &SdkError<E>) -> String
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
    {
        if let Some(unanswered) = self.endpoint.no_response(error) {
            return unanswered.text;
        }
        let code = error.code().unwrap_or("UnknownError");
        let message = error.message().unwrap_or("no reason given");
        let advice = if Meaning::of_code(code) == Some(Meaning::Denied) {
            ". Allow what the message names, and check which credentials are in use"
        } else {
            ""
        };
        format!("{code}: {}{advice}", message.trim_end_matches('.'))
    }
}

/// The environment of a function. Without one, it is empty; an encrypted one may be unreadable here.
fn variables(function: Option<&FunctionConfiguration>) -> Result<BTreeMap<String, String>, String> {
    let Some(environment) = function.and_then(|it| it.environment()) else {
        return Ok(BTreeMap::new());
    };
    if let Some(error) = environment.error() {
        return Err(format!(
            "{}: {}",
            error.error_code().unwrap_or("UnknownError"),
            error.message().unwrap_or("no reason given")
        ));
    }
    let variables = environment.variables().into_iter().flatten();
    Ok(variables
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect())
}

async fn function(client: &LambdaClient, api: &LambdaApi, name: &str) -> Function {
    let found = client
        .client
        .get_function()
        .function_name(name)
        .send()
        .await;
    let missing = found.as_ref().is_err_and(|error| {
        let error = error.as_service_error();
        error.is_some_and(|it| it.is_resource_not_found_exception())
    });
    let settings = match found {
        Ok(found) => Ok(Settings {
            timeout: found
                .configuration()
                .and_then(|it| u32::try_from(it.timeout()?).ok())
                .unwrap_or(3),
            memory: found.configuration().and_then(|it| it.memory_size()),
            variables: variables(found.configuration()),
            reserved_concurrency: found
                .concurrency()
                .and_then(|it| it.reserved_concurrent_executions()),
            dead_letter_config: found
                .configuration()
                .and_then(|it| it.dead_letter_config()?.target_arn().map(str::to_owned)),
        }),
        Err(error) => Err(client.reason(&error)),
    };
    let detects_recursion = api.detects_recursion(name).await;
    let events = client
        .client
        .get_function_event_invoke_config()
        .function_name(name);
    let events = match events.send().await {
        Ok(found) => Ok(Some(Events {
            retries: found.maximum_retry_attempts(),
            max_age: found.maximum_event_age_in_seconds(),
            on_failure: found
                .destination_config()
                .and_then(|it| it.on_failure()?.destination().map(str::to_owned)),
            on_success: found
                .destination_config()
                .and_then(|it| it.on_success()?.destination().map(str::to_owned)),
        })),
        Err(error)
            if error
                .as_service_error()
                .is_some_and(|it| it.is_resource_not_found_exception()) =>
        {
            Ok(None)
        }
        Err(error) => Err(client.reason(&error)),
    };
    Function {
        name: name.to_owned(),
        missing,
        settings,
        detects_recursion: detects_recursion.map_err(|error| error.message),
        events,
    }
}
