//! The creation context of a message: the span that sent it, as its sender has written it on the message.

use std::sync::OnceLock;

use crate::TraceContext;

/// The message attribute, and the header, with W3C's trace context.
pub const TRACEPARENT: &str = "traceparent";

/// The message attribute, and the header, with what vendors add to it.
pub const TRACESTATE: &str = "tracestate";

/// The most bytes of a `tracestate`, as many as W3C wants to be passed on.
const STATE_BYTES: usize = 512;

/// A creation context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Creation {
    /// The span that sent the message.
    pub context: TraceContext,
    /// What vendors add to it.
    pub state: Option<String>,
}

impl From<TraceContext> for Creation {
    fn from(context: TraceContext) -> Self {
        Self {
            context,
            state: None,
        }
    }
}

/// The variables of the environment.
pub type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Which forms are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Forms {
    w3c: bool,
    xray: bool,
}

impl Forms {
    /// Those that `OTEL_PROPAGATORS` names; without it, both.
    fn of(variables: Variables<'_>) -> Self {
        let Some(names) = variables("OTEL_PROPAGATORS").filter(|it| !it.trim().is_empty()) else {
            return Self {
                w3c: true,
                xray: true,
            };
        };
        let has = |wanted: &[&str]| names.split(',').any(|name| wanted.contains(&name.trim()));
        Self {
            w3c: has(&["tracecontext"]),
            xray: has(&["xray", "xray-lambda"]),
        }
    }

    /// Those of this process.
    fn current() -> Self {
        static FORMS: OnceLock<Forms> = OnceLock::new();
        *FORMS.get_or_init(|| Self::of(&|name| std::env::var(name).ok()))
    }

    fn read(
        self,
        traceparent: Option<&str>,
        tracestate: Option<&str>,
        xray: Option<&str>,
    ) -> Option<Creation> {
        let w3c = traceparent.filter(|_| self.w3c);
        if let Some(context) = w3c.and_then(TraceContext::of_traceparent) {
            let state = tracestate.filter(|it| is_state(it)).map(str::to_owned);
            return Some(Creation { context, state });
        }
        let xray = xray.filter(|_| self.xray);
        let context = xray.and_then(TraceContext::of_xray)?;
        Some(Creation {
            context,
            state: None,
        })
    }
}

impl Creation {
    /// That of a message with these attributes and this `AWSTraceHeader`: W3C's if it is valid, else that of X-Ray. `OTEL_PROPAGATORS` may leave out either.
    pub fn read(
        traceparent: Option<&str>,
        tracestate: Option<&str>,
        xray: Option<&str>,
    ) -> Option<Self> {
        Forms::current().read(traceparent, tracestate, xray)
    }
}

/// Whether a text can be passed on as a `tracestate`.
fn is_state(text: &str) -> bool {
    let is_printable = |byte: u8| matches!(byte, b' '..=b'~');
    text.len() <= STATE_BYTES && text.contains('=') && text.bytes().all(is_printable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const XRAY: &str = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";

    fn forms(propagators: Option<&str>) -> Forms {
        Forms::of(&|_| propagators.map(str::to_owned))
    }

    fn read(forms: Forms, parent: Option<&str>, xray: Option<&str>) -> Option<String> {
        let read = forms.read(parent, Some("v=1"), xray)?;
        Some(read.context.to_string() + read.state.as_deref().unwrap_or_default())
    }

    #[test]
    fn both_forms_are_read_and_that_of_w3c_first() {
        let both = forms(None);
        let w3c = Some(format!("{PARENT}v=1"));
        let xray = TraceContext::of_xray(XRAY).map(|it| it.to_string());
        assert_eq!(read(both, Some(PARENT), Some(XRAY)), w3c);
        assert_eq!(read(both, Some("forged"), Some(XRAY)), xray);
        assert_eq!(read(both, None, Some(XRAY)), xray);
        assert_eq!(read(both, Some("forged"), Some("forged")), None);
        assert_eq!(read(both, None, None), None);
    }

    #[test]
    fn the_standard_variable_leaves_out_a_form() {
        let (w3c, xray) = (forms(Some("tracecontext,baggage")), forms(Some(" xray ")));
        assert_eq!(read(w3c, None, Some(XRAY)), None);
        assert_eq!(read(xray, Some(PARENT), None), None);
        assert!(read(xray, Some(PARENT), Some(XRAY)).is_some());
        assert_eq!(read(forms(Some("none")), Some(PARENT), Some(XRAY)), None);
        assert!(read(forms(Some("")), Some(PARENT), None).is_some());
    }

    #[test]
    fn a_state_that_no_header_can_have_is_left_out() {
        let long = format!("v={}", "x".repeat(STATE_BYTES));
        for state in ["v=a\r\nx: y", "v=ä", "none", &long] {
            let read = forms(None).read(Some(PARENT), Some(state), None).unwrap();
            assert_eq!(read.state, None, "{state}");
        }
    }
}
