//! `backstop policy new --install`: it asks, and then runs what installs the toolchain. Fakes of npm, Python and rustup record what they were called with; what the real ones do with it is not tested here.

use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use backstop_tests::backstop::{program, text};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Installs nothing real.
const NPM: &str = "echo npm says hello; mkdir -p node_modules/.bin; touch node_modules/.bin/tsc node_modules/.bin/componentize-qjs";
const PYTHON: &str = "mkdir -p .venv/bin; cp \"$(dirname \"$0\")/fake-pip\" .venv/bin/pip";
const PIP: &str = "touch .venv/bin/componentize-py .venv/bin/zig .venv/bin/go";
const RUSTUP: &str = "case $1 in
target) test -e $(dirname $0)/installed && echo wasm32-unknown-unknown ;;
toolchain) touch $(dirname $0)/installed ;;
esac";

/// A folder with fakes of the programs that install.
struct Machine {
    folder: TempDir,
}

impl Machine {
    fn new(fakes: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let machine = Self { folder };
        std::fs::create_dir(machine.at("bin")).unwrap();
        for (name, does) in fakes {
            let calls = machine.at("calls");
            let script = format!(
                "#!/bin/sh\necho \"$(basename \"$0\") $* in $(basename \"$PWD\")\" >> {calls}\n{does}\n"
            );
            let path = machine.at(&format!("bin/{name}"));
            std::fs::write(&path, script).unwrap();
            std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> String {
        self.folder.path().join(path).to_str().unwrap().to_owned()
    }

    /// What the fakes were called with.
    fn calls(&self) -> String {
        let calls = std::fs::read_to_string(self.at("calls")).unwrap_or_default();
        let is_question = |line: &&str| line.starts_with("rustup target ");
        let lines: Vec<_> = calls.lines().filter(|line| !is_question(line)).collect();
        lines.join("\n")
    }

    fn command(&self, of: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(of);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            // Without the real ones: `/usr/bin` may have npm.
            .env("PATH", format!("{}:/bin:/usr/bin", self.at("bin")))
            .env("NO_COLOR", "1")
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// `policy new mine` without a terminal.
    async fn new_policy(&self, language: &str, more: &[&str]) -> Output {
        let arguments = ["policy", "new", "mine", "--lang", language];
        let arguments = [&arguments[..], more].concat();
        let mut command = self.command(program("backstop").to_str().unwrap(), &arguments);
        command.output().await.unwrap()
    }

    /// `policy new mine --install` at a terminal, whose user types this.
    async fn at_terminal(&self, language: &str, typed: &str) -> String {
        let backstop = program("backstop");
        let line = format!(
            "{} policy new mine --lang {language} --install",
            backstop.display()
        );
        let mut command = self.command("/usr/bin/script", &["-qec", &line, "/dev/null"]);
        let mut session = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut keyboard = session.stdin.take().unwrap();
        keyboard.write_all(typed.as_bytes()).await.unwrap();
        let output = session.wait_with_output().await.unwrap();
        let screen = text(&output.stdout).replace('\r', "");
        assert!(output.status.success(), "{screen}");
        screen
    }
}

const FAKES: [(&str, &str); 5] = [
    ("npm", NPM),
    ("python3", PYTHON),
    ("fake-pip", PIP),
    ("rustup", RUSTUP),
    ("cargo", ""),
];

#[tokio::test]
async fn a_missing_toolchain_is_installed_in_the_policy_s_folder_after_a_yes() {
    let machine = Machine::new(&FAKES);
    let screen = machine.at_terminal("typescript", "y\n").await;
    assert_eq!(machine.calls(), "npm install in mine");
    for expected in [
        "`tsc` is not installed here",
        "run in mine/:\n  npm install\n",
        "Run them now? [y/N] ",
        "$ npm install\nnpm says hello\n",
        "build and test it:  backstop policy test mine",
    ] {
        assert!(screen.contains(expected), "{expected:?} in\n{screen}");
    }
    assert!(!screen.contains("first, once"), "{screen}");
}

#[tokio::test]
async fn anything_but_a_yes_installs_nothing_and_says_how() {
    for typed in ["n\n", "\n", "yep\n", "\u{4}"] {
        let machine = Machine::new(&FAKES);
        let screen = machine.at_terminal("typescript", typed).await;
        assert_eq!(machine.calls(), "", "{typed:?}");
        assert!(
            screen.contains("first, once:        `tsc` is not installed here; in the policy's folder, run: npm install"),
            "{screen}"
        );
    }
}

#[tokio::test]
async fn without_a_terminal_nothing_is_installed_and_nothing_created_unless_yes_is_given() {
    for (language, expected) in [
        ("javascript", "npm install in mine"),
        (
            "python",
            "python3 -m venv .venv in mine\npip install --requirement requirements.txt in mine",
        ),
        (
            "c",
            "python3 -m venv .venv in mine\npip install --requirement requirements.txt in mine",
        ),
        (
            "rust",
            "rustup toolchain install 1.95.0 --profile minimal --target wasm32-unknown-unknown in mine",
        ),
    ] {
        let machine = Machine::new(&FAKES);
        let refused = machine.new_policy(language, &["--install"]).await;
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(
            error.contains("add --yes to install without a question"),
            "{error}"
        );
        assert!(!machine.folder.path().join("mine").exists());
        assert_eq!(machine.calls(), "", "{language}");

        let made = machine.new_policy(language, &["--install", "--yes"]).await;
        assert!(made.status.success(), "{}", text(&made.stderr));
        assert!(!text(&made.stdout).contains("first, once"));
        assert_eq!(machine.calls(), expected);
    }
}

#[tokio::test]
async fn a_toolchain_that_is_there_needs_no_question() {
    let machine = Machine::new(&[("tsc", ""), ("componentize-qjs", ""), ("npm", NPM)]);
    let made = machine.new_policy("typescript", &["--install"]).await;
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert_eq!(machine.calls(), "");
}

#[tokio::test]
async fn without_the_program_that_installs_nothing_is_created() {
    let machine = Machine::new(&[]);
    let arguments = ["policy", "new", "mine", "--install", "--yes", "--lang"];
    for (language, expected) in [
        (
            "rust",
            "`rustup` is not installed here; install Rust from https://rustup.rs",
        ),
        (
            "typescript",
            "`npm` is not installed here; install Node.js 20 or later from https://nodejs.org",
        ),
        (
            "python",
            "`python3` is not installed here; install Python 3.10 or later",
        ),
    ] {
        let backstop = program("backstop");
        let mut command = machine.command(
            backstop.to_str().unwrap(),
            &[&arguments[..], &[language]].concat(),
        );
        let ended = command
            .env("PATH", machine.at("bin"))
            .output()
            .await
            .unwrap();
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{error}");
        assert!(error.contains(expected), "{error}");
        assert!(!machine.folder.path().join("mine").exists());
    }
}

#[tokio::test]
async fn an_installation_that_fails_or_is_incomplete_is_an_error() {
    for (npm, expected) in [
        (
            "echo no network >&2; exit 7",
            "error: mine is created without its toolchain: run the command there again: `npm install` failed (exit status: 7): see above for what it says",
        ),
        (
            "true",
            "error: the commands ran, and the toolchain is still incomplete: `tsc` is not installed here",
        ),
    ] {
        let machine = Machine::new(&[("npm", npm)]);
        let ended = machine
            .new_policy("typescript", &["--install", "--yes"])
            .await;
        let error = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(4), "{error}");
        assert!(error.contains(expected), "{error}");
        assert_eq!(npm.contains("no network"), error.contains("no network\n"));
    }
}
