//! Where letters go: to the queue or function where they come from, or where the run says.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use backstop_functions::LambdaApi;
use backstop_queue::{Connections, Description, Queue};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tokio::sync::Mutex;

use super::RedriveError;
use super::plan::as_text;

/// Where letters go.
///
/// ```
/// use backstop_dead_letters::redrive::To;
///
/// assert_eq!("lambda:orders".parse(), Ok(To::Function("orders".to_owned())));
/// assert!("orders".parse::<To>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum To {
    /// A queue, by its URL or ARN.
    Queue(String),
    /// A Lambda function, by its name or ARN.
    Function(String),
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Some(name) = text.strip_prefix("lambda:").filter(|name| !name.is_empty()) {
            return Ok(Self::Function(name.to_owned()));
        }
        if text.starts_with("arn:") && text.split(':').nth(2) == Some("lambda") {
            return Ok(Self::Function(text.to_owned()));
        }
        let is_queue = ["https://", "http://", "arn:", "local:"];
        if is_queue.iter().any(|start| text.starts_with(start)) {
            return Ok(Self::Queue(text.to_owned()));
        }
        Err(format!(
            "`{text}` is neither a queue nor a function: expected the URL or ARN of a queue, or lambda:NAME"
        ))
    }
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => f.write_str(name),
            Self::Function(name) if name.starts_with("arn:") => f.write_str(name),
            Self::Function(name) => write!(f, "lambda:{name}"),
        }
    }
}

as_text!(To);

/// An opened [`To`].
#[derive(Debug)]
pub(super) enum Target {
    Queue {
        queue: Arc<dyn Queue>,
        description: Description,
    },
    Function {
        name: String,
        api: LambdaApi,
    },
}

/// Opens the targets of letters.
#[derive(Debug)]
pub(super) struct Router {
    connections: Arc<Connections>,
    /// The dead-letter queue's ARN.
    arn: String,
    opened: Mutex<HashMap<To, Arc<Target>>>,
}

impl Router {
    pub(super) fn new(connections: Arc<Connections>, arn: String) -> Self {
        Self {
            connections,
            arn,
            opened: Mutex::default(),
        }
    }

    /// Opens a target, once.
    pub(super) async fn open(&self, to: &To) -> Result<Arc<Target>, RedriveError> {
        let mut opened = self.opened.lock().await;
        if let Some(target) = opened.get(to) {
            return Ok(Arc::clone(target));
        }
        let target = Arc::new(self.find(to).await?);
        opened.insert(to.clone(), Arc::clone(&target));
        Ok(target)
    }

    async fn find(&self, to: &To) -> Result<Target, RedriveError> {
        let failed = |cause| RedriveError::Target {
            to: to.clone(),
            cause,
        };
        let queue = match to {
            To::Function(name) => {
                let api = LambdaApi::new(self.connections.sdk().await);
                let name = name.clone();
                return Ok(Target::Function { name, api });
            }
            To::Queue(arn) if arn.starts_with("arn:") => {
                self.connections.by_arn(arn).await.map_err(failed)?
            }
            To::Queue(url) => self.connections.by_url(url).await,
        };
        let description = queue.describe().await.map_err(failed)?;
        if description.arn == self.arn {
            return Err(RedriveError::Itself { to: to.clone() });
        }
        // An ARN is looked up by its name and account, in the region of this client.
        if matches!(to, To::Queue(arn) if arn.starts_with("arn:") && *arn != description.arn) {
            return Err(RedriveError::OtherQueue {
                to: to.clone(),
                found: description.arn,
            });
        }
        Ok(Target::Queue { queue, description })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_queue_or_a_function() {
        let queue = |text: &str| Ok(To::Queue(text.to_owned()));
        let function = |text: &str| Ok(To::Function(text.to_owned()));
        for (text, expected) in [
            (
                "https://sqs.eu-west-1.amazonaws.com/1/orders",
                queue("https://sqs.eu-west-1.amazonaws.com/1/orders"),
            ),
            (
                "arn:aws:sqs:eu-west-1:1:orders",
                queue("arn:aws:sqs:eu-west-1:1:orders"),
            ),
            ("lambda:orders:live", function("orders:live")),
            (
                "arn:aws:lambda:eu-west-1:1:function:orders",
                function("arn:aws:lambda:eu-west-1:1:function:orders"),
            ),
        ] {
            assert_eq!(text.parse::<To>(), expected);
            assert_eq!(text.parse::<To>().unwrap().to_string(), text);
        }
        for wrong in ["", "orders", "lambda:", "ftp://orders"] {
            assert!(wrong.parse::<To>().is_err(), "{wrong}");
        }
    }
}
