//! The action in `examples/operate/github-action`: actionlint and zizmor accept it and its workflow, and its steps run as GitHub runs them, against a server that keeps comments as GitHub's API does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use axum::extract::{Path as Segments, State};
use axum::routing::{get, patch};
use axum::{Json, Router};
use backstop_tests::backstop::{program, text};
use backstop_tests::documents::{blocks, document, top};
use backstop_tests::shell::Shell;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::checkers::{example, output, passes, python, yaml};

/// actionlint, for a workflow on its standard input.
fn actionlint() -> Command {
    let mut command = python("actionlint");
    command.args(["-no-color", "-stdin-filename", "policy.yml", "-"]);
    command
}

fn file(name: &str) -> PathBuf {
    example("github-action").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap()
}

#[test]
fn actionlint_and_zizmor_find_nothing() {
    let workflow = read("policy.yml");
    passes(&mut actionlint(), &workflow);
    let wrong = workflow.replace("github.ref", "github.reff");
    assert!(!output(&mut actionlint(), &wrong).status.success());

    // At the places that the workflow names.
    let folder = tempfile::tempdir().unwrap();
    let github = folder.path().join(".github");
    for (name, place) in [
        ("policy.yml", "workflows/policy.yml"),
        ("action.yml", "actions/backstop-policy/action.yml"),
    ] {
        let path = github.join(place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::copy(file(name), path).unwrap();
    }
    let mut zizmor = python("zizmor");
    zizmor
        .args(["--offline", "--no-progress", "--min-severity", "medium"])
        .arg(folder.path());
    passes(&mut zizmor, "");
    let unsafe_action = read("action.yml").replace("\"$POLICY\"", "${{ inputs.policy }}");
    let path = github.join("actions/backstop-policy/action.yml");
    std::fs::write(path, unsafe_action).unwrap();
    assert!(!output(&mut zizmor, "").status.success());
}

#[test]
fn the_workflow_gives_inputs_that_the_action_has_and_all_that_it_requires() {
    let (workflow, action) = (&yaml(&read("policy.yml"))[0], &yaml(&read("action.yml"))[0]);
    let inputs = action["inputs"].as_object().unwrap();
    let steps = workflow["jobs"]["policy"]["steps"].as_array().unwrap();
    let uses = |step: &&Value| step["uses"] == "./.github/actions/backstop-policy";
    let given = steps.iter().find(uses).unwrap()["with"]
        .as_object()
        .unwrap();
    for name in given.keys() {
        assert!(inputs.contains_key(name), "{name}");
    }
    for (name, input) in inputs {
        let has_value = given.contains_key(name) || input["default"].is_string();
        assert!(has_value, "{name}");
    }
}

/// The comments of a pull request, and how often one was written.
#[derive(Default)]
struct Comments {
    bodies: Vec<Value>,
    writes: usize,
}

type Shared = Arc<Mutex<Comments>>;

/// A server that answers as GitHub's API does for comments.
async fn comments() -> (String, Shared) {
    let shared = Shared::default();
    // A person quotes an earlier comment.
    let quoted =
        json!({"id": 1, "user": {"type": "User"}, "body": "<!-- backstop policy replay -->"});
    shared.lock().unwrap().bodies.push(quoted);
    let list = async |State(shared): State<Shared>| Json(shared.lock().unwrap().bodies.clone());
    let write = async |State(shared): State<Shared>, Json(body): Json<Value>| {
        let mut comments = shared.lock().unwrap();
        comments.writes += 1;
        let id = comments.bodies.len() + 1;
        let comment = json!({"id": id, "user": {"type": "Bot"}, "body": body["body"]});
        comments.bodies.push(comment.clone());
        Json(comment)
    };
    let change = async |State(shared): State<Shared>,
                        Segments(id): Segments<u64>,
                        Json(body): Json<Value>| {
        let mut comments = shared.lock().unwrap();
        comments.writes += 1;
        let comment = comments
            .bodies
            .iter_mut()
            .find(|it| it["id"] == id)
            .unwrap();
        comment["body"] = body["body"].clone();
        Json(comment.clone())
    };
    let router = Router::new()
        .route(
            "/repos/acme/policies/issues/7/comments",
            get(list).post(write),
        )
        .route("/repos/acme/policies/issues/comments/{id}", patch(change))
        .with_state(Arc::clone(&shared));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, shared)
}

/// A job on a runner: its folder, and the variables that GitHub sets.
struct Job {
    folder: tempfile::TempDir,
    api: String,
}

