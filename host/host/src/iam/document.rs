//! An IAM policy as AWS reads it: statements that allow, each with the resources that need it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

/// What something is needed for. The order is that of the statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Need {
    /// To consume a queue.
    Consume,
    /// To send its messages again.
    SendAgain,
    /// To send dead letters.
    DeadLetters,
    /// To find a dead-letter queue by its ARN.
    FindQueue,
    /// To invoke a function.
    Invoke,
    /// To see what the mapping of the retry handler does with its response.
    Mappings,
    /// To see whether Lambda ends a chain of retries.
    Recursion,
    /// To fetch policies.
    Policies,
    /// To do work once.
    Idempotency,
}

impl Need {
    /// The actions of the need.
    fn actions(self) -> &'static [&'static str] {
        match self {
            Self::Consume => &[
                "sqs:ChangeMessageVisibility",
                "sqs:DeleteMessage",
                "sqs:GetQueueAttributes",
                "sqs:ReceiveMessage",
            ],
            Self::SendAgain => &["sqs:SendMessage"],
            Self::DeadLetters => &["sqs:GetQueueAttributes", "sqs:SendMessage"],
            Self::FindQueue => &["sqs:GetQueueUrl"],
            Self::Invoke => &["lambda:InvokeFunction"],
            Self::Mappings => &["lambda:ListEventSourceMappings"],
            Self::Recursion => &["lambda:GetFunctionRecursionConfig"],
            Self::Policies => &["s3:GetObject"],
            Self::Idempotency => &[
                "dynamodb:DeleteItem",
                "dynamodb:DescribeTable",
                "dynamodb:DescribeTimeToLive",
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
            ],
        }
    }
}

/// An IAM policy: it allows what a configuration needs, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IamPolicy {
    allowed: BTreeMap<Need, BTreeSet<String>>,
    /// Queues that SQS does not show and whose dead-letter queues are not configured, each with the reason.
    unseen: Vec<String>,
}

impl IamPolicy {
    /// Allows what a need takes on one more resource.
    pub(super) fn allow(&mut self, need: Need, resource: impl Into<String>) {
        self.allowed
            .entry(need)
            .or_default()
            .insert(resource.into());
    }

    /// Notes a queue that SQS does not show: its redrive policy may name a dead-letter queue, which the policy lacks then.
    pub(super) fn note_unseen(&mut self, queue: String) {
        self.unseen.push(queue);
    }

    /// The queues that SQS does not show, each with the reason: the policy lacks the dead-letter queues that their redrive policies may name.
    pub fn unseen(&self) -> &[String] {
        &self.unseen
    }

    /// Whether it allows nothing.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty()
    }

    /// The policy as JSON, laid out for people.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

/// The policy in AWS's names, in the order that people expect.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Document<'a> {
    version: &'static str,
    statement: Vec<Statement<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Statement<'a> {
    sid: String,
    effect: &'static str,
    action: &'static [&'static str],
    resource: &'a BTreeSet<String>,
}

impl Serialize for IamPolicy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let statements = self.allowed.iter().map(|(need, resource)| Statement {
            sid: format!("{need:?}"),
            effect: "Allow",
            action: need.actions(),
            resource,
        });
        Document {
            version: "2012-10-17",
            statement: statements.collect(),
        }
        .serialize(serializer)
    }
}
