//! `backstop init`: from a queue and a handler to a configuration, an IAM policy and manifests.

mod ecs;
mod files;
mod given;
mod kubernetes;
mod place;
mod seen;
mod toml;

use std::path::{Path, PathBuf};

use backstop_host::config::Config;
use backstop_host::iam;
use backstop_queue::Connections;
use clap::Parser;
use serde_json::json;

use crate::error::{Context, Result};
use crate::hosts::DEFAULT_CONFIG;
use crate::terminal::{columns, println, wrapped};
use files::Files;
use given::{Flags, Given};
use kubernetes::Overlay;
use seen::Seen;

/// The file with the permissions.
const IAM: &str = "backstop-iam.json";

const EXAMPLES: &str = "\
Examples:
  Answer two questions:
    backstop init

  Without a question, such as in a script:
    backstop init --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders \\
      --http http://127.0.0.1:8080/

  With manifests for a sidecar of each worker in Kubernetes:
    backstop init --kubernetes sidecar

  Without an AWS account, on a queue in memory:
    backstop init --queue-url local:orders --exec ./work.sh --folder try

It reads the attributes of the queue and changes nothing there. It needs sqs:GetQueueAttributes, with the credentials, region and endpoint of the AWS SDK's usual places. What it writes is yours to edit; no file is overwritten, and a second run adds what is missing. Continue with `backstop doctor` and `backstop run` in the folder.

backstop.toml: the queue, its handler, a policy, and a limit on attempts that fits the queue's redrive policy. host/docs/deploy/configuration.md has every key.
backstop-iam.json: the permissions that the host needs for it, as `backstop doctor --iam` prints them.
kubernetes/: with --kubernetes, what `kubectl apply --kustomize` takes, for a cluster of yours (host/docs/deploy/deploy.md).
ecs/task-definition.json: with --ecs, what `aws ecs register-task-definition` takes.";

/// Write a configuration for a queue and a handler, with the IAM policy that it needs
///
/// It asks for what the flags leave out, if there is a terminal. It looks at the queue: its kind, its visibility timeout, its redrive policy and its dead-letter queue.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    flags: Flags,

    /// The folder for the files, which is made if it is missing
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,

    /// Write manifests for Kustomize too, with a configuration for the pods in kubernetes/
    #[arg(long, value_enum, value_name = "WHERE")]
    kubernetes: Option<Overlay>,

    /// Write a task definition for ECS too, with a worker beside the host, in ecs/
    #[arg(long)]
    ecs: bool,

    /// The URL for SQS, in place of the region's endpoint
    #[arg(long, value_name = "URL")]
    endpoint_url: Option<String>,

    /// Print what was found and written as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args) -> Result<()> {
    let given = args.flags.clone().complete()?;
    let connections = Connections::new(args.endpoint_url.clone());
    let seen = Seen::look(&given, &connections).await?;
    let endpoint = args.endpoint_url.as_deref();
    let text = toml::text(&given, &seen, endpoint);
    let config = Config::parse(&text, &args.folder.join(DEFAULT_CONFIG))?;
    let permissions = iam::policy(&config, &connections).await?;
    let mut files = Files::default();
    files.add(DEFAULT_CONFIG, text);
    if !permissions.is_empty() {
        files.add(IAM, permissions.to_text()?);
    }
    if let Some(overlay) = args.kubernetes {
        let text = toml::text_in_a_pod(&given, &seen, endpoint, &overlay.head(&given));
        overlay.add(&mut files, &given, &seen, text)?;
    }
    if args.ecs {
        ecs::add(&mut files, &given, &seen)?;
    }
    let written = files.write(&args.folder)?;
    if args.json {
        println!(
            "{}",
            json!({"files": written, "queue": seen, "advice": seen.advice(&given)})
        );
        return Ok(());
    }
    report(&args, &given, &seen, &written);
    Ok(())
}

fn report(args: &Args, given: &Given, seen: &Seen, written: &[PathBuf]) {
    println!("{}", seen.description());
    for advice in seen.advice(given) {
        println!("change    {}", wrapped(&advice, 10, columns()));
    }
    println!();
    for file in written {
        println!("created   {}", file.display());
    }
    println!();
    if args.folder != Path::new(".") {
        println!("in {}:", args.folder.display());
    }
    println!("check it:  backstop doctor");
    println!("run it:    backstop run");
    if let Some(overlay) = args.kubernetes {
        println!(
            "deploy it: name your images in kubernetes/{0}/kustomization.yaml, create the secret that it shows, and run kubectl apply --kustomize kubernetes/{0}",
            overlay.name()
        );
    }
    if args.ecs {
        println!(
            "deploy it: name your images, roles and secret in {0}, and run aws ecs register-task-definition --cli-input-json file://{0}",
            ecs::FILE
        );
    }
}

/// Creates a folder with those above it.
fn create_folder(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("can't create the folder {}", folder.display()))
}
