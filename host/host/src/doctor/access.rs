//! Whom the access policy of a queue admits. Pure: makes no requests.

use serde_json::Value;

/// What a stranger could do with a queue, by the permission for it.
const ACTIONS: [(&str, &str); 4] = [
    ("sqs:sendmessage", "send messages to it"),
    ("sqs:receivemessage", "receive its messages"),
    ("sqs:deletemessage", "delete its messages"),
    ("sqs:purgequeue", "delete all of its messages at once"),
];

/// Whom a policy admits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// Nobody in general.
    Limited,
    /// Everybody, to do these things.
    Open(Vec<&'static str>),
    /// It can't be told, for this reason.
    Unclear(&'static str),
}

impl Access {
    /// Reads a policy in JSON.
    pub(super) fn of(policy: &str) -> Self {
        let Ok(policy) = serde_json::from_str::<Value>(policy) else {
            return Self::Unclear("it is not JSON");
        };
        let statements = items(policy.get("Statement"));
        let open: Vec<_> = ACTIONS
            .into_iter()
            .filter(|(action, _)| statements.iter().any(|it| is_open(it, action)))
            .map(|(_, words)| words)
            .collect();
        if open.is_empty() {
            Self::Limited
        } else if statements
            .iter()
            .any(|it| is_effect(it, "Deny") && limits(it))
        {
            Self::Unclear("it admits everybody, and denies some of them again")
        } else {
            Self::Open(open)
        }
    }
}

fn is_effect(statement: &Value, effect: &str) -> bool {
    statement.get("Effect").and_then(Value::as_str) == Some(effect)
}

/// Whether the statement lets everybody do this.
fn is_open(statement: &Value, action: &str) -> bool {
    is_effect(statement, "Allow")
        && covers(statement, action)
        && is_anybody(statement)
        && !has_condition(statement)
}

/// Whether a statement that denies may be what keeps strangers out: it excepts somebody, or has a condition.
fn limits(statement: &Value) -> bool {
    statement.get("NotPrincipal").is_some() || has_condition(statement)
}

fn is_anybody(statement: &Value) -> bool {
    let is_star = |value: &Value| value.as_str() == Some("*");
    match statement.get("Principal") {
        Some(principal) if is_star(principal) => true,
        Some(principal) => items(principal.get("AWS")).into_iter().any(is_star),
        None => statement.get("NotPrincipal").is_some(),
    }
}

fn covers(statement: &Value, action: &str) -> bool {
    let has = |key| {
        let patterns = items(statement.get(key));
        let mut patterns = patterns.into_iter().filter_map(Value::as_str);
        patterns.any(|pattern| matches(&pattern.to_lowercase(), action))
    };
    match statement.get("NotAction") {
        Some(_) => !has("NotAction"),
        None => has("Action"),
    }
}

/// Whether a condition says who it is. That the connection has to be encrypted, or that a name has to be like `*`, admits everybody.
fn has_condition(statement: &Value) -> bool {
    let operators = statement.get("Condition").and_then(Value::as_object);
    let keys = operators
        .into_iter()
        .flat_map(|it| it.values())
        .filter_map(Value::as_object)
        .flatten();
    keys.into_iter().any(|(key, values)| {
        let is_any = |value: &&Value| value.as_str() == Some("*");
        !key.eq_ignore_ascii_case("aws:SecureTransport") && !items(Some(values)).iter().any(is_any)
    })
}

/// The items of a list, or a single value as its only item.
fn items(value: Option<&Value>) -> Vec<&Value> {
    match value {
        None => Vec::new(),
        Some(Value::Array(values)) => values.iter().collect(),
        Some(value) => vec![value],
    }
}

/// Whether a pattern with `*` and `?` matches the whole text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = rest.as_str();
            let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.any(|at| text.get(at..).is_some_and(|left| matches(rest, left)))
        }
        Some(letter) => {
            let mut left = text.chars();
            let is_same = |there: char| letter == '?' || letter == there;
            left.next().is_some_and(is_same) && matches(rest.as_str(), left.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(statements: &str) -> Access {
        Access::of(&format!(
            r#"{{"Version": "2012-10-17", "Statement": {statements}}}"#
        ))
    }

    #[test]
    fn a_policy_that_admits_everybody_is_open_however_it_is_written() {
        let send = Access::Open(vec!["send messages to it"]);
        for statement in [
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}"#,
            r#"[{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["SQS:SendMessage"]}]"#,
            r#"{"Effect": "Allow", "Principal": {"AWS": ["1", "*"]}, "Action": "sqs:Send*"}"#,
            r#"{"Effect": "Allow", "NotPrincipal": {"AWS": "1"}, "Action": "sqs:SendMessag?"}"#,
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Condition": {"Bool": {"aws:SecureTransport": "true"}}}"#,
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Condition": {"ArnLike": {"aws:SourceArn": ["*"]}}}"#,
            // Denying what is not encrypted keeps nobody out.
            r#"[{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"}, {"Effect": "Deny", "Principal": "*", "Action": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}]"#,
        ] {
            assert_eq!(of(statement), send, "{statement}");
        }
        let all = of(r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:*"}"#);
        assert_eq!(all, Access::Open(ACTIONS.map(|(_, words)| words).to_vec()));
        let most = of(r#"{"Effect": "Allow", "Principal": "*", "NotAction": "sqs:PurgeQueue"}"#);
        assert!(matches!(most, Access::Open(actions) if actions.len() == 3));
    }

    #[test]
    fn a_policy_that_says_who_is_limited() {
        for statement in [
            "[]",
            r#"{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::1:root"}, "Action": "sqs:*"}"#,
            r#"{"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:*"}"#,
            r#"{"Effect": "Deny", "Principal": "*", "Action": "sqs:*"}"#,
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:GetQueueUrl"}"#,
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:eu-west-1:1:orders"}}}"#,
            r#"{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Condition": {"Bool": {"aws:SecureTransport": "true"}, "StringEquals": {"aws:PrincipalOrgID": "o-1"}}}"#,
        ] {
            assert_eq!(of(statement), Access::Limited, "{statement}");
        }
    }

    #[test]
    fn what_can_t_be_told_is_unclear() {
        let denied = r#"[{"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"}, {"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Condition": {"StringNotEquals": {"aws:PrincipalOrgID": "o-1"}}}]"#;
        assert!(matches!(of(denied), Access::Unclear(_)));
        assert!(matches!(Access::of("Statement:"), Access::Unclear(_)));
    }
}
