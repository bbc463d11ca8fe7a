//! The ARNs of what a configuration names, in the partition, region and account of its queue. Pure.

use backstop_functions::FunctionName;

/// Where a queue is: of its ARN, the partition, the region and the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place<'a> {
    partition: &'a str,
    region: &'a str,
    account: &'a str,
    queue: &'a str,
}

impl<'a> Place<'a> {
    /// That of the queue with this ARN; `None` if it is in memory.
    pub(super) fn of(queue: &'a str) -> Option<Self> {
        let parts: Vec<_> = queue.splitn(6, ':').collect();
        match parts[..] {
            ["arn", partition, "sqs", region, account, _] => Some(Self {
                partition,
                region,
                account,
                queue,
            }),
            _ => None,
        }
    }

    /// A function of the configuration: where the name leaves out region and account, those of the queue. `version` is the version or the alias, if the name has none.
    pub(super) fn function(&self, name: &str, version: Option<&str>) -> Option<String> {
        let name = FunctionName::parse(name)?.at(self.queue);
        Some(name.arn(self.partition, version))
    }

    /// A table of DynamoDB, by its name or its ARN.
    pub(super) fn table(&self, name: &str) -> String {
        if name.starts_with("arn:") {
            return name.to_owned();
        }
        let Self {
            partition,
            region,
            account,
            ..
        } = self;
        format!("arn:{partition}:dynamodb:{region}:{account}:table/{name}")
    }

    /// An object of S3.
    pub(super) fn object(&self, bucket: &str, key: &str) -> String {
        format!("arn:{}:s3:::{bucket}/{key}", self.partition)
    }
}

/// The ARN of a queue, as its URL says; `None` for an endpoint that is none of AWS's.
pub(super) fn of_url(url: &str) -> Option<String> {
    let address = url.strip_prefix("https://sqs.")?;
    let (host, path) = address.split_once('/')?;
    let (region, domain) = host.split_once('.')?;
    let partition = match domain {
        "amazonaws.com.cn" => "aws-cn",
        "amazonaws.com" if region.starts_with("us-gov-") => "aws-us-gov",
        "amazonaws.com" => "aws",
        _ => return None,
    };
    let (account, name) = path.split_once('/')?;
    Some(format!("arn:{partition}:sqs:{region}:{account}:{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_of_aws_has_the_arn() {
        for (url, expected) in [
            (
                "https://sqs.eu-west-1.amazonaws.com/123456789012/orders.fifo",
                Some("arn:aws:sqs:eu-west-1:123456789012:orders.fifo"),
            ),
            (
                "https://sqs.cn-north-1.amazonaws.com.cn/1/q",
                Some("arn:aws-cn:sqs:cn-north-1:1:q"),
            ),
            (
                "https://sqs.us-gov-west-1.amazonaws.com/1/q",
                Some("arn:aws-us-gov:sqs:us-gov-west-1:1:q"),
            ),
            ("http://127.0.0.1:4566/000000000000/orders", None),
            ("https://sqs.example.com/1/q", None),
            ("local:orders", None),
        ] {
            assert_eq!(of_url(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn what_a_name_leaves_out_is_that_of_the_queue() {
        let place = Place::of("arn:aws-cn:sqs:cn-north-1:1:q");
        let function = |name: &str, version| {
            let place = place.as_ref()?;
            place.function(name, version)
        };
        for (name, version, expected) in [
            ("ship", None, "arn:aws-cn:lambda:cn-north-1:1:function:ship"),
            (
                "ship",
                Some("*"),
                "arn:aws-cn:lambda:cn-north-1:1:function:ship:*",
            ),
            (
                "ship:live",
                Some("*"),
                "arn:aws-cn:lambda:cn-north-1:1:function:ship:live",
            ),
            (
                "2:function:ship",
                None,
                "arn:aws-cn:lambda:cn-north-1:2:function:ship",
            ),
        ] {
            assert_eq!(function(name, version).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(Place::of("local:q"), None);
    }
}