impl Job {
    /// Runs the steps of the action from this one on with these inputs, as GitHub does. The last of them ends with this exit code.
    async fn run(&self, first: usize, given: &[(&str, &str)], code: i32) {
        let action = &yaml(&read("action.yml"))[0];
        let mut inputs: BTreeMap<String, String> = BTreeMap::new();
        for (name, input) in action["inputs"].as_object().unwrap() {
            let default = input["default"].as_str().unwrap_or_default();
            inputs.insert(name.clone(), default.to_owned());
        }
        inputs.insert("token".to_owned(), "a-token".to_owned());
        for (name, value) in given {
            inputs.insert((*name).to_owned(), (*value).to_owned());
        }
        let (mut ended, mut log) = (None, String::new());
        for step in action["runs"]["steps"]
            .as_array()
            .unwrap()
            .iter()
            .skip(first)
        {
            if step["if"] == "inputs.records != ''" && inputs["records"].is_empty() {
                continue;
            }
            assert_eq!(step["shell"], "bash");
            let ran = self.step(step, &inputs).await;
            log += &format!("{}{}", text(&ran.stdout), text(&ran.stderr));
            ended = ran.status.code();
            if ended != Some(0) {
                break;
            }
        }
        assert_eq!(ended, Some(code), "{log}");
    }

    async fn step(&self, step: &Value, inputs: &BTreeMap<String, String>) -> Output {
        let commands = program("backstop").parent().unwrap().to_owned();
        let system = std::env::var_os("PATH").unwrap();
        let path = [commands].into_iter().chain(std::env::split_paths(&system));
        let mut bash = tokio::process::Command::new("bash");
        bash.args(["--noprofile", "--norc", "-eo", "pipefail", "-c"])
            .arg(step["run"].as_str().unwrap())
            .current_dir(&self.folder)
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("GITHUB_ACTION_PATH", example("github-action"))
            .env("GITHUB_API_URL", &self.api)
            .env("GITHUB_REPOSITORY", "acme/policies")
            .env("GITHUB_STEP_SUMMARY", self.summary())
            .env("BACKSTOP_CACHE", backstop_tests::backstop::cache());
        for (name, value) in step["env"].as_object().unwrap() {
            let expression = value.as_str().unwrap();
            let expression = expression
                .trim_start_matches("${{ ")
                .trim_end_matches(" }}");
            let value = match expression.strip_prefix("inputs.") {
                Some(input) => inputs[input].clone(),
                None => {
                    assert_eq!(expression, "github.event.pull_request.number");
                    "7".to_owned()
                }
            };
            bash.env(name, value);
        }
        bash.output().await.unwrap()
    }

    fn summary(&self) -> PathBuf {
        self.folder.path().join("summary.md")
    }
}

/// The only command of the page's section about the action.
fn of_the_page() -> String {
    let page = document("host/docs/deploy/deploy.md");
    let (_, section) = page.split_once("\n## A GitHub Action\n").unwrap();
    let shown = blocks(section, "sh");
    assert_eq!(shown.len(), 1);
    shown[0].clone()
}

/// Records of failures, written by a host in this folder.
async fn record(folder: &Path) {
    let commands = "seq 20 | backstop run --queue-url local:orders --policy full-jitter --set base=1ms --set max-attempts=3 --exec 'sh -c \"exit 3\"' --decisions decisions.jsonl --messages -";
    Shell::new(folder).with_account().run(commands).await;
}

#[tokio::test]
async fn its_steps_test_a_policy_replay_records_and_keep_one_comment() {
    let (api, shared) = comments().await;
    let job = Job {
        folder: tempfile::tempdir().unwrap(),
        api,
    };
    record(job.folder.path()).await;
    std::os::unix::fs::symlink(top().join("policies"), job.folder.path().join("policies")).unwrap();
    let records = ("records", "decisions.jsonl");
    job.run(0, &[("policy", "full-jitter"), records], 0).await;
    job.run(1, &[("policy", "equal-jitter"), records], 0).await;
    {
        let comments = shared.lock().unwrap();
        assert_eq!((comments.bodies.len(), comments.writes), (2, 2));
        let comment = comments.bodies[1]["body"].as_str().unwrap();
        for part in [
            "<!-- backstop policy replay -->\n### Replay of 60 recorded decisions of one queue",
            "| new | `equal-jitter",
            "| records | share | what | recorded | new |",
            "```mermaid\nxychart-beta",
        ] {
            assert!(comment.contains(part), "{part:?} is not in:\n{comment}");
        }
        // The error of a message is not for everybody who reads the pull request.
        assert!(!comment.contains("exit 3"), "{comment}");
        let summary = std::fs::read_to_string(job.summary()).unwrap();
        assert!(summary.ends_with(comment), "{summary}");
    }
    let shell = Shell::new(job.folder.path()).with_account();
    let printed = shell.run(&of_the_page()).await;
    let comment = shared.lock().unwrap().bodies[1]["body"].clone();
    assert_eq!(printed.stdout, comment.as_str().unwrap());
    // More differs than is allowed: the comment is there, and the job fails.
    let strict = [("policy", "linear"), records, ("allow", "1%")];
    job.run(1, &strict, 8).await;
    assert_eq!(shared.lock().unwrap().writes, 3);
    // A token that may only read, as that of a fork: the summary has it.
    let no_api = Job {
        api: "http://127.0.0.1:9".to_owned(),
        ..job
    };
    no_api
        .run(1, &[("policy", "full-jitter"), records], 0)
        .await;
    // Without records, the policy is tested only.
    no_api.run(0, &[("policy", "no-such-policy")], 4).await;
}
