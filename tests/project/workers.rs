//! The first pages of those who write a worker: their programs are the examples, and their commands do what the pages show.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_tests::aws::{CREDENTIALS, Queues};
use backstop_tests::backstop::{Running, command};
use backstop_tests::documents::{blocks, document, top};
use backstop_tests::emulator::{ministack, services};
use backstop_tests::eventually;
use backstop_tests::shell::Shell;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// A page, the language of its programs, and the folder with them.
struct Page {
    name: &'static str,
    language: &'static str,
    folder: &'static str,
}

const PYTHON: Page = Page {
    name: "host/docs/workers/python.md",
    language: "python",
    folder: "examples/python-worker",
};

const NODE: Page = Page {
    name: "host/docs/workers/node.md",
    language: "js",
    folder: "examples/node-worker",
};

const MIGRATE: &str = "host/docs/workers/migrate.md";

impl Page {
    fn text(&self) -> String {
        document(self.name)
    }

    /// The blocks of shell that begin with the five orders, serve them, and run a command for them.
    fn commands(&self) -> [String; 3] {
        let text = self.text();
        let mut blocks = blocks(&text, "sh").into_iter();
        let mut with = |part: &str| blocks.find(|block| block.contains(part)).unwrap();
        [with("orders.jsonl"), with("--http"), with("--exec")]
    }

    /// A folder with the programs.
    fn programs(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(top().join(self.folder)).unwrap() {
            let file = file.unwrap().path();
            if file.is_file() {
                std::fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
            }
        }
        let modules = services().join("node_modules");
        std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
        folder
    }
}

/// A shell with Python, Node.js and what is installed for them.
fn shell(folder: &Path) -> Shell {
    Shell::new(folder)
        .path(services().join("python/bin"))
        .path(services().join("node_modules/.bin"))
        .with("PYTHONDONTWRITEBYTECODE", "1")
}

/// What the log says of failures and at the end, without times, ids and what is the same everywhere.
fn failures(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter_map(|line| {
        let (_, line) = line.split_once(' ')?;
        let (said, message) = line.trim().split_once(" message{").unwrap_or((line, ""));
        let is_shown = [" retry ", " dead-letter ", " ended "].iter();
        if !is_shown.clone().any(|word| said.contains(word)) {
            return None;
        }
        let said = said.split(" dead-letters-refused").next()?;
        let parts = said.split(' ').filter(|part| {
            !["hold=", "by=", "queue="]
                .iter()
                .any(|it| part.starts_with(it))
        });
        let attempt = message.split("attempt=").nth(1).unwrap_or_default();
        let attempt = attempt.trim_end_matches('}');
        // Full jitter may draw no delay at all.
        let said = parts.collect::<Vec<_>>().join(" ");
        let said = said.replace(" delay=0s", " delay=1s");
        Some(if attempt.is_empty() {
            said.trim().to_owned()
        } else {
            format!("{} attempt={attempt}", said.trim())
        })
    });
    lines.collect()
}

/// A port that nobody listens at.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Whether somebody listens there.
async fn listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).await.is_ok()
}

