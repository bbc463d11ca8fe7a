//! `backstop why`: the life of one message, from decision records and from the hosts that remember it.

mod letters;
mod print;
mod story;
mod waiting;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Seek};
use std::path::{Path, PathBuf};

use backstop_core::clock;
use backstop_core::settings::parse_pair;
use backstop_core::text::one_line;
use backstop_dead_letters::redrive::Runs;
use backstop_files::regular_file::described;
use backstop_host::admin::{Host, HostMessages};
use backstop_host::config::Config;
use backstop_records::{Destination, files_of};
use backstop_settle::waiting::Reach;
use backstop_workbench::replay::Candidate;
use clap::Parser;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::runtime::Handle;

use self::story::{Sources, Story};
use crate::dlq::runs;
use crate::error::{CommandError, Exit, Result, unreadable};
use crate::hosts::{HostPlace, Hosts, NoHost, default_config};
use crate::ids::{Kind, elsewhere};
use crate::policy::replay::candidates::{named, queues};
use crate::terminal::{count, joined, println};
use crate::waiting::OUT_OF_REACH;

/// The most ids of a message that hosts are asked for: the last ones.
const MOST_ASKED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  Why a message waits, and until when, from the hosts of this machine:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274

  Its whole life, also once it was dead-lettered, from decision records too:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl

  What a changed policy would say to each of its failures:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions.jsonl --policy ./mine.wasm

  The same with the policies and limits that the hosts are configured with, from the records that they write:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 --config backstop.toml

  Records of several days and hosts, also those that gzip has compressed:
    backstop why 5fea7756-0ea4-451a-a703-a558b933e274 decisions-*.gz

  From the id of a letter, with an archive, and the runs that operators share:
    backstop why 9f0c2d3e-5b7a-4f6e-8d1c-2a3b4c5d6e7f decisions-*.gz --archive old.jsonl --runs s3://operations/redrives

Exits with 1 if no host remembers the message and no record has its id. A host remembers a message while it waits, and only if the host has seen it fail since its start. `backstop run --decisions FILE` writes records";

/// Show the life of one message: its attempts, why each failed, what was decided, and what became of it
///
/// A message gets a new id when it is sent again, when it dies and when it is redriven. Each of them leads to the same story: records, archives and the runs of `dlq redrive` name the ids that belong together. The hosts that run on this machine, or the one of --admin, are asked whether the message waits: until when, and what their active policy would say today. The steps are shown in their order, whichever file or host they come from: attempts with the error, the class, the decision and who made it, and when the next one is due; wakes, pauses of the queue, deaths, archives, redrives, and the success. With --policy or --config, each failure also gets the answer of that policy; with --config within the limits of the queue, and without RECORDS from the file that its `decisions.record` names.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// An id of the message, as logs, decision records, letters, archives and the other commands have it. The id of a redrive's run shows the run, as `dlq runs` does
    #[arg(value_name = "MESSAGE-ID")]
    message: String,

    /// Files with decision records, or - for standard input [default: the file of `decisions.record` in --config]
    #[arg(value_name = "RECORDS")]
    records: Vec<PathBuf>,

    /// Also show the answers of this policy: a built-in, the path of a .wasm or .wat file, a policy's folder (built first if it changed), s3://bucket/key or oci://registry/repository:tag
    #[arg(long, value_name = "NAME|PATH|URL", conflicts_with = "config")]
    policy: Option<String>,

    /// A setting of the policy, such as base=2s; replaces all recorded settings; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = parse_pair, requires = "policy")]
    settings: Vec<(String, String)>,

    /// Also show the answers of the policies of the queues in this configuration, within their limits [default: backstop.toml, if it is in this folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Also show when letters of the message were archived, from this file of `dlq archive`; may be repeated
    #[arg(long, value_name = "FILE")]
    archive: Vec<PathBuf>,

    /// Also show the redrives of these runs: a folder, or s3://bucket/prefix [default: the folder of this user, or of BACKSTOP_STATE if that is one]
    #[arg(long, value_name = "FOLDER|s3://…")]
    runs: Option<String>,

    #[command(flatten)]
    place: HostPlace,

    /// Print the records, the steps and the answers as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if Kind::of(&args.message) == Some(Kind::Run) && runs::show(&args.message, args.json)? {
        return Ok(());
    }
    let records = args.records()?;
    let copy = copy_of_stdin(&records)?;
    let sources = Sources {
        records,
        stdin: copy.as_ref().map(|it| it.path().to_owned()),
        archives: args.archive.clone(),
        runs: Handle::current().block_on(runs::of(args.runs.as_deref()))?,
        is_quiet: false,
    };
    let story = sources.read(&args.message, args.candidate()?.as_ref())?;
    let hosts = args.place.running(args.config.as_deref())?;
    let hosts = args.remembered(&hosts, &story)?;
    let is_waiting = hosts.iter().any(|(_, it)| !it.messages.is_empty());
    if story.is_empty() && !is_waiting {
        let answers: Vec<_> = hosts.iter().map(|(_, answer)| answer).collect();
        return Err(nothing_found(args, &sources.records, &story, &answers));
    }
    if args.json {
        let hosts: Vec<_> = hosts.iter().map(|(_, messages)| messages).collect();
        let story = story.json(&args.message);
        println!("{}", joined(story, json!({"hosts": hosts})));
        return Ok(());
    }
    let now = clock::now();
    if !story.is_empty() {
        print::print(&story, &args.message, is_waiting, now);
    }
    for (host, answer) in &hosts {
        for message in &answer.messages {
            waiting::print(host, message, now);
        }
    }
    Ok(())
}

