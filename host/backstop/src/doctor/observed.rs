//! The settings of a retry queue, its event source mapping, its handler and the functions that it retries, as AWS reports them.

use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::types::{EventSourceMappingConfiguration, FunctionResponseType};

use crate::config::LambdaConfig;
use crate::invocation;
use crate::lambda::{Functions, LambdaApi};
use crate::queue::{Connections, Description, QueueError};
use backstop_aws::Endpoint;

/// The settings of a deployment.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    pub(super) retry_queue: Description,
    /// The dead-letter queue, or why it can't be checked; `None` if there is none.
    pub(super) dead_letters: Option<Result<Description, String>>,
    /// The dead-letter queues of classes, or why they can't be checked.
    pub(super) class_dead_letters: Vec<(String, Result<Description, String>)>,
    /// The mappings of the retry queue, or why they can't be checked.
    pub(super) mappings: Result<Vec<Mapping>, String>,
    /// The handler, if it is known.
    pub(super) handler: Option<Function>,
    /// The functions that are retried.
    pub(super) functions: Vec<Function>,
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

#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) timeout: u32,
    pub(super) reserved_concurrency: Option<i32>,
    pub(super) dead_letter_config: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    pub(super) retries: Option<i32>,
    pub(super) max_age: Option<i32>,
    pub(super) on_failure: Option<String>,
}

/// Collects the settings, starting at the retry queue.
pub(super) async fn observe(
    lambda: &LambdaConfig,
    url: &str,
    connections: &Connections,
) -> Result<Observed, QueueError> {
    let retry_queue = connections.by_url(url).await.describe().await?;
    let mut class_dead_letters = Vec::new();
    for (class, url) in &lambda.dead_letter_queues.classes {
        let described = connections.by_url(url).await.describe().await;
        let described = described.map_err(|error| error.to_string());
        class_dead_letters.push((class.clone(), described));
    }
    let dead_letters = dead_letters(lambda, &retry_queue, connections).await;
    let sdk = connections.sdk().await;
    let timeouts = TimeoutConfig::builder().connect_timeout(invocation::CONNECT);
    let (client, endpoint) = invocation::client(sdk, timeouts.build());
    let client = LambdaClient { client, endpoint };
    let api = LambdaApi::new(sdk);
    let mappings = mappings(&client, &retry_queue.arn).await;
    let of_mapping = mappings.as_ref().ok().and_then(|found| found.first());
    let handler = lambda
        .handler
        .clone()
        .or_else(|| of_mapping.map(|mapping| mapping.function.clone()));
    let handler = match handler {
        Some(name) => Some(function(&client, &api, &name).await),
        None => None,
    };
    let mut functions = Vec::new();
    for name in &lambda.functions {
        functions.push(function(&client, &api, name).await);
    }
    Ok(Observed {
        retry_queue,
        dead_letters,
        class_dead_letters,
        mappings,
        handler,
        functions,
    })
}

async fn dead_letters(
    lambda: &LambdaConfig,
    retry_queue: &Description,
    connections: &Connections,
) -> Option<Result<Description, String>> {
    let queue = match (&lambda.dead_letter_queues.default, &retry_queue.redrive) {
        (Some(url), _) => Ok(connections.by_url(url).await),
        (None, Some(redrive)) => connections.by_arn(&redrive.dead_letter_arn).await,
        (None, None) => return None,
    };
    Some(match queue {
        Ok(queue) => queue.describe().await.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    })
}

async fn mappings(client: &LambdaClient, arn: &str) -> Result<Vec<Mapping>, String> {
    let answer = client
        .client
        .list_event_source_mappings()
        .event_source_arn(arn);
    let answer = answer.send().await.map_err(|error| client.reason(&error))?;
    Ok(answer
        .event_source_mappings()
        .iter()
        .map(Mapping::of)
        .collect())
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
        let advice = if code.contains("AccessDenied") {
            ". Allow what the message names, and check which credentials are in use"
        } else {
            ""
        };
        format!("{code}: {}{advice}", message.trim_end_matches('.'))
    }
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
