//! A table of `[queues]`: one queue to serve.

use std::num::NonZeroU32;
use std::path::Path;

use super::policies::signed_for;
use super::policy::policy;
use super::url::queue_url;
use super::{
    ConfigError, DeciderConfig, HandlerConfig, Options, Places, QueueConfig, raw, shadow, value,
};
use crate::decision::Bounds;
use crate::failure::Milliseconds;
use crate::handler::{ContentType, HttpOptions};
use backstop_functions::is_function;

impl raw::Queue {
    pub(super) fn convert(
        self,
        name: String,
        folder: &Path,
        places: &Places,
    ) -> Result<QueueConfig, ConfigError> {
        if name.trim().is_empty() {
            return Err(value(
                "queues",
                format!("a queue has no name (\"{name}\"): expected one, as in [queues.orders]"),
            ));
        }
        let at = |key: &str| places.of(&format!("queues.{name}.{key}"));
        let options = Options::of(&self, folder, &at);
        let url = queue_url(&at("url"), self.url)?;
        let dead_letter_queues = self
            .dead_letter_queue
            .map(|queues| queues.convert(&at, queue_url))
            .transpose()?
            .unwrap_or_default();
        let live = shadow::settings_of(self.policy.as_ref(), self.settings.as_ref());
        let decider = DeciderConfig {
            shadow: shadow::shadow(self.shadow, self.shadow_settings, live, folder, &at)?,
            policy: policy(self.policy, self.settings, folder, &at)?,
            scenarios: self.scenarios.map(|path| folder.join(path)),
            signed_for: signed_for(&at("signed-for"), self.signed_for)?,
            bounds: Bounds {
                max_attempts: self.max_attempts.and_then(NonZeroU32::new),
                max_age: self.max_age.map(|span| Milliseconds::from_duration(span.0)),
                retention: None,
                allow_discard: self.allow_discard.unwrap_or(true),
            },
        };
        let idempotency = self.idempotency.map(|it| it.convert(&at)).transpose()?;
        let options = options?;
        Ok(QueueConfig {
            idempotency,
            handler: self.handler.unwrap_or_default().convert(&at, folder)?,
            url,
            dead_letter_queues,
            decider,
            options,
            name,
        })
    }
}

impl raw::Handler {
    fn convert(
        self,
        at: &dyn Fn(&str) -> String,
        folder: &Path,
    ) -> Result<HandlerConfig, ConfigError> {
        let of_http = [
            ("proxy", self.proxy.is_some(), "proxy"),
            ("content-type", self.content_type.is_some(), "content type"),
            ("health", self.health.is_some(), "health path"),
        ];
        for (key, is_given, what) in of_http {
            if is_given && self.http.is_none() {
                let text =
                    format!("expected together with `http` only: no other handler has a {what}");
                return Err(value(at(&format!("handler.{key}")), text));
            }
        }
        let content_type = self.content_type.map_or(Ok(ContentType::default()), |text| {
            ContentType::parse(&text).ok_or_else(|| {
                value(
                    at("handler.content-type"),
                    format!("`{text}` is not a content type: expected one such as application/json or text/plain; charset=utf-8"),
                )
            })
        })?;
        let (proxy, health) = (self.proxy, self.health);
        match (self.function, self.http, self.exec, self.lambda) {
            (Some(function), None, None, None) => Ok(HandlerConfig::Function(function)),
            (None, Some(url), None, None) => Ok(HandlerConfig::Http(HttpOptions {
                url,
                proxy,
                content_type,
                health,
            })),
            (None, None, Some(command), None) => {
                let mut words = command.0.into_iter();
                let program = words.next().filter(|program| !program.is_empty());
                let program = program.ok_or_else(|| {
                    value(
                        at("handler.exec"),
                        "expected a program, such as [\"./work.sh\", \"--fast\"]",
                    )
                })?;
                // A bare name is searched for on the PATH; a path is relative to the file's directory.
                let program = if program.contains('/') {
                    folder.join(program).to_string_lossy().into_owned()
                } else {
                    program
                };
                Ok(HandlerConfig::Exec(program, words.collect()))
            }
            (None, None, None, Some(name)) => {
                function(&at("handler.lambda"), name).map(HandlerConfig::Lambda)
            }
            _ => Err(value(
                at("handler"),
                "expected exactly one of `http`, `exec` and `lambda`, such as { http = \"http://127.0.0.1:8080/\" }; in a program, a function is one more choice",
            )),
        }
    }
}

/// Checks the name or ARN of a function, with a version or an alias or without. No request is made.
pub(super) fn function(place: &str, name: String) -> Result<String, ConfigError> {
    if is_function(&name) {
        return Ok(name);
    }
    Err(value(
        place,
        format!(
            "`{name}` is not a function: expected a name or an ARN, with a version or an alias or without, such as orders or orders:live"
        ),
    ))
}
