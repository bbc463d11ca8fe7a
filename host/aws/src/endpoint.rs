//! Explains why a request to AWS got no response: a code for the cause, and a sentence that says what to do. All requests to AWS use it.

use std::error::Error;
use std::io;

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use backstop_core::network;
use backstop_core::text::chain;
use url::Host;

use crate::meaning::{BAD_ENDPOINT, NO_CODE, NO_CREDENTIALS, NO_REGION, is_configuration_error};
use crate::queue_url::{AWS_DOMAINS, region_of};
use crate::{Meaning, http_url, parse_endpoint};

/// The destination of requests to a service, as configured.
#[derive(Debug, Clone)]
pub struct Endpoint {
    service: &'static str,
    url: Option<String>,
    region: Option<String>,
}

/// Why there was no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoResponse {
    /// One of the codes above, or a code of the `http` handler: `ENOTFOUND`, `ECONNREFUSED`, `ETIMEDOUT`, ….
    pub code: &'static str,
    /// What happened, and what to do about it.
    pub text: String,
    /// Nothing was sent: there was no connection, or no request to send.
    pub unsent: bool,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRequest {
    /// The service's code, or one of [`NoResponse`].
    pub code: String,
    /// The service's text, or what to do about a request without a response.
    pub text: String,
    /// The HTTP status of the response, if there was one.
    pub status: Option<u16>,
    /// What all of this means.
    pub meaning: Meaning,
}

impl Endpoint {
    /// The endpoint of `service` (`SQS`, `LAMBDA`, `S3`) in this configuration and the environment.
    pub fn of(service: &'static str, sdk: &SdkConfig) -> Self {
        let own = std::env::var(format!("AWS_ENDPOINT_URL_{service}")).ok();
        Self {
            service,
            url: own.or_else(|| sdk.endpoint_url().map(str::to_owned)),
            region: sdk.region().map(ToString::to_string),
        }
    }

