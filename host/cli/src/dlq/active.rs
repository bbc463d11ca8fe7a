//! The version of a queue's policy that is active: that of the running hosts, which may be another one than its source has now, as after a rollback.

use std::path::{Path, PathBuf};

use backstop_core::policy::{PartName, PolicyDigest};
use backstop_core::text::one_line;
use backstop_engine::Policy;
use backstop_host::assembly::Assembly;
use backstop_host::config::Config;
use backstop_versions::{PolicyError, PolicySpec, Source, Store};

use crate::error::{Exit, Result};
use crate::hosts::{HostPlace, serves, status};

/// A version, and who says that it is the one to ask.
pub(super) struct Active {
    pub(super) policy: Policy,
    /// The hosts on which it is active. Without one, it is what the source has now.
    pub(super) hosts: usize,
    /// Whether the source has another version now, or none.
    pub(super) differs: bool,
}

impl Active {
    /// A version that was named.
    pub(super) fn named(policy: Policy) -> Self {
        Self {
            policy,
            hosts: 0,
            differs: false,
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
        let (live, hosts) = live(place, path, queue)?;
        if live.is_empty() {
            return Ok(Self::named(of_source?));
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
            });
        }
        let folder = place.folder(path)?;
        let kept = kept(spec, &live, &folder).ok_or_else(|| {
            let digests: Vec<_> = live.iter().map(|it| it.digest.to_string()).collect();
            Exit::Policy.because(format!(
                "the version of `{}` that is active on its hosts, {}, is neither what its source has now nor in the cache folder {}: name its file with --policy",
                one_line(queue),
                digests.join(" + "),
                folder.display()
            ))
        })?;
        Ok(Self {
            policy: load(&kept)?,
            hosts,
            differs: true,
        })
    }

    /// Who says so, for people. Nothing for a version that was named.
    pub(super) fn text(&self) -> Option<String> {
        let on = match self.hosts {
            0 => return None,
            1 => "1 host".to_owned(),
            hosts => format!("{hosts} hosts"),
        };
        let differs = if self.differs {
            "; its source has another version now, or none"
        } else {
            ""
        };
        Some(format!("active on {on}{differs}"))
    }
}

/// What tells versions apart.
fn version(part: PartName) -> (PolicyDigest, backstop_core::settings::Settings) {
    (part.digest, part.settings)
}

/// The version that is active on all hosts of a queue, and their number: none if no host is asked, or if there is no valid version yet.
fn live(place: &HostPlace, config: Option<&Path>, queue: &str) -> Result<(Vec<PartName>, usize)> {
    let hosts = place.running(config)?;
    let answers = hosts.each(status);
    let answers = match answers {
        Err(error) if error.error.is::<crate::hosts::NoHost>() => Vec::new(),
        answers => answers?,
    };
    let mut found: Vec<(String, Vec<PartName>)> = Vec::new();
    for (host, status) in answers.iter().filter(|(_, status)| serves(status, queue)) {
        let queues = status.queues.iter().filter(|it| it.queue == queue);
        found.extend(queues.map(|it| (host.name().to_owned(), it.policy.live.clone())));
    }
    let Some((_, first)) = found.first().cloned() else {
        return Ok((Vec::new(), 0));
    };
    if let Some((other, version)) = found.iter().find(|(_, live)| *live != first) {
        let digests = |live: &[PartName]| {
            let digests = live.iter().map(|it| it.digest.to_string());
            digests.collect::<Vec<_>>().join(" + ")
        };
        return Err(Exit::Policy.because(format!(
            "the hosts of `{}` have different active versions ({} on {}, {} on {}): name the one to ask with --policy",
            one_line(queue),
            digests(&first),
            one_line(&found.first().map(|it| it.0.clone()).unwrap_or_default()),
            digests(version),
            one_line(other)
        )));
    }
    Ok((first, found.len()))
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
