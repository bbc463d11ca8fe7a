//! The Kustomize overlays of `examples/operate/kubernetes`: `kubectl` makes them, schemas of Kubernetes, KEDA and the Prometheus operator accept them, and a host runs with what they say.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use backstop_host::config::Config;
use backstop_tests::aws::{CREDENTIALS, Queues};
use backstop_tests::backstop::{command, text};
use backstop_tests::documents::document;
use backstop_tests::emulator::{free_port, ministack};
use backstop_tests::eventually;
use backstop_tests::worker::Worker;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::Child;

use crate::checkers::{node, output, passes, python};
use crate::container::Container;
use crate::pods::Overlay;

const OVERLAYS: [&str; 3] = ["sidecar", "deployment", "production"];

/// Checks the objects of KEDA and of the Prometheus operator with the schemas of their definitions.
const CUSTOM: &str = r#"
import { readFileSync } from "node:fs";
const packages = {
  "keda.sh/v1alpha1": "@kubernetes-models/keda",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator",
};
let count = 0;
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const name = packages[object.apiVersion];
  if (!name) continue;
  const kinds = await import(`${name}/${object.apiVersion}`);
  new kinds[object.kind](object).validate();
  count += 1;
}
console.log(count);
"#;

#[test]
fn the_schemas_of_kubernetes_keda_and_the_prometheus_operator_accept_every_overlay() {
    for (name, custom) in OVERLAYS.into_iter().zip(["0", "0", "3"]) {
        let overlay = Overlay::example(name);
        let mut validate = python("kubernetes-validate");
        let validate = validate.args(["--strict", "--no-warn", "/dev/stdin"]);
        passes(validate, &overlay.text);
        let objects = serde_json::to_string(&overlay.objects).unwrap();
        assert_eq!(passes(&mut node(CUSTOM), &objects).trim(), custom, "{name}");
    }
    // The checkers find mistakes.
    let wrong = Overlay::example("sidecar").text;
    let wrong = wrong.replace("terminationGrace", "terminationGrce");
    let mut validate = python("kubernetes-validate");
    validate.args(["--strict", "--no-warn", "/dev/stdin"]);
    assert!(!output(&mut validate, &wrong).status.success());
    let wrong = r#"[{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "a"}, "spec": {"minReplicaCount": "1"}}]"#;
    assert!(!output(&mut node(CUSTOM), wrong).status.success());
}

/// The seconds of `grace` in the configuration.
fn grace(overlay: &Overlay) -> u64 {
    let config = Config::parse(overlay.configuration(), Path::new("/etc/backstop.toml"));
    config.unwrap().queues[0].options.grace.as_secs()
}

#[test]
fn a_pod_has_time_to_drain_and_its_containers_are_restricted() {
    for name in OVERLAYS {
        let overlay = Overlay::example(name);
        let spec = &overlay.pod()["spec"];
        let time = spec["terminationGracePeriodSeconds"].as_u64().unwrap();
        assert!(time >= grace(&overlay) + 5, "{name}: {time}");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true);
        let of = |kind: &str| spec[kind].as_array().into_iter().flatten();
        for container in of("initContainers").chain(of("containers")) {
            let security = &container["securityContext"];
            assert_eq!(security["allowPrivilegeEscalation"], false);
            assert_eq!(security["readOnlyRootFilesystem"], true);
            assert_eq!(security["capabilities"]["drop"][0], "ALL");
            assert!(container["resources"]["limits"]["memory"].is_string());
        }
        // What the kubelet mounts for a token of its own is not needed.
        let account = overlay.only("ServiceAccount");
        assert_eq!(account["automountServiceAccountToken"], false);
        assert_eq!(account["metadata"]["name"], spec["serviceAccountName"]);
    }
}

/// Servers such as gunicorn end at once where they can write nowhere.
#[test]
fn the_worker_of_a_sidecar_may_write_to_tmp() {
    let overlay = Overlay::example("sidecar");
    let worker = &overlay.pod()["spec"]["containers"][0];
    let mounts = worker["volumeMounts"].as_array().unwrap();
    let tmp = mounts.iter().find(|it| it["mountPath"] == "/tmp").unwrap();
    assert!(tmp["readOnly"].is_null());
    let volume = overlay.volume(tmp["name"].as_str().unwrap());
    assert!(volume["emptyDir"]["sizeLimit"].is_string(), "{volume}");
}

/// The port of the container that a probe or a rule means.
fn port(overlay: &Overlay) -> u64 {
    let ports = overlay.backstop()["ports"].as_array().unwrap();
    assert_eq!((ports.len(), &ports[0]["name"]), (1, &"backstop".into()));
    ports[0]["containerPort"].as_u64().unwrap()
}

