//! The headers of a POST: those of the Elastic Beanstalk worker daemon, the message group, the trace context, and what was left out.
//!
//! The sender chooses what is in many of them. No value can add a header, and none can make the request larger than a worker reads: what does not fit is left out, and a header says so.

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::trace::Trace;
use backstop_queue::Message;
use backstop_traces::{TRACEPARENT, TRACESTATE};

/// The most bytes of one value. Nginx, Apache and Gunicorn read lines of 8 KiB.
const VALUE_BYTES: usize = 4 << 10;

/// The most bytes of all names and values. Tomcat and Jetty read 8 KiB of headers, Node.js 16.
const ALL_BYTES: usize = 6 << 10;

/// The most bytes of the names that were left out.
const OMITTED_BYTES: usize = 1 << 10;

/// Names what was left out.
const OMITTED: HeaderName = HeaderName::from_static("x-backstop-omitted");

/// The type of the bodies, for the header `Content-Type`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentType(HeaderValue);

impl Default for ContentType {
    fn default() -> Self {
        Self(HeaderValue::from_static("application/json"))
    }
}

impl ContentType {
    /// A type such as `text/plain` or `text/plain; charset=utf-8`, if it is one.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, parameters) = text.split_once(';').unwrap_or((text, ""));
        let (kind, subtype) = kind.trim_end().split_once('/')?;
        let is_token = |text: &str| {
            let is_of_token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            !text.is_empty() && text.bytes().all(is_of_token)
        };
        let are_printable = parameters.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_token(kind) || !is_token(subtype) || !are_printable || text.len() > VALUE_BYTES {
            return None;
        }
        HeaderValue::from_str(text).ok().map(Self)
    }
}

/// The headers of a message of this queue.
pub(super) fn headers(queue: &str, content_type: &ContentType, message: &Message) -> HeaderMap {
    let first_received =
        jiff::Timestamp::from_millisecond(i64::try_from(message.first_received.0).unwrap_or(0))
            .unwrap_or_default();
    let mut headers = Headers::default();
    headers.map.insert(CONTENT_TYPE, content_type.0.clone());
    headers.add("x-aws-sqsd-msgid", &message.id);
    headers.add("x-aws-sqsd-queue", queue);
    headers.add("x-aws-sqsd-first-received-at", &first_received.to_string());
    let receive_count = message.receive_count.to_string();
    headers.add("x-aws-sqsd-receive-count", &receive_count);
    let trace = Trace::of(message);
    for (name, value) in [
        ("x-aws-sqsd-sender-id", &message.sender),
        ("x-aws-sqsd-message-group-id", &message.group),
        (
            "x-aws-sqsd-message-deduplication-id",
            &message.deduplication_id,
        ),
        ("x-amzn-trace-id", &trace.xray),
    ] {
        if let Some(value) = value {
            headers.add(name, value);
        }
    }
    for (name, value) in &message.attributes {
        let name = format!("x-aws-sqsd-attr-{}", name.to_ascii_lowercase());
        headers.add(&name, &value.to_text());
    }
    // After the attributes: these take no place of what a sender has written.
    for (name, value) in [(TRACEPARENT, &trace.parent), (TRACESTATE, &trace.state)] {
        if let Some(value) = value {
            headers.add(name, value);
        }
    }
    headers.with_omitted()
}

/// Headers within the bounds, and the names of those that were left out.
#[derive(Default)]
struct Headers {
    map: HeaderMap,
    bytes: usize,
    omitted: String,
}

impl Headers {
    fn add(&mut self, name: &str, value: &str) {
        let bytes = self.bytes + name.len() + value.len();
        let header = HeaderName::try_from(name)
            .ok()
            .zip(HeaderValue::from_bytes(value.as_bytes()).ok());
        match header {
            Some((header, held)) if value.len() <= VALUE_BYTES && bytes <= ALL_BYTES => {
                self.bytes = bytes;
                self.map.append(header, held);
            }
            Some(_) | None => self.omit(name),
        }
    }

    /// Names a header that was left out. A character that is none of a header's name is a `?`.
    fn omit(&mut self, name: &str) {
        const MORE: &str = "...";
        let between = if self.omitted.is_empty() { "" } else { ", " };
        let printable = |of: char| {
            if of.is_ascii_graphic() && of != ',' {
                of
            } else {
                '?'
            }
        };
        let name: String = name.chars().map(printable).collect();
        if self.omitted.ends_with(MORE) {
            return;
        }
        let fits = self.omitted.len() + between.len() + name.len() <= OMITTED_BYTES;
        self.omitted += between;
        self.omitted += if fits { &name } else { MORE };
    }

