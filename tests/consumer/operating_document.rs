//! The commands of the page for operators, run one after another against a host whose configuration has the page's tables.

use std::fmt::Write;
use std::path::Path;

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::documents::{blocks, document};
use backstop_tests::emulator::ministack;
use backstop_tests::shell::Shell;
use backstop_tests::worker::{Worker, numbered};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A host of the queue `orders`, with the tables that the page shows.
async fn host(folder: &Path, queues: &Queues, page: &str) -> Running {
    let worker = Worker::answering(|_| 200).await;
    let mut config = format!(
        "endpoint-url = {:?}\nadmin = \"127.0.0.1:0\"\nadmin-token-file = \"token\"\nadmin-hosts = [\"localhost\"]\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {{ http = {:?} }}\n",
        queues.endpoint, queues.url, queues.dead_letters, worker.url
    );
    for name in ["limit-each", "breaker"] {
        let title = format!("[queues.orders.{name}]\n");
        let tables = blocks(page, "toml");
        let mut tables = tables.iter().filter_map(|block| block.split_once(&title));
        let (_, table) = tables.next().unwrap_or_else(|| panic!("{title}"));
        write!(config, "{title}{table}").unwrap();
    }
    std::fs::write(folder.join("token"), TOKEN).unwrap();
    std::fs::write(folder.join("backstop.toml"), config).unwrap();
    let mut run = command(&["run", "--json", "--config", "backstop.toml"]);
    run.current_dir(folder);
    Running::start_command(run).await
}

#[tokio::test]
async fn the_commands_for_operators_run() {
    let page = document("host/docs/operate/operating.md");
    let folder = tempfile::tempdir().unwrap();
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.send(numbered("fine", 20)).await;
    let host = host(folder.path(), &queues, &page).await;
    let (_, port) = host
        .admin()
        .rsplit_once(':')
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let shell = Shell::new(folder.path())
        .with_account()
        .with("BACKSTOP_ADMIN_TOKEN", TOKEN);
    // Each block of commands, and what is in its output.
    let expected: [&[&str]; 8] = [
        &[
            "is polled",
            "of each /tenant at most 5, and 20/s",
            "messages wait",
        ],
        &["paused until `backstop resume", "resumed"],
        &["was not paused"],
        &["at most 10, and 50/s", "at most 10, at any rate"],
        &[
            "of each /tenant at most 2, and 5/s",
            "of each /tenant at most 2, at any rate",
        ],
        &["is polled"],
        &["is polled", "paused until"],
        &["ended"],
    ];
    let shown = blocks(&page, "sh");
    assert_eq!(shown.len(), expected.len());
    for (block, parts) in shown.iter().zip(expected) {
        let block = block
            .replace("kill -HUP 4711", &format!("kill -HUP {}", host.id()))
            .replace("backstop.internal:9465", &format!("localhost:{port}"));
        let written = shell.run(&block).await;
        for part in parts {
            assert!(written.contains(part), "{part} is not in:\n{written:?}");
        }
    }
    host.logged("the configuration was read again").await;
    let (code, _) = host.ended().await;
    assert_eq!(code, 0);
}