#[test]
fn the_programs_of_the_pages_are_the_examples() {
    for page in [PYTHON, NODE] {
        let shown: BTreeSet<_> = blocks(&page.text(), page.language).into_iter().collect();
        let files = std::fs::read_dir(top().join(page.folder)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let files: BTreeSet<_> = files
            .filter(|file| file.is_file())
            .map(|file| std::fs::read_to_string(file).unwrap())
            .collect();
        assert_eq!(shown, files, "{}", page.name);
        let begin = blocks(&document("host/docs/deploy/deploy.md"), "sh")[0].clone();
        assert!(page.text().contains(&begin), "{}", page.name);
    }
}

#[tokio::test]
async fn the_first_commands_of_each_page_do_what_it_shows() {
    for page in [PYTHON, NODE] {
        let folder = page.programs();
        let [start, serve, by_command] = page.commands();
        let port = free_port();
        let serve = serve.replace("8080", &port.to_string());
        // The reader's shell goes on; the one of the test has to end its worker.
        let script = format!("{start}trap 'kill $!' EXIT\n{serve}");
        let shell = shell(folder.path()).with("PORT", &port.to_string());
        let written = shell.run(&script).await;
        let shown = &blocks(&page.text(), "text")[0];
        let shown: BTreeSet<_> = shown.lines().map(str::to_owned).collect();
        assert_eq!(failures(&written.stderr), shown, "{}", page.name);

        let written = shell.run(&by_command).await;
        let failures = failures(&written.stderr);
        let ended = "INFO ended received=9 succeeded=1 retried=4 dead-lettered=4";
        assert!(failures.contains(ended), "{failures:#?}");
        let invalid = "error=Invalid class=permanent";
        assert!(
            failures.iter().any(|line| line.contains(invalid)),
            "{failures:#?}"
        );
    }
}

/// The worker with a framework, as a page says that it is started.
async fn with_framework(page: &Page, program: &str, arguments: &[&str], port: u16) {
    let folder = page.programs();
    let mut worker = Command::new(program);
    worker.args(arguments).env("PORT", port.to_string());
    worker.current_dir(folder.path()).kill_on_drop(true);
    let mut worker = worker.stderr(Stdio::null()).spawn().unwrap();
    eventually("the worker listens", async || listens(port).await).await;
    let [start, serve, _] = page.commands();
    let start = start.lines().next().unwrap();
    let serve = serve.replace("8080", &port.to_string());
    let written = shell(folder.path()).run(&format!("{start}\n{serve}")).await;
    let failures = failures(&written.stderr);
    let of = |part: &str| failures.iter().filter(|line| line.contains(part)).count();
    let ended = of("ended received=9 succeeded=1 retried=4 dead-lettered=4");
    let kinds = [
        "error=Invalid class=permanent",
        "error=Busy class=throttled",
        "class=transient",
    ];
    let kinds = kinds.map(of);
    assert_eq!((ended, kinds), (1, [1, 3, 3]), "{failures:#?}");
    stop(&mut worker).await;
}

/// Ends a program as an orchestrator does.
async fn stop(program: &mut Child) {
    let id = Pid::from_raw(i32::try_from(program.id().unwrap()).unwrap()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), program.wait()).await;
    assert!(ended.unwrap().unwrap().success());
}

#[tokio::test]
async fn the_worker_with_flask_answers_as_the_one_without() {
    let port = free_port();
    let commands = blocks(&PYTHON.text(), "sh").join("\n");
    let command = commands.lines().find(|line| line.starts_with("gunicorn "));
    let command = command.unwrap().replace("8080", &port.to_string());
    let mut words = command.split(' ');
    let program = services().join("python/bin").join(words.next().unwrap());
    let arguments: Vec<_> = words.collect();
    with_framework(&PYTHON, program.to_str().unwrap(), &arguments, port).await;
}

#[tokio::test]
async fn the_worker_with_express_answers_as_the_one_without() {
    let node = services().join("node_modules/.bin/node");
    let node = node.to_str().unwrap();
    with_framework(&NODE, node, &["express_worker.mjs"], free_port()).await;
}

/// The names of the members of an interface of sqs-consumer, such as `queueUrl?: string;` and `start(): void;`.
fn members(interface: &str) -> BTreeSet<String> {
    let file = services().join("node_modules/sqs-consumer/dist/esm/types.d.ts");
    let text = std::fs::read_to_string(file).unwrap();
    let (_, rest) = text
        .split_once(&format!("export interface {interface} {{\n"))
        .unwrap();
    let (body, _) = rest.split_once("\n}\n").unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()));
    names
        .map(|line| line.split(['?', ':', '(']).next().unwrap().to_owned())
        .collect()
}

