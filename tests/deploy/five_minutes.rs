//! The commands with which the page about deployments begins.

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::documents::{blocks, document};
use backstop_tests::emulator::{ministack, services};
use backstop_tests::eventually;
use backstop_tests::shell::{Shell, Written};
use backstop_tests::worker::Worker;

const PAGE: &str = "host/docs/deploy/deploy.md";

/// The commands of a section.
fn commands_of(section: &str) -> Vec<String> {
    let page = document(PAGE);
    let (_, rest) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let (section, _) = rest.split_once("\n## ").unwrap_or((rest, ""));
    blocks(section, "sh")
}

/// A shell with an emulator in place of AWS, and what the page calls its queue and its worker.
struct Account {
    folder: tempfile::TempDir,
    queues: Queues,
    worker: Worker,
}

impl Account {
    async fn new() -> Self {
        let queues = Queues::standard(&ministack().endpoint, &[]).await;
        queues.redrive_after(1000).await;
        Self {
            folder: tempfile::tempdir().unwrap(),
            queues,
            worker: Worker::answering(|_| 200).await,
        }
    }

    async fn run(&self, block: &str) -> Written {
        let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
        let block = block
            .replace(url, &self.queues.url)
            .replace("http://127.0.0.1:8080/", &self.worker.url);
        Shell::new(self.folder.path())
            .path(services().join("kubectl"))
            .with_account()
            .with("AWS_ENDPOINT_URL", &self.queues.endpoint)
            .run(&block)
            .await
    }
}

#[tokio::test]
async fn the_page_begins_with_commands_that_serve_a_queue() {
    let shown = commands_of("In five minutes");
    assert_eq!(shown.len(), 3);
    let account = Account::new().await;
    let written = account.run(&shown[0]).await;
    assert!(written.contains("created   backstop-iam.json"));

    assert_eq!(shown[1], "backstop run\n");
    let mut host = command(&["run"]);
    host.current_dir(&account.folder)
        .env("BACKSTOP_CACHE", account.folder.path().join("cache"))
        .env("AWS_ENDPOINT_URL", &account.queues.endpoint);
    let host = Running::start_command(host).await;
    account.queues.send(["one".to_owned()]).await;
    eventually("the worker has the message", || async {
        account.worker.attempts_of("one") == 1
    })
    .await;
    let seen = account.run(&shown[2]).await;
    assert!(seen.contains("orders"), "{}", seen.stdout);
    assert_eq!(host.ended().await.0, 0);
}

#[tokio::test]
async fn its_commands_for_kubernetes_that_need_no_cluster_print_the_manifests() {
    let shown = commands_of("Kubernetes");
    assert_eq!(shown.len(), 2);
    let made = Account::new().await.run(&shown[0]).await;
    assert!(made.contains("terminationGracePeriodSeconds"));
    assert!(shown[1].contains("kubectl apply"), "{}", shown[1]);
}
