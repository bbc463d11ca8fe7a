//! The cold start of a function in Python and in Node.js, with the package and without it, on an emulator of Lambda.
//!
//! Each start is a new function, which the emulator starts as a process of its own. It measures itself what it can change: its import, and its first event, which comes in an envelope of the retry handler.

use std::path::Path;
use std::process::Command;

use backstop_tests::emulator::ministack;
use backstop_tests::lambda::{Function, answer, delete};
use backstop_tests::npm::{built, succeeds};
use backstop_tests::python;
use backstop_tests::runtimes::{MEASURES, node_modules};
use serde_json::json;
use tests_benches::{Better, Figure, Table, Unit};

/// Starts of each function, in turns.
const STARTS: usize = 41;

const PYTHON: &str = r#"
def handler(event, context):
    return {"order": event["_original_payload"]["id"]}
"#;

const PYTHON_WITH_EVENTS: &str = r#"
from backstop import events

@events.unwrapped
def handler(order, context):
    return {"order": order["id"]}
"#;

const PYTHON_WITH_RETRIER: &str = r#"
import backstop
from backstop import events

retry = backstop.Retrier("full-jitter", base="50ms", budget=backstop.Budget("orders"))

@events.unwrapped
def handler(order, context):
    return retry.call(lambda: {"order": order["id"]}, deadline=events.deadline(context))
"#;

const NODE: &str = r"
export const main = async (event) => ({ order: event._original_payload.id });
";

const NODE_WITH_RETRIER: &str = r"
import { retrier } from 'backstop-retry';
import { handler } from 'backstop-retry/lambda';

const retry = await retrier({ name: 'orders', budget: 'aws-2.1' });

export const main = handler((order, { deadline }) => retry(() => ({ order: order.id }), { deadline }));
";

/// A function and what its starts took, in milliseconds.
struct Side {
    name: &'static str,
    is_ours: bool,
    function: Box<dyn Fn() -> Function>,
    imported: Vec<f64>,
    handled: Vec<f64>,
}

impl Side {
    fn new(name: &'static str, is_ours: bool, function: impl Fn() -> Function + 'static) -> Self {
        Self {
            name,
            is_ours,
            function: Box::new(function),
            imported: Vec::new(),
            handled: Vec::new(),
        }
    }

    async fn start(&mut self, endpoint: &str, name: &str) {
        let function = (self.function)().with(MEASURES, "1");
        function.make(endpoint, name).await;
        let envelope = json!({
            "_retry_metadata": {"attempt": 2, "initial_timestamp": 1_767_225_600, "id": "c9b7a3d0-0000-4000-8000-000000000001"},
            "_original_payload": {"id": "o-1"},
        });
        let answer = answer(endpoint, name, &envelope).await;
        assert_eq!(answer["answer"], json!({"order": "o-1"}), "{answer}");
        self.imported.push(answer["imported"].as_f64().unwrap());
        self.handled.push(answer["handled"].as_f64().unwrap());
        delete(endpoint, name).await;
    }
}

pub(crate) async fn table() -> Table {
    let package = python::package();
    let packages = package.path().to_owned();
    let modules = node_modules(&[]);
    let installed = modules.path().to_owned();
    let bundle = bundled(modules.path());
    let python = {
        let packages = packages.clone();
        move |handler: &str| Function::of_python(handler, Some(&packages))
    };
    let (with_events, with_retrier) = (python.clone(), python.clone());
    let mut sides = [
        Side::new("Python, without the package", false, move || python(PYTHON)),
        Side::new("Python, `backstop.events`", true, move || {
            with_events(PYTHON_WITH_EVENTS)
        }),
        Side::new("Python, `backstop.events` and a retrier", true, move || {
            with_retrier(PYTHON_WITH_RETRIER)
        }),
        Side::new("Node.js, without the package", false, || {
            Function::of_node(NODE, None)
        }),
        Side::new("Node.js, `backstop-retry` in one file", true, move || {
            Function::of_node(&bundle, None)
        }),
        Side::new(
            "Node.js, `backstop-retry` in `node_modules`",
            true,
            move || Function::of_node(NODE_WITH_RETRIER, Some(&installed)),
        ),
    ];
    let endpoint = &ministack().endpoint;
    for round in 0..STARTS {
        for (number, side) in sides.iter_mut().enumerate() {
            side.start(endpoint, &format!("cold-{number}-{round}"))
                .await;
        }
    }
    let mut table = Table::new("From a function's import to the end of its first event")
        .column("cold start", Unit::Milliseconds, Better::Less)
        .column("import", Unit::Milliseconds, Better::Less)
        .column("first event", Unit::Milliseconds, Better::Less);
    for side in sides {
        let whole = side.imported.iter().zip(&side.handled);
        let whole = whole.map(|(imported, handled)| imported + handled);
        let figures = [
            Figure::of(whole.collect::<Vec<_>>()),
            Figure::of(side.imported),
            Figure::of(side.handled),
        ];
        if side.is_ours {
            table.ours(side.name, figures);
        } else {
            table.theirs(side.name, figures);
        }
    }
    table
}

/// The function and the package in one file, as functions are mostly deployed.
fn bundled(modules: &Path) -> String {
    let folder = tempfile::tempdir().unwrap();
    let handler = folder.path().join("handler.mjs");
    std::fs::write(&handler, NODE_WITH_RETRIER).unwrap();
    std::os::unix::fs::symlink(modules, folder.path().join("node_modules")).unwrap();
    let mut bundle = Command::new(built("node-retry").join("node_modules/.bin/esbuild"));
    bundle.arg(handler).args([
        "--bundle",
        "--minify",
        "--platform=node",
        "--format=esm",
        "--log-level=error",
    ]);
    succeeds(&mut bundle)
}
