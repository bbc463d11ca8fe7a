//! Trace context as it is written down: W3C's `traceparent`, and the header of X-Ray. What comes from outside is read within bounds, and what is invalid is none.
//!
//! The formats: <https://www.w3.org/TR/trace-context/> and <https://docs.aws.amazon.com/xray/latest/devguide/xray-concepts.html#xray-concepts-tracingheader>.

use std::fmt;

/// The most bytes of a text that is read: a later version of W3C's may be longer than the 55 of today's.
const TEXT_BYTES: usize = 1 << 10;

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// A span in its trace, here or in another process. Neither id is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace.
    pub trace: u128,
    /// The id of the span.
    pub span: u64,
    /// Whether the trace is recorded, by the decision of whoever began it.
    pub is_sampled: bool,
}

/// Shows the `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(f, "00-{:032x}-{:016x}-{flags:02x}", self.trace, self.span)
    }
}

impl TraceContext {
    fn of(trace: &str, span: &str, is_sampled: bool) -> Option<Self> {
        let (trace, span) = (number(trace, 32)?, number(span, 16)?);
        let span = u64::try_from(span).ok()?;
        (trace != 0 && span != 0).then_some(Self {
            trace,
            span,
            is_sampled,
        })
    }

    /// Reads a `traceparent`, such as `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    pub fn of_traceparent(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES {
            return None;
        }
        let mut parts = text.split('-');
        let (version, trace, span, flags) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let version = number(version, 2)?;
        let flags = number(flags, 2)?;
        // What a later version adds is at its end.
        let is_known = match version {
            0 => parts.next().is_none(),
            0xff => false,
            _ => true,
        };
        let is_sampled = flags & u128::from(SAMPLED) != 0;
        Self::of(trace, span, is_sampled).filter(|_| is_known)
    }

    /// Reads X-Ray's header, such as `Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1`. One without a parent names a trace and no span in it.
    pub fn of_xray(text: &str) -> Option<Self> {
        if text.len() > TEXT_BYTES {
            return None;
        }
        let (mut root, mut parent, mut is_sampled) = (None, None, false);
        for (name, value) in parts(text) {
            match name {
                "Root" => root = Some(value),
                "Parent" => parent = Some(value),
                "Sampled" => is_sampled = value == "1",
                _ => {}
            }
        }
        let (time, random) = root?.strip_prefix("1-")?.split_once('-')?;
        let is_root = time.len() == 8 && random.len() == 24;
        Self::of(&format!("{time}{random}"), parent?, is_sampled).filter(|_| is_root)
    }

    /// X-Ray's header for this span, with the other parts of `before`: one of them is how Lambda counts the invocations of a chain.
    pub fn xray(&self, before: Option<&str>) -> String {
        let trace = format!("{:032x}", self.trace);
        let (time, random) = trace.split_at(8);
        let sampled = u8::from(self.is_sampled);
        let mut header = format!(
            "Root=1-{time}-{random};Parent={:016x};Sampled={sampled}",
            self.span
        );
        let before = before.filter(|it| it.len() <= TEXT_BYTES);
        for (name, value) in before.into_iter().flat_map(parts) {
            if !["Root", "Parent", "Sampled", "Self"].contains(&name) {
                header += &format!(";{name}={value}");
            }
        }
        header
    }
}

fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(';').filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name.trim(), value.trim()))
    })
}

/// A number of so many hexadecimal digits in lower case, the only ones that W3C allows.
fn number(text: &str, digits: usize) -> Option<u128> {
    let is_number = text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(text, 16).ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_read_as_w3c_writes_it() {
        let read = TraceContext::of_traceparent;
        assert_eq!(read(PARENT).unwrap().to_string(), PARENT);
        assert!(!read(&PARENT.replace("-01", "-00")).unwrap().is_sampled);
        // A later version, with more at its end and more flags.
        let later = PARENT.replacen("00", "cc", 1).replace("-01", "-03-more");
        assert_eq!(read(&later).unwrap().to_string(), PARENT);
    }

    #[test]
    fn an_invalid_traceparent_is_none() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-01", "0".repeat(32));
        let zero_span = format!("00-0af7651916cd43dd8448eb211c80319c-{}-01", "0".repeat(16));
        let long = PARENT.replacen("00", "cc", 1) + "-" + &"x".repeat(TEXT_BYTES);
        for text in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &format!("{PARENT}-more"),
            &PARENT.replace("-01", ""),
            &PARENT.replace("-01", "-1"),
            &PARENT.replace("0af7", "+af7"),
            &PARENT.replace("0af7", "0äf"),
            &format!(" {PARENT}"),
            &zero_trace,
            &zero_span,
            &long,
        ] {
            assert_eq!(TraceContext::of_traceparent(text), None, "{text}");
        }
    }

    #[test]
    fn the_header_of_x_ray_is_read_in_any_order_and_made_with_what_else_it_had() {
        let read = TraceContext::of_xray;
        let header = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let context = read(header).unwrap();
        assert_eq!(
            context.to_string(),
            "00-5759e988bd862e3fe1be46a994272793-53995c3f42cd8ad8-01"
        );
        assert_eq!(context.xray(None), header);
        let other = "Lineage=a:1|b:2; Sampled=0 ;Self=1-2-3; Parent=53995c3f42cd8ad8 ;Root=1-5759e988-bd862e3fe1be46a994272793";
        assert!(!read(other).unwrap().is_sampled);
        assert_eq!(
            context.xray(Some(other)),
            format!("{header};Lineage=a:1|b:2")
        );
        for text in [
            "",
            "Root=1-5759e988-bd862e3fe1be46a994272793",
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=;Sampled=1",
            "Root=2-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-5759e988b-d862e3fe1be46a994272793;Parent=53995c3f42cd8ad8",
            "Root=1-00000000-000000000000000000000000;Parent=53995c3f42cd8ad8",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., is_sampled: bool) {
            let context = TraceContext { trace, span, is_sampled };
            prop_assert_eq!(TraceContext::of_traceparent(&context.to_string()), Some(context));
            prop_assert_eq!(TraceContext::of_xray(&context.xray(None)), Some(context));
        }

        #[test]
        fn no_text_is_a_panic(text in "\\PC{0,80}") {
            let _ = TraceContext::of_traceparent(&text);
            let _ = TraceContext::of_xray(&text);
        }
    }
}