#[test]
fn probes_rules_and_scrapes_lead_to_the_admin_address_of_the_configuration() {
    for name in OVERLAYS {
        let overlay = Overlay::example(name);
        let port = port(&overlay);
        let config = toml::from_str::<toml::Table>(overlay.configuration()).unwrap();
        assert_eq!(config["admin"].as_str(), Some(&*format!("0.0.0.0:{port}")));
        let backstop = overlay.backstop();
        for (probe, path) in [
            ("startupProbe", "/livez"),
            ("livenessProbe", "/livez"),
            ("readinessProbe", "/readyz"),
        ] {
            let get = &backstop[probe]["httpGet"];
            assert_eq!(
                (&get["path"], &get["port"]),
                (&path.into(), &"backstop".into())
            );
        }
        let policy = &overlay.only("NetworkPolicy")["spec"];
        assert_eq!(policy["ingress"][0]["ports"][0]["port"], port);
        let labels = &overlay.pod()["metadata"]["labels"];
        let selected = &policy["podSelector"]["matchLabels"]["backstop"];
        assert_eq!(selected, &labels["backstop"]);
        for monitor in overlay.all("PodMonitor") {
            let endpoint = &monitor["spec"]["podMetricsEndpoints"][0];
            assert_eq!(endpoint["port"], "backstop");
            let selected = &monitor["spec"]["selector"]["matchLabels"]["backstop"];
            assert_eq!(selected, &labels["backstop"]);
        }
    }
}

/// An overlay's host on an emulator, with a worker at a port that is free now, or later.
struct Pod {
    container: Container,
    worker_port: u16,
    admin: String,
    _folder: tempfile::TempDir,
}

impl Pod {
    /// The configuration of the overlay, with the addresses of the test in place of its own.
    fn of(overlay: &Overlay, queues: &Queues) -> Self {
        let (admin_port, worker_port) = (free_port(), free_port());
        let configuration = overlay.configuration();
        let config = toml::from_str::<toml::Table>(configuration).unwrap();
        let queue = &config["queues"]["orders"];
        let (url, worker) = (
            queue["url"].as_str().unwrap(),
            queue["handler"]["http"].as_str().unwrap(),
        );
        let configuration = configuration
            .replace(url, &queues.url)
            .replace(worker, &format!("http://127.0.0.1:{worker_port}/"))
            .replace("0.0.0.0:9465", &format!("0.0.0.0:{admin_port}"));
        let folder = tempfile::tempdir().unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        // The secret comes first: the configuration names its files.
        let mut container = overlay.container(folder.path(), "");
        container.remount(
            folder.path(),
            "/etc/backstop",
            &[("backstop.toml", &configuration)],
        );
        let container = CREDENTIALS
            .iter()
            .fold(container, |it, (name, value)| it.with(name, value))
            .with("AWS_ENDPOINT_URL", &queues.endpoint);
        Self {
            container,
            worker_port,
            admin: format!("http://127.0.0.1:{admin_port}"),
            _folder: folder,
        }
    }