    /// The URL of an endpoint in place of AWS's own. The endpoints of AWS, public or private, are all the same to this: an ARN names one thing there.
    pub fn own(&self) -> Option<&str> {
        let own = self.url.as_deref()?;
        let is_of_aws = http_url(own).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default();
            AWS_DOMAINS.iter().any(|domain| host.ends_with(domain))
        });
        (!is_of_aws).then_some(own)
    }

    /// The region to which requests go, if that is known and not `region`. With an endpoint of its own, as of an emulator, a service may call its region what it likes.
    pub fn other_region(&self, region: &str) -> Option<&str> {
        let own = self.region.as_deref().filter(|_| self.url.is_none());
        own.filter(|own| !region.is_empty() && *own != region)
    }

    /// Advice, if requests go to another region than that of the queue's URL.
    pub fn instead_of_region(&self, queue_url: &str) -> Option<String> {
        let url = http_url(queue_url).ok()?;
        let host = url.host_str()?;
        let region = region_of(host)?;
        let own = self.other_region(region)?;
        Some(format!(
            "the queue is in {region}, but requests go to {own}: set AWS_REGION={region}"
        ))
    }

    /// Advice, if requests go to AWS although the URL of their queue is that of an emulator: its host is an address or a name without a dot.
    pub fn instead_of(&self, queue_url: &str) -> Option<String> {
        let url = http_url(queue_url).ok().filter(|_| self.url.is_none())?;
        let is_local = match url.host()? {
            Host::Domain(name) => !name.contains('.'),
            Host::Ipv4(_) | Host::Ipv6(_) => true,
        };
        let origin = url.origin().ascii_serialization();
        is_local.then(|| {
            format!("the request went to AWS and not to {origin}: set AWS_ENDPOINT_URL={origin}")
        })
    }

    /// Why a request failed, with a response or without.
    pub fn failed<E>(&self, error: &SdkError<E, HttpResponse>) -> FailedRequest
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        if let Some(NoResponse { code, text, unsent }) = self.no_response(error) {
            let mut meaning = Meaning::of(code, None);
            if unsent && meaning == Meaning::Unknown {
                meaning = Meaning::NotSent;
            }
            return FailedRequest {
                code: code.to_owned(),
                text,
                status: None,
                meaning,
            };
        }
        let code = error.code().unwrap_or(NO_CODE);
        let status = error.raw_response().map(|it| it.status().as_u16());
        FailedRequest {
            code: code.to_owned(),
            text: error.message().map_or_else(|| chain(error), str::to_owned),
            status,
            meaning: Meaning::of(code, status),
        }
    }

    /// Why a request got no response; `None` if the service responded.
    pub fn no_response<E, R>(&self, error: &SdkError<E, R>) -> Option<NoResponse>
    where
        E: Error + 'static,
        R: std::fmt::Debug,
    {
        if matches!(error, SdkError::ServiceError(_)) {
            return None;
        }
        let text = chain(error);
        let (code, text) = match self.configuration_error(&text) {
            Some(error) => error,
            None => self.network_error(error, text),
        };
        let unsent = is_configuration_error(code) || is_unsent(error);
        Some(NoResponse { code, text, unsent })
    }

    /// The wrong setting behind an error. It is recognised by its text, since the SDK has no type for it.
    fn configuration_error(&self, text: &str) -> Option<(&'static str, String)> {
        if network::lacks_region(text) {
            return Some((NO_REGION, network::SET_A_REGION.to_owned()));
        }
        if text.contains("the credential provider was not enabled") {
            let profile = std::env::var("AWS_PROFILE").unwrap_or_default();
            let profile = match profile.as_str() {
                "" => String::new(),
                name => format!(" (AWS_PROFILE is {name})"),
            };
            let advice = format!(
                "no AWS credentials were found{profile}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or give this machine a role"
            );
            return Some((NO_CREDENTIALS, advice));
        }
        for (before, after) in [
            ("failed to apply endpoint `", "` to request"),
            ("Custom endpoint `", "` was not"),
        ] {
            let Some((_, rest)) = text.split_once(before) else {
                continue;
            };
            let url = rest.split(after).next().unwrap_or_default();
            let why = match parse_endpoint(url) {
                Err(why) => why,
                Ok(_) => format!("`{url}` is not an endpoint"),
            };
            return Some((
                BAD_ENDPOINT,
                format!("{why}: correct {}", self.setting_name()),
            ));
        }
        let is_credentials = [
            "an error occurred while loading credentials",
            "the credentials provider was not properly configured",
            "credentials provider timed out",
            "unexpected credentials error",
        ];
        is_credentials.iter().any(|part| text.contains(part)).then(|| {
            let why = text.rsplit(": ").next().unwrap_or_default();
            let advice = format!(
                "the AWS credentials can't be loaded ({why}): check AWS_PROFILE, the profile's files, and the role of this machine"
            );
            (NO_CREDENTIALS, advice)
        })
    }

    /// The network failure behind an error.
    fn network_error<E, R>(&self, error: &SdkError<E, R>, text: String) -> (&'static str, String)
    where
        E: Error + 'static,
        R: std::fmt::Debug,
    {
        let first: Option<&(dyn Error + 'static)> = Error::source(error);
        let causes = || std::iter::successors(first, |cause| (*cause).source());
        let io = causes().find_map(|cause| cause.downcast_ref::<io::Error>());
        let is_slow = if let SdkError::DispatchFailure(failure) = error {
            failure.is_timeout()
        } else {
            matches!(error, SdkError::TimeoutError(_))
        };
        let endpoint = self.description();
        if let SdkError::ResponseError(_) = error {
            let advice = format!(
                "the response of {endpoint} can't be read ({text}): check {}",
                self.setting_name()
            );
            return ("EPROTO", advice);
        }
        let check = format!("check {} and the network", self.setting_name());
        match io.map(io::Error::kind) {
            _ if text.contains("dns error") || text.contains("lookup") => {
                let advice = format!("the host name of {endpoint} can't be resolved: {check}");
                ("ENOTFOUND", advice)
            }
            _ if is_slow => (
                "ETIMEDOUT",
                format!("{endpoint} did not respond in time: {check}"),
            ),
            Some(io::ErrorKind::ConnectionRefused) => {
                let advice = format!("nothing listens at {endpoint}: {check}");
                ("ECONNREFUSED", advice)
            }
            Some(io::ErrorKind::HostUnreachable) => (
                "EHOSTUNREACH",
                format!("there is no route to {endpoint}: {check}"),
            ),
            Some(io::ErrorKind::NetworkUnreachable) => (
                "ENETUNREACH",
                format!("there is no route to {endpoint}: {check}"),
            ),
            Some(io::ErrorKind::InvalidData) => {
                let why = causes().last().map(ToString::to_string).unwrap_or_default();
                let advice = format!("no trusted TLS connection to {endpoint} ({why}): {check}");
                ("EPROTO", advice)
            }
            _ => ("ECONNRESET", text),
        }
    }

    /// The endpoint, for an error.
    fn description(&self) -> String {
        match (&self.url, &self.region) {
            (Some(url), _) => format!("the endpoint {url}"),
            (None, Some(region)) => format!("{} in the region {region}", self.name()),
            (None, None) => self.name().to_owned(),
        }
    }

    /// The setting that determines the endpoint.
    fn setting_name(&self) -> &'static str {
        match (&self.url, self.service) {
            (None, _) => "the region (AWS_REGION)",
            (Some(_), "SQS") => {
                "--endpoint-url (endpoint-url, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SQS)"
            }
            (Some(_), "S3") => {
                "--endpoint-url (endpoint-url, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_S3)"
            }
            (Some(_), "DYNAMODB") => {
                "--endpoint-url (endpoint-url, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB)"
            }
            (Some(_), "FIREHOSE") => {
                "--endpoint-url (endpoint-url, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_FIREHOSE)"
            }
            (Some(_), _) => {
                "--endpoint-url (endpoint-url, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_LAMBDA)"
            }
        }
    }

    fn name(&self) -> &'static str {
        match self.service {
            "LAMBDA" => "Lambda",
            "DYNAMODB" => "DynamoDB",
            "FIREHOSE" => "Firehose",
            other => other,
        }
    }
}