    fn with_omitted(mut self) -> HeaderMap {
        if !self.omitted.is_empty()
            && let Ok(omitted) = HeaderValue::from_bytes(self.omitted.as_bytes())
        {
            self.map.insert(OMITTED, omitted);
        }
        self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_queue::Attribute;
    use backstop_queue::ordinary_message;

    fn headers_of(message: &Message) -> HeaderMap {
        headers("orders", &ContentType::default(), message)
    }

    fn with_attributes<const N: usize>(attributes: [(&str, &str); N]) -> Message {
        let mut message = ordinary_message();
        message.attributes = attributes
            .map(|(name, value)| (name.to_owned(), Attribute::string(value)))
            .into();
        message
    }

    #[test]
    fn the_group_and_the_deduplication_id_of_a_fifo_queue_are_headers() {
        let mut message = ordinary_message();
        (message.group, message.deduplication_id) = (None, None);
        assert!(!headers_of(&message).contains_key("x-aws-sqsd-message-group-id"));
        message.group = Some("customer-1".to_owned());
        message.deduplication_id = Some("order-7".to_owned());
        let headers = headers_of(&message);
        assert_eq!(headers["x-aws-sqsd-message-group-id"], "customer-1");
        assert_eq!(headers["x-aws-sqsd-message-deduplication-id"], "order-7");
        assert!(!headers.contains_key(OMITTED));
    }

    #[test]
    fn no_attribute_adds_a_header_or_replaces_one() {
        let hostile = with_attributes([
            ("a", "x\r\nx-aws-sqsd-message-group-id: forged"),
            ("b", "x\nhost: evil"),
            ("c", "x\0y"),
            ("Message-Group-Id", "forged"),
            ("Tenant", "t-1"),
            ("tenant", "t-2"),
            ("new\r\nline: x", "x"),
            ("größe, x", "x"),
        ]);
        let headers = headers_of(&hostile);
        assert!(!headers.contains_key("x-aws-sqsd-message-group-id"));
        assert!(!headers.contains_key("host"));
        assert_eq!(headers["x-aws-sqsd-attr-message-group-id"], "forged");
        let tenants: Vec<_> = headers.get_all("x-aws-sqsd-attr-tenant").iter().collect();
        assert_eq!(tenants, ["t-1", "t-2"]);
        assert_eq!(
            headers[OMITTED],
            "x-aws-sqsd-attr-a, x-aws-sqsd-attr-b, x-aws-sqsd-attr-c, x-aws-sqsd-attr-gr??e??x, x-aws-sqsd-attr-new??line:?x"
        );
    }

    #[test]
    fn headers_stay_smaller_than_what_servers_read() {
        let long = "x".repeat(VALUE_BYTES);
        let too_long = "x".repeat(VALUE_BYTES + 1);
        let huge = "x".repeat(1 << 20);
        let mut message = with_attributes([
            ("a", &too_long),
            ("b", &huge),
            ("c", &long),
            ("d", &long),
            ("e", "short"),
        ]);
        message.trace_header = Some(huge.clone());
        let headers = headers_of(&message);
        assert_eq!(headers["x-aws-sqsd-attr-c"].len(), VALUE_BYTES);
        assert_eq!(headers["x-aws-sqsd-attr-e"], "short");
        assert_eq!(
            headers[OMITTED],
            "x-amzn-trace-id, x-aws-sqsd-attr-a, x-aws-sqsd-attr-b, x-aws-sqsd-attr-d"
        );
        // The context of a trace takes no place of an attribute.
        let (parent, state) = (
            format!("00-{}-{}-01", "a".repeat(32), "b".repeat(16)),
            "v=1",
        );
        let left = "x".repeat(ALL_BYTES - 600);
        let parts = [&left[..VALUE_BYTES], &left[VALUE_BYTES..]];
        let traced = with_attributes([
            ("a", parts[0]),
            ("b", parts[1]),
            ("traceparent", &parent),
            ("tracestate", state),
        ]);
        let headers = headers_of(&traced);
        assert_eq!(headers["x-aws-sqsd-attr-b"], parts[1]);
        assert_eq!(headers["x-aws-sqsd-attr-traceparent"], parent.as_str());
        // A queue in memory limits neither the number of attributes nor their names.
        for number in 0..10_000 {
            let name = format!("{number}-{}", "n".repeat(200));
            message
                .attributes
                .insert(name, Attribute::string("x".repeat(100)));
        }
        let headers = headers_of(&message);
        let bytes: usize = headers
            .iter()
            .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
            .sum();
        assert!(bytes < 8 << 10, "{bytes}");
        assert!(headers[OMITTED].as_bytes().ends_with(b", ..."));
    }

    #[test]
    fn a_content_type_is_a_type_and_a_subtype_with_or_without_parameters() {
        for text in [
            "text/plain",
            "application/vnd.api+json",
            "text/plain; charset=utf-8",
            "text/plain ;charset=\"utf-8\"",
        ] {
            let parsed = ContentType::parse(text).unwrap();
            assert_eq!(parsed.0, text);
        }
        for text in [
            "",
            "json",
            "/json",
            "text/",
            "text/plain\r\nx: y",
            "text/plain; x=\ny",
            "text/plain; x=\0",
            " text/plain",
            "text /plain",
            "text/pläin",
            "text/plain; x=ä",
        ] {
            assert_eq!(ContentType::parse(text), None, "{text:?}");
        }
        assert_eq!(
            ContentType::parse("application/json").unwrap(),
            ContentType::default()
        );
    }
}