#[test]
fn the_page_about_moving_has_every_option_and_event_of_sqs_consumer() {
    let text = document(MIGRATE);
    let first_column = |section: &str| -> BTreeSet<String> {
        let (_, rest) = text.split_once(&format!("\n### {section}\n")).unwrap();
        let (rows, _) = rest.split_once("\n### ").unwrap();
        let cells = rows.lines().filter_map(|row| row.strip_prefix("| `"));
        let cells = cells.map(|row| row.split(" | ").next().unwrap());
        let names = cells.flat_map(|cell| cell.split('`').step_by(2));
        names
            .map(|name| name.split(':').next().unwrap().to_owned())
            .filter(|name| !name.is_empty())
            .collect()
    };
    assert_eq!(first_column("Options"), members("ConsumerOptions"));
    assert_eq!(first_column("Events"), members("Events"));
}

/// Runs the loop that the page about moving shows until it has attempted a message in vain, and then Backstop and the worker of `page` on the same queue.
async fn moves(page: &Page, program: &str) {
    let text = document(MIGRATE);
    let folder = page.programs();
    let mut before = blocks(&text, page.language).into_iter();
    let before = before.find(|block| block.contains("orders")).unwrap();
    // An open poll holds up the end of a loop.
    let short = before
        .replace("WaitTimeSeconds=20", "WaitTimeSeconds=1")
        .replace("waitTimeSeconds: 20", "waitTimeSeconds: 1");
    assert!(short != before);
    let file = folder.path().join("before.mjs");
    std::fs::write(&file, short).unwrap();
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(1000).await;
    let start = |program: &str, argument: &str| {
        let path = [
            services().join("python/bin"),
            services().join("node_modules/.bin"),
        ];
        let mut command = Command::new(path[usize::from(program == "node")].join(program));
        command.arg(argument).current_dir(folder.path());
        command
            .envs(CREDENTIALS)
            .env("AWS_DEFAULT_REGION", "us-east-1");
        command.env("AWS_ENDPOINT_URL", &queues.endpoint);
        command.env("QUEUE_URL", &queues.url);
        command.env("DEAD_LETTER_QUEUE_URL", &queues.dead_letters);
        command.kill_on_drop(true).stderr(Stdio::null());
        command
    };
    let mut before = start(program, "before.mjs").spawn().unwrap();
    let bodies = [r#"{"article": "book"}"#, r#"{"article": "piano"}"#];
    queues.send(bodies.map(str::to_owned)).await;
    eventually("the loop has done one of them", async || {
        queues.held().await == 1
    })
    .await;
    stop(&mut before).await;

    let port = free_port();
    let worker = page.commands()[0].lines().nth(1).unwrap().to_owned();
    let mut words = worker.split(' ').skip(1);
    let mut worker = start(program, words.next().unwrap());
    let worker = worker.env("PORT", port.to_string()).spawn().unwrap();
    eventually("the worker listens", async || listens(port).await).await;
    let url = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders";
    let shown = blocks(&text, "sh").remove(0);
    let shown = shown.replace(url, &queues.url).replace("\\\n", " ");
    let shown = shown.replace("8080", &port.to_string());
    let arguments: Vec<_> = shown.split_whitespace().skip(1).collect();
    let mut host = command(&arguments);
    host.env("AWS_ENDPOINT_URL", &queues.endpoint);
    let running = Running::start_command(host).await;
    running.logged("error=Busy").await;
    let failures = failures(&running.log());
    let (code, _) = running.stop().await;
    assert_eq!(code, 0);
    drop(worker);
    let is_first = failures.iter().any(|line| line.ends_with("attempt=1"));
    assert!(!is_first, "{failures:#?}");
    assert_eq!((queues.held().await, queues.dead().await), (1, 0));
}

#[tokio::test]
async fn backstop_goes_on_where_a_loop_with_boto3_has_left() {
    moves(&PYTHON, "python3").await;
}

#[tokio::test]
async fn backstop_goes_on_where_sqs_consumer_has_left() {
    moves(&NODE, "node").await;
}
