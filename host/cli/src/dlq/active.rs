//! The version of a queue's policy that is active: that of the running hosts, which may be another one than its source has now, as after a rollback.

use std::path::{Path, PathBuf};

use backstop_core::policy::{PartName, PolicyDigest};
use backstop_core::text::one_line;
use backstop_engine::Policy;
use backstop_host::admin::QueueStatus;
use backstop_host::assembly::Assembly;
use backstop_host::config::Config;
use backstop_versions::{PolicyError, PolicySpec, Source, Store};

use crate::error::{Exit, Result};
use crate::hosts::{HostPlace, NoHost, status};
use crate::terminal::counted;

/// A version, and who says that it is the one to ask.
pub(super) struct Active {
    pub(super) policy: Policy,
    /// The hosts on which it is active. Without one, it is what the source has now.
    pub(super) hosts: usize,
    /// Whether the source has another version now, or none.
    pub(super) differs: bool,
    /// The hosts that have not answered, and why.
    pub(super) missed: Vec<String>,
}

impl Active {
    /// A version that was named.
    pub(super) fn named(policy: Policy) -> Self {
        Self {
            policy,
            hosts: 0,
            differs: false,
            missed: Vec::new(),
        }
    }

    /// That of a queue of the configuration. Blocks.
    pub(super) fn of_queue(
        place: &HostPlace,
        (path, config): (Option<&Path>, &Config),
        queue: &str,
        spec: &PolicySpec,
    ) -> Result<Self> {
        let assembly = Assembly::for_check(config)?;
        let load = |spec: &PolicySpec| -> Result<Policy, PolicyError> {
            Ok(Policy::clone(&assembly.load(spec)?.current()))
        };
        let of_source = load(spec);
        let mut queues = config.queues.iter();
        let url = queues.find(|it| it.name == queue).map(|it| it.url.as_str());
        let Live {
            version: live,
            hosts,
            missed,
        } = live(place, path, queue, url)?;
        if live.is_empty() {
            let source = Self::named(of_source?);
            return Ok(Self { missed, ..source });
        }
        let differs = |policy: &Policy| {
            !policy
                .parts()
                .map(version)
                .eq(live.iter().cloned().map(version))
        };
        if let Ok(policy) = of_source
            && !differs(&policy)
        {
            return Ok(Self {
                policy,
                hosts,
                differs: false,
                missed,
            });
        }
        let folder = place.folder(path)?;
        let kept = kept(spec, &live, &folder).ok_or_else(|| {
            Exit::Policy.because(format!(
                "the version of `{}` that is active on its hosts, {}, is neither what its source has now nor in the cache folder {}: name its file with --policy",
                one_line(queue),
                digests(&live),
                folder.display()
            ))
        })?;
        Ok(Self {
            policy: load(&kept)?,
            hosts,
            differs: true,
            missed,
        })
    }

    /// Who says so, for people. Nothing for a version that was named.
    pub(super) fn text(&self) -> Option<String> {
        let missed = match self.missed.len() {
            0 => String::new(),
            missed => format!(
                "; {} did not answer, and may have another version",
                counted(missed as u64, "host")
            ),
        };
        let on = match self.hosts {
            0 if missed.is_empty() => return None,
            0 => return Some(format!("what its source has now{missed}")),
            1 => "1 host".to_owned(),
            hosts => format!("{hosts} hosts"),
        };
        let differs = if self.differs {
            "; its source has another version now, or none"
        } else {
            ""
        };
        Some(format!("active on {on}{differs}{missed}"))
    }
}

/// What tells versions apart.
fn version(part: PartName) -> (PolicyDigest, backstop_core::settings::Settings) {
    (part.digest, part.settings)
}

/// What the hosts of a queue say.
#[derive(Default)]
struct Live {
    /// The version that is active on all of them: nothing if no host is asked, or if there is no valid version yet.
    version: Vec<PartName>,
    hosts: usize,
    missed: Vec<String>,
}

/// Asks the hosts of a queue. One of another queue with the same name, as in another environment, is none of them.
fn live(place: &HostPlace, config: Option<&Path>, queue: &str, url: Option<&str>) -> Result<Live> {
    let hosts = place.running(config)?;
    let answers = match hosts.each(status) {
        Err(error) if error.error.is::<NoHost>() => Vec::new(),
        answers => answers?,
    };
    let missed = hosts.missed();
    let mut found: Vec<(String, Vec<PartName>)> = Vec::new();
    for (host, status) in &answers {
        let is_it = |it: &&QueueStatus| it.queue == queue && it.url.as_deref() == url;
        let queues = status.queues.iter().filter(is_it);
        found.extend(queues.map(|it| (host.name().to_owned(), it.policy.live.clone())));
    }
    let Some((host, first)) = found.first() else {
        return Ok(Live {
            missed,
            ..Live::default()
        });
    };
    let versions = |live: &[PartName]| live.iter().cloned().map(version).collect::<Vec<_>>();
    let other = found
        .iter()
        .find(|(_, live)| versions(live) != versions(first));
    if let Some((other, live)) = other {
        return Err(Exit::Policy.because(format!(
            "the hosts of `{}` have different active versions ({} on {}, {} on {}): name the one to ask with --policy",
            one_line(queue),
            digests(first),
            one_line(host),
            digests(live),
            one_line(other)
        )));
    }
    Ok(Live {
        version: first.clone(),
        hosts: found.len(),
        missed,
    })
}

fn digests(live: &[PartName]) -> String {
    let digests: Vec<_> = live.iter().map(|it| it.digest.to_string()).collect();
    digests.join(" + ")
}

/// The policy with the files of a version that a cache folder keeps.
fn kept(spec: &PolicySpec, live: &[PartName], folder: &Path) -> Option<PolicySpec> {
    let paths: Vec<PathBuf> = live
        .iter()
        .map(|part| Store::file_in(folder, part.digest))
        .collect();
    let are_there = paths.iter().all(|path| path.is_file());
    let parts = live.iter().zip(&paths);
    let parts = parts.map(|(part, path)| (Source::path(path), part.settings.clone()));
    spec.clone()
        .with_parts(parts.collect())
        .filter(|_| are_there)
}
