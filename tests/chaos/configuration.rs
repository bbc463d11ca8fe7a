//! The configuration of a host: a file of the command, or the options of a program with workers inside. Both have the same keys.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::host::Host;
use crate::lying::Planted;
use crate::plan::{ATTEMPT_TIMEOUT, GRACE, MAX_ATTEMPTS, Program, QUEUES, VISIBILITY};
use crate::site::World;

impl World {
    /// The configuration of a host, as its program reads it.
    pub(crate) fn config(&self, host: &Host) -> String {
        match host.program {
            Program::Command => self.toml(host),
            Program::Python | Program::Node => self.options(host).to_string(),
        }
    }

    fn toml(&self, host: &Host) -> String {
        let mut text = format!(
            "endpoint-url = \"{}\"\n\n[policies]\ncache = \"{}\"\nrefresh = \"5s\"\n\n[decisions]\nrecord = \"{}\"\nrecords = \"all\"\n",
            host.endpoint(),
            host.cache.display(),
            host.records().display(),
        );
        for at in host.queues() {
            text += &format!("\n[queues.{}]\n", QUEUES[at].name);
            let worker = host.to_worker(at).port;
            let handler = format!("http://127.0.0.1:{worker}/{}", host.plan.name);
            let mut keys = self.keys(host, at);
            keys.insert("handler".to_owned(), json!({"http": handler}));
            for (key, value) in keys {
                text += &format!("{key} = {}\n", of_toml(&value));
            }
        }
        text
    }

    fn options(&self, host: &Host) -> Value {
        let queues = host.queues().map(|at| {
            json!({
                "name": QUEUES[at].name,
                "lines": host.lines(at),
                "is-coroutine": at % 2 == 1,
                "keys": self.keys(host, at),
            })
        });
        json!({
            "host": host.plan.name,
            "forgets": self.has(Planted::Forgets),
            "keys": {
                "endpoint-url": host.endpoint(),
                "cache": host.cache,
                "refresh": "5s",
                "decisions": host.records(),
                "decisions-records": "all",
            },
            "queues": queues.collect::<Vec<_>>(),
        })
    }

    /// The keys of a queue, but for its handler.
    fn keys(&self, host: &Host, at: usize) -> Map<String, Value> {
        let queue = &QUEUES[at];
        let (url, dead) = &self.urls[at];
        let endpoint = self.emulators[host.plan.site].endpoint();
        let behind = |url: &str| url.replace(&endpoint, &host.endpoint());
        let seconds = |number: u64| format!("{number}s");
        let mut keys = json!({
            "url": behind(url),
            "dead-letter-queue": behind(dead),
            "hold": queue.hold,
            "max-attempts": MAX_ATTEMPTS,
            "allow-discard": false,
            "max-in-flight": 50,
            "visibility-timeout": seconds(VISIBILITY),
            "attempt-timeout": seconds(ATTEMPT_TIMEOUT),
            "grace": seconds(GRACE),
        });
        if queue.file {
            keys["policy"] = json!(self.policy_file(at));
        } else {
            keys["policy"] = json!("full-jitter");
            keys["settings"] = json!({"base": "500ms", "cap": "4s"});
        }
        if !queue.fifo {
            keys["envelope-key-file"] = json!(self.folder.join("envelope-key"));
        }
        match keys {
            Value::Object(keys) => keys,
            _ => unreachable!(),
        }
    }
}

/// What JSON and TOML write in the same way, and tables.
fn of_toml(value: &Value) -> String {
    let Value::Object(table) = value else {
        return value.to_string();
    };
    let entries = table.iter().map(|(key, value)| format!("{key} = {value}"));
    format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
}

impl Host {
    /// Its queues, by their places in [`QUEUES`].
    pub(crate) fn queues(&self) -> impl Iterator<Item = usize> {
        (0..QUEUES.len()).filter(|at| self.serves(*at))
    }

    /// Where it reaches its queues.
    fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.to_queue.port)
    }

    /// The lines of a queue's worker that is inside of it.
    pub(crate) fn lines(&self, queue: usize) -> PathBuf {
        self.folder
            .join(format!("worker-{}.jsonl", QUEUES[queue].name))
    }
}
