//! The URLs of queues: which queue one names, however it is spelled.

use crate::http_url;

/// The ends of the host names of AWS.
pub(crate) const AWS_DOMAINS: [&str; 3] = [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"];

/// What a queue is known by, however its URL is spelled: region, account and name at AWS, whose hosts have several names for one region; host, port, account and name elsewhere. At an endpoint of its own (`at_endpoint`), which gets the requests of every URL, account and name suffice.
///
/// ```
/// use backstop_aws::queue_identity;
///
/// let today = queue_identity("https://sqs.eu-west-1.amazonaws.com/1/orders", false);
/// let former = queue_identity("https://eu-west-1.queue.amazonaws.com/1/orders/", false);
/// assert_eq!(today, former);
/// ```
pub fn queue_identity(url: &str, at_endpoint: bool) -> String {
    let Ok(parsed) = http_url(url) else {
        return url.to_owned();
    };
    let parts: Vec<_> = parsed
        .path()
        .split('/')
        .filter(|it| !it.is_empty())
        .collect();
    let path = parts.join("/");
    if at_endpoint {
        return path;
    }
    let host = parsed.host_str().unwrap_or_default();
    match (region_of(host), parsed.port_or_known_default()) {
        (Some(region), _) => format!("{region}/{path}"),
        (None, Some(port)) => format!("{host}:{port}/{path}"),
        (None, None) => format!("{host}/{path}"),
    }
}

/// The region of a queue's URL; `None` if it is not one of AWS.
pub fn queue_region(url: &str) -> Option<String> {
    let parsed = http_url(url).ok()?;
    region_of(parsed.host_str()?).map(str::to_owned)
}

/// The region of a host of SQS at AWS; `None` for any other host. As in sqs.eu-west-1.amazonaws.com, the former eu-west-1.queue.amazonaws.com, and the private vpce-1.sqs.eu-west-1.vpce.amazonaws.com.
pub(crate) fn region_of(host: &str) -> Option<&str> {
    if !AWS_DOMAINS.iter().any(|domain| host.ends_with(domain)) {
        return None;
    }
    let mut labels = host.split('.');
    match (labels.next()?, labels.next()?) {
        ("sqs" | "sqs-fips", region) => Some(region),
        ("queue", _) => Some("us-east-1"),
        (region, "queue") => Some(region),
        (_, "sqs") => labels.next(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_the_same_however_its_url_is_spelled() {
        for (one, other, at_endpoint) in [
            (
                "https://sqs.eu-west-1.amazonaws.com/1/orders",
                "https://eu-west-1.queue.amazonaws.com/1/orders",
                false,
            ),
            (
                "https://sqs.us-east-1.amazonaws.com/1/orders",
                "http://queue.amazonaws.com:80//1/orders/",
                false,
            ),
            (
                "https://SQS.eu-west-1.amazonaws.com:443/1/orders",
                "https://vpce-1-a.sqs.eu-west-1.vpce.amazonaws.com/1/orders",
                false,
            ),
            (
                "https://sqs.eu-west-1.api.aws/1/orders",
                "https://sqs-fips.eu-west-1.amazonaws.com/1/orders",
                false,
            ),
            (
                "http://LOCALHOST/1/orders/",
                "http://localhost:80/1/orders",
                false,
            ),
            (
                "http://localhost:4566/1/orders",
                "http://127.0.0.1:4566/1/orders",
                true,
            ),
            ("local:orders", "local:orders", true),
        ] {
            let (one, other) = (
                queue_identity(one, at_endpoint),
                queue_identity(other, at_endpoint),
            );
            assert_eq!(one, other);
        }
    }

    #[test]
    fn another_region_account_name_or_host_is_another_queue() {
        let urls = [
            "https://sqs.eu-west-1.amazonaws.com/1/orders",
            "https://sqs.eu-west-2.amazonaws.com/1/orders",
            "https://sqs.eu-west-1.amazonaws.com/2/orders",
            "https://sqs.eu-west-1.amazonaws.com/1/Orders",
            "https://sqs.eu-west-1.example.com/1/orders",
            "http://localhost:4566/1/orders",
            "http://localhost:4567/1/orders",
            "local:orders",
        ];
        let found: std::collections::BTreeSet<_> =
            urls.iter().map(|url| queue_identity(url, false)).collect();
        assert_eq!(found.len(), urls.len(), "{found:?}");
    }
}