/// Whether a request cannot have reached the service. The SDK's own type does not tell an error of connecting from one of a connection.
fn is_unsent<E, R>(error: &SdkError<E, R>) -> bool
where
    E: Error + 'static,
    R: std::fmt::Debug,
{
    if let SdkError::ConstructionFailure(_) = error {
        return true;
    }
    let first: Option<&(dyn Error + 'static)> = Error::source(error);
    std::iter::successors(first, |cause| (*cause).source())
        .filter_map(|cause| cause.downcast_ref::<hyper_util::client::legacy::Error>())
        .any(hyper_util::client::legacy::Error::is_connect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_emulator_s_queue_without_an_endpoint_gets_the_advice_to_set_one() {
        let endpoint = |url: Option<&str>| Endpoint {
            service: "SQS",
            url: url.map(str::to_owned),
            region: None,
        };
        for of_aws in [
            None,
            Some("https://sqs.eu-west-1.amazonaws.com"),
            Some("https://vpce-1.sqs.eu-west-1.vpce.amazonaws.com"),
        ] {
            assert_eq!(endpoint(of_aws).own(), None);
        }
        let other = Some("https://amazonaws.com.example");
        assert_eq!(endpoint(other).own(), other);
        for local in [
            "http://127.0.0.1:4566",
            "http://localhost:4566",
            "http://[::1]:9324",
        ] {
            let queue = format!("{local}/000000000000/orders");
            let advice = endpoint(None).instead_of(&queue);
            let expected = format!("AWS_ENDPOINT_URL={local}");
            assert!(advice.is_some_and(|advice| advice.contains(&expected)));
            assert_eq!(endpoint(Some(local)).instead_of(&queue), None);
        }
        let aws = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
        let in_region = |region: &str, url: Option<&str>| Endpoint {
            region: Some(region.to_owned()),
            ..endpoint(url)
        };
        let advice = in_region("us-east-1", None).instead_of_region(aws).unwrap();
        assert!(advice.ends_with("set AWS_REGION=eu-west-1"), "{advice}");
        for (right, queue) in [
            (in_region("eu-west-1", None), aws),
            (in_region("us-east-1", Some("http://127.0.0.1:4566")), aws),
            (
                in_region("us-east-1", None),
                "http://sqs.eu-west-1.localhost:4566/0/q",
            ),
            (in_region("us-east-1", None), "local:orders"),
        ] {
            assert_eq!(right.instead_of_region(queue), None, "{queue}");
        }
        for other in [aws, "local:orders", "orders"] {
            assert_eq!(endpoint(None).instead_of(other), None);
        }
    }
}