    /// Starts the host, as the kubelet does.
    fn start(&self) -> Child {
        let mut host = self.container.host();
        host.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The status of a probe; 0 without an answer.
    async fn probe(&self, path: &str) -> u16 {
        let answer = reqwest::get(format!("{}{path}", self.admin)).await;
        answer.map_or(0, |it| it.status().as_u16())
    }
}

/// The most memory that a process has had, in MiB.
fn peak(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() / 1024
}

/// The MiB of a quantity.
fn mebibytes(quantity: &Value) -> u64 {
    let text = quantity.as_str().unwrap();
    let digits = text.trim_end_matches(char::is_alphabetic);
    let number: u64 = digits.parse().unwrap();
    if text.ends_with("Gi") {
        number * 1024
    } else {
        number
    }
}

#[tokio::test]
async fn a_sidecar_lives_before_its_worker_is_ready_after_it_and_drains_by_its_hook() {
    let overlay = Overlay::example("sidecar");
    let spec = &overlay.pod()["spec"];
    assert_eq!(spec["initContainers"][0]["restartPolicy"], "Always");
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(1000).await;
    let pod = Pod::of(&overlay, &queues);
    let host = pod.start();
    let id = host.id().unwrap();

    // The worker starts when the startup probe has passed: that must not wait for the worker.
    eventually("the host lives", || async {
        pod.probe("/livez").await == 200
    })
    .await;
    assert_eq!(pod.probe("/readyz").await, 503);
    let worker = Worker::at(pod.worker_port, |_| 200).await;
    eventually("the host is ready", || async {
        pod.probe("/readyz").await == 200
    })
    .await;
    queues.send(["one".to_owned()]).await;
    eventually("the worker has the message", || async {
        worker.attempts_of("one") == 1
    })
    .await;
    let requested = mebibytes(&overlay.backstop()["resources"]["requests"]["memory"]);
    assert!(peak(id) < requested, "{} MiB of {requested}", peak(id));

    let hook = &overlay.backstop()["lifecycle"]["preStop"]["exec"]["command"];
    let words: Vec<String> = serde_json::from_value(hook.clone()).unwrap();
    assert_eq!(words[0], "backstop");
    let drained = pod.container.command(&words[1..]).output().await.unwrap();
    assert!(drained.status.success(), "{}", text(&drained.stderr));
    let ended = host.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
}

#[tokio::test]
async fn a_deployment_is_scraped_with_the_token_for_reading_and_has_every_series_of_its_scaling() {
    let overlay = Overlay::example("production");
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(1000).await;
    let pod = Pod::of(&overlay, &queues);
    let _worker = Worker::at(pod.worker_port, |_| 200).await;
    let host = pod.start();
    eventually("the host is ready", || async {
        pod.probe("/readyz").await == 200
    })
    .await;
    let monitor = &overlay.only("PodMonitor")["spec"]["podMetricsEndpoints"][0];
    let key = &monitor["authorization"]["credentials"]["key"];
    let secret = pod.container.replaced("/run/secrets/backstop");
    let token = std::fs::read_to_string(Path::new(&secret).join(key.as_str().unwrap())).unwrap();
    let url = format!("{}{}", pod.admin, monitor["path"].as_str().unwrap());
    let client = reqwest::Client::new();
    let scrape = async |token: &str| client.get(&url).bearer_auth(token).send().await.unwrap();
    assert_eq!(scrape("another-token-of-the-tests").await.status(), 401);

    let triggers = overlay.only("ScaledObject")["spec"]["triggers"].clone();
    let query = triggers[0]["metadata"]["query"].as_str().unwrap();
    assert!(
        document("host/docs/operate/metrics.md").contains(query),
        "{query}"
    );
    let wanted: BTreeSet<_> = query.split("backstop_").skip(1).collect();
    assert_eq!(wanted.len(), 3, "{query}");
    let wanted: Vec<_> = wanted
        .iter()
        .map(|it| format!("backstop_{}", &it[..=it.find('}').unwrap()]))
        .collect();
    // The depth is read when the host has started.
    let missing = async || {
        let scraped = scrape(&token).await.text().await.unwrap();
        let is_there = |series: &String| scraped.contains(&format!("{series} "));
        let missing = wanted.iter().filter(|it| !is_there(it)).cloned();
        missing.collect::<Vec<_>>()
    };
    eventually("every series is there", async || missing().await.is_empty()).await;
    assert_eq!(triggers[1]["metadata"]["scaleOnInFlight"], "false");

    // What was not wanted for longer than the query looks ahead.
    let behavior = &overlay.only("ScaledObject")["spec"]["advanced"]["horizontalPodAutoscalerConfig"]
        ["behavior"];
    let window = behavior["scaleDown"]["stabilizationWindowSeconds"]
        .as_u64()
        .unwrap();
    assert!(query.contains(r#"within="5m""#) && window > 300);
    let started = tokio::time::Instant::now();
    let id = i32::try_from(host.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), Signal::TERM).unwrap();
    let ended = host.wait_with_output().await.unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended.stderr));
    assert!(started.elapsed() < Duration::from_secs(grace(&overlay) + 4));
}

#[tokio::test]
async fn the_manifests_that_init_writes_are_valid_and_name_the_queue() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    queues.redrive_after(1000).await;
    for overlay in ["sidecar", "deployment"] {
        let folder = tempfile::tempdir().unwrap();
        let mut init = command(&["init", "--http", "http://127.0.0.1:3000/work"]);
        init.args([
            "--queue-url",
            &queues.url,
            "--endpoint-url",
            &queues.endpoint,
        ])
        .args(["--kubernetes", overlay, "--name", "Invoices_EU"])
        .current_dir(&folder);
        let written = init.output().await.unwrap();
        assert!(written.status.success(), "{}", text(&written.stderr));
        let made = Overlay::of(&folder.path().join("kubernetes").join(overlay));
        let mut validate = python("kubernetes-validate");
        passes(validate.args(["--strict", "/dev/stdin"]), &made.text);
        let others = made.objects.iter().filter(|it| it["kind"] != "ConfigMap");
        for object in others.map(Value::to_string) {
            for example in ["orders", "eu-west-1", "123456789012", "examples"] {
                assert!(!object.contains(example), "{example}: {object}");
            }
        }
        let account = &made.only("ServiceAccount")["metadata"];
        assert_eq!(account["name"], "backstop-invoices-eu");
        let config = Config::parse(made.configuration(), Path::new("/etc/backstop.toml")).unwrap();
        assert_eq!(config.queues[0].url, queues.url);
        assert_eq!(config.admin.unwrap().address.port(), 9465);
        // The worker's port: that of its container, or of the rule that lets the host reach it.
        if overlay == "sidecar" {
            let worker = &made.pod()["spec"]["containers"][0];
            assert_eq!(worker["ports"][0]["containerPort"], 3000);
        } else {
            let egress = &made.only("NetworkPolicy")["spec"]["egress"];
            let rules = egress.as_array().unwrap();
            assert_eq!(rules.last().unwrap()["ports"][0]["port"], 3000);
        }
    }
}