/// The life of a message as these files of records and the runs in this folder tell it, without the decisions in full. Blocks.
pub(crate) fn story(id: &str, records: Vec<PathBuf>, runs: Option<&Path>) -> Result<Value> {
    let sources = Sources {
        records,
        stdin: None,
        archives: Vec::new(),
        runs: runs.map(Runs::at),
        is_quiet: true,
    };
    let mut story = sources.read(id, None)?.json(id);
    if let Some(story) = story.as_object_mut() {
        story.remove("decisions");
    }
    Ok(story)
}

/// Standard input is read as often as further ids turn up, so it is copied to a file.
fn copy_of_stdin(records: &[PathBuf]) -> Result<Option<NamedTempFile>> {
    if !records.iter().any(|path| path == Path::new("-")) {
        return Ok(None);
    }
    let copied = || {
        let mut copy = NamedTempFile::new()?;
        io::copy(&mut io::stdin().lock(), &mut copy)?;
        copy.rewind()?;
        Ok(copy)
    };
    copied()
        .map(Some)
        .map_err(unreadable("the records", Path::new("standard input")))
}

impl Args {
    fn config(&self) -> Option<PathBuf> {
        let given = self.config.clone();
        given.or_else(|| default_config().filter(|_| self.policy.is_none()))
    }

    /// What running hosts remember of the message, under the id that was given and those that were found.
    fn remembered<'a>(
        &self,
        hosts: &'a Hosts,
        story: &Story,
    ) -> Result<Vec<(&'a Host, HostMessages)>> {
        let named = story.named().into_iter();
        // A host knows a message by its last id, or by its first.
        let others: Vec<_> = named
            .rev()
            .filter(|id| *id != self.message)
            .take(MOST_ASKED)
            .collect();
        let of = async |host: &Host, id: &str| {
            host.get::<HostMessages>(&["v1", "messages", id], &[]).await
        };
        let answered = hosts.each(async |host| {
            let mut all = of(host, &self.message).await?;
            for id in &others {
                all.messages.extend(of(host, id).await?.messages);
            }
            Ok(all)
        });
        match answered {
            Err(error) if error.error.is::<NoHost>() => Ok(Vec::new()),
            answered => answered,
        }
    }

    /// The files of the flags, or the one that the configuration names, once there is one.
    fn records(&self) -> Result<Vec<PathBuf>> {
        let (true, Some(config)) = (self.records.is_empty(), self.config()) else {
            return Ok(self.records.clone());
        };
        let Some(Destination::File { path: file, .. }) = Config::read(&config)?.decisions else {
            return Ok(Vec::new());
        };
        let mut files = files_of(&file);
        match described(&file) {
            Ok(_) => Ok(files),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                files.pop();
                Ok(files)
            }
            Err(error) => Err(unreadable("the records", &file)(error)),
        }
    }

    fn candidate(&self) -> Result<Option<Candidate>> {
        match (&self.policy, self.config()) {
            (Some(name), _) => named(name, &self.settings).map(Some),
            (None, Some(path)) => queues(&path, None).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn nothing_found(
    args: &Args,
    records: &[PathBuf],
    story: &Story,
    hosts: &[&HostMessages],
) -> CommandError {
    let files: Vec<_> = records
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let message = one_line(&args.message);
    let asked = match hosts.len() {
        0 => "no running host was found".to_owned(),
        1 => "the running host does not remember it".to_owned(),
        hosts => format!("none of {hosts} running hosts remembers it"),
    };
    let mut text = if files.is_empty() {
        format!(
            "nothing is known of the message {message}: {asked}. It does not wait, or it failed before the host was started, or on another machine (`--admin`). Decision records know more: `backstop why {message} RECORDS`, with the file of `decisions.record` in the host's configuration"
        )
    } else {
        format!(
            "no decision record in {} is of the message {message}, and {asked}: it has not failed, or its host writes its records to another file (`decisions.record` in its configuration)",
            files.join(", "),
        )
    };
    text.push_str(&out_of_reach(hosts));
    text.push_str(
        ". If it is the id of a letter, `backstop dlq show QUEUE ID` says which message that was",
    );
    if let Some((at, why)) = &story.life.unreadable {
        text.push_str(&format!("; {at} names it and is {why}"));
    }
    for gap in &story.gaps {
        text.push_str(&format!("; {gap}"));
    }
    text.push_str(&elsewhere(&args.message, &[Kind::Message]));
    Exit::Unexpected.because(text)
}

/// `. About 340 invisible messages of orders are out of reach, …`
fn out_of_reach(hosts: &[&HostMessages]) -> String {
    let mut queues: BTreeMap<&str, Vec<Reach>> = BTreeMap::new();
    for it in hosts.iter().flat_map(|host| &host.reach) {
        queues.entry(&it.queue).or_default().push(it.reach);
    }
    let missing = queues.into_iter().filter_map(|(queue, reaches)| {
        let missing = Reach::missing(reaches).filter(|number| *number > 0)?;
        Some(format!("{} of {}", count(missing), one_line(queue)))
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        return String::new();
    }
    format!(
        ". About so many invisible messages are out of reach, {OUT_OF_REACH}: {}",
        missing.join(", ")
    )
}
