//! The bindings for Go: those that wit-bindgen-go generates, its runtime package, and functions that forward each call to the policy's own package.

use anyhow::Context;

use super::contract::{Written, generate};
use crate::project::Project;

macro_rules! runtime {
    ($($path:literal)+) => {
        &[$(($path, include_str!(concat!("../../go/", $path)))),+]
    };
}

/// wit-bindgen-go's runtime by path. `host/workbench/go` is a copy of it, since an author may not
/// be able to reach Go's module proxies; a test compares the two.
const RUNTIME: &[(&str, &str)] = runtime!(
    "async/async.go" "async/empty.s" "runtime/empty.s" "runtime/runtime.go" "types/future.go" "types/option.go" "types/result.go" "types/stream.go" "types/tuple.go" "types/unit.go"
);

/// The import path of the runtime in generated code. It is replaced by the path of the copy in `bindings/`, so that nothing is downloaded.
const RUNTIME_PATH: &str = "go.bytecodealliance.org/pkg/wit/";

/// For each interface, the exported function that forwards the call to the policy's function.
const FORWARDED: [&str; 5] = [
    "func Configure(settings []Tuple2[string, string]) Result[Unit, string] {\n\treturn policy.Configure(settings)\n}",
    "func Classify(error Error) ErrorClass {\n\treturn policy.Classify(error)\n}",
    "func Delay(failure Failure, class ErrorClass) Milliseconds {\n\treturn policy.Delay(failure, class)\n}",
    "func Judge(failure Failure, class ErrorClass) Verdict {\n\treturn policy.Judge(failure, class)\n}",
    "func DownFor(failure Failure, class ErrorClass) Option[Milliseconds] {\n\treturn policy.DownFor(failure, class)\n}",
];

/// The import path of the policy's own package, from its go.mod.
fn module(project: &Project) -> anyhow::Result<String> {
    let path = project.folder.join("go.mod");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))?;
    let named = text.lines().find_map(|line| line.strip_prefix("module "));
    named
        .map(|name| name.trim().to_owned())
        .with_context(|| format!("{} names no module", path.display()))
}

pub(super) fn add(project: &Project, written: &mut Written) -> anyhow::Result<()> {
    let module = module(project)?;
    let mut generator = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        pkg_name: Some(format!("{module}/bindings")),
        ..Default::default()
    }
    .build();
    let here = format!("{module}/bindings/wit/");
    for (path, bytes) in generate(generator.as_mut(), &project.answers)? {
        let text = String::from_utf8(bytes)?.replace(RUNTIME_PATH, &here);
        written.add(path, text);
    }
    for (path, text) in RUNTIME {
        written.add(format!("wit/{path}"), text.replace(RUNTIME_PATH, &here));
    }
    for (question, function) in project.of_answers(FORWARDED) {
        let package = format!("export_backstop_policy_{}", question.replace('-', "_"));
        let types = match question {
            "settings" => format!("\t. \"{here}types\""),
            "outage" => format!(
                "\t. \"{module}/bindings/imports/backstop_policy_types\"\n\t. \"{here}types\""
            ),
            _ => format!("\t. \"{module}/bindings/imports/backstop_policy_types\""),
        };
        written.add(
            format!("exports/{package}/forward.go"),
            format!("// Package {package} forwards the call to the policy.\npackage {package}\n\nimport (\n\tpolicy \"{module}\"\n{types}\n)\n\n{function}\n"),
        );
    }
    written.add(
        "main.go",
        format!("// The component. The imported package contains all its exports.\npackage main\n\nimport _ \"{module}/bindings/exports/wit_exports\"\n\nfunc main() {{}}\n"),
    );
    Ok(())
}
