//! The dashboard of `examples/operate`: a real Prometheus scrapes two hosts under load, with the alerts loaded, and answers the query of every panel and of every mark.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use backstop_tests::aws::Queues;
use backstop_tests::backstop::{Running, command};
use backstop_tests::documents::{document, top};
use backstop_tests::emulator::{free_port, ministack, services};
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use backstop_tests::worker::{Worker, numbered};
use serde_json::Value;

/// Queries that may have no answer: nothing of the kind happens here. The panel, or the panel and the beginning of the query.
const MAY_BE_EMPTY: [&str; 0] = [];

/// A Prometheus that scrapes these addresses every second; ended when dropped.
struct Prometheus {
    child: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    async fn start(targets: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let targets = targets.join("', '");
        let rules = top().join("examples/operate/alerts.yaml");
        let config = format!(
            "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['{}']\nscrape_configs:\n  - job_name: backstop\n    static_configs:\n      - targets: ['{targets}']\n",
            rules.display()
        );
        let path = folder.path().join("prometheus.yml");
        std::fs::write(&path, config).unwrap();
        let of = |name: &str, path: &Path| format!("--{name}={}", path.display());
        let child = Command::new(services().join("prometheus/prometheus"))
            .arg(of("config.file", &path))
            .arg(of("storage.tsdb.path", &folder.path().join("data")))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let prometheus = Self {
            child,
            url: format!("http://{address}"),
            _folder: folder,
        };
        eventually("Prometheus is ready", || async {
            let ready = reqwest::get(format!("{}/-/ready", prometheus.url)).await;
            ready.is_ok_and(|answer| answer.status() == 200)
        })
        .await;
        prometheus
    }

    /// The result of a query; empty if there is nothing.
    async fn query(&self, query: &str) -> Vec<Value> {
        let url = format!("{}/api/v1/query", self.url);
        let request = reqwest::Client::new().get(url).query(&[("query", query)]);
        let answer = request.send().await.unwrap().text().await.unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().unwrap().clone()
    }

    /// Whether there was an answer at any time of the last two minutes.
    async fn has(&self, query: &str) -> bool {
        let sometime = format!("last_over_time(({query})[2m:1s])");
        !self.query(&sometime).await.is_empty()
    }
}

/// As Grafana fills in its variables, with a range that is short enough for a test.
fn filled_in(query: &Value) -> String {
    let query = query.as_str().unwrap();
    let query = query.replace("$queue", ".*");
    query.replace("$__rate_interval", "30s")
}

/// The queries of the dashboard, each with where it is.
fn queries() -> Vec<(String, String)> {
    let dashboard: Value =
        serde_json::from_str(&document("examples/operate/monitoring/dashboard.json")).unwrap();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title = panel["title"].as_str().unwrap().to_owned();
            queries.push((title, filled_in(&target["expr"])));
        }
    }
    for mark in dashboard["annotations"]["list"].as_array().unwrap() {
        let name = format!("mark: {}", mark["name"].as_str().unwrap());
        queries.push((name, filled_in(&mark["expr"])));
    }
    queries
}

#[tokio::test]
async fn every_panel_of_the_dashboard_has_data_of_hosts_under_load() {
    let queues = Queues::standard(&ministack().endpoint, &[]).await;
    let groups = Queues::fifo(&ministack().endpoint, &[]).await;
    let worker = Worker::by_name().await;
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.wat");
    std::fs::write(&policy, waits(4_000)).unwrap();
    let path = folder.path().join("backstop.toml");
    let queue = |name: &str, queues: &Queues| {
        format!(
            "[queues.{name}]\nurl = \"{}\"\ndead-letter-queue = \"{}\"\nhandler = {{ http = \"{}\" }}\ngrace = \"2s\"\npolicy = \"policy.wat\"\nshadow = \"linear\"\ndepth-poll = \"5s\"\n",
            queues.url, queues.dead_letters, worker.url
        )
    };
    let text = format!(
        "endpoint-url = \"{}\"\nmetrics = \"127.0.0.1:0\"\n[policies]\npoll = \"1s\"\nrefresh = \"1s\"\n{}{}",
        queues.endpoint,
        queue("orders", &queues),
        queue("groups", &groups),
    );
    std::fs::write(&path, text).unwrap();
    let mut hosts = Vec::new();
    let cache = |number: usize| folder.path().join(format!("cache-{number}"));
    for number in 0..2 {
        let cache = cache(number);
        let own = [
            "--config",
            path.to_str().unwrap(),
            "--cache",
            cache.to_str().unwrap(),
        ];
        hosts.push(Running::start(&own).await);
    }
    let address = |host: &Running| {
        let url = host.metrics();
        let address = url.trim_start_matches("http://");
        address.trim_end_matches("/metrics").to_owned()
    };
    let targets: Vec<_> = hosts.iter().map(address).collect();
    let prometheus = Prometheus::start(&targets).await;
    eventually("both hosts are scraped", || async {
        prometheus.query("backstop_build_info").await.len() == 2
    })
    .await;
    let operate = async |arguments: &[&str]| {
        let cache = cache(0);
        let own = ["--cache", cache.to_str().unwrap()];
        let output = command(&[arguments, &own].concat()).output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    let send = async |round: usize| {
        for (name, count) in [("fine", 30), ("wrong", 5), ("broken", 5)] {
            queues
                .send(numbered(&format!("{name}-{round}"), count))
                .await;
        }
        let group = |number: usize| {
            let body = if number == 0 { "broken" } else { "fine" };
            (
                Some(format!("g{round}")),
                format!("{body}-{round}-{number}"),
            )
        };
        groups.send_grouped((0..3).map(group)).await;
    };
    for round in 0..4 {
        send(round).await;
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }
    // A swap, a rollback and a pause.
    std::fs::write(&policy, waits(5_000)).unwrap();
    eventually("the new version is active", || async {
        let swaps = "sum(backstop_policy_swaps_total) >= 2";
        !prometheus.query(swaps).await.is_empty()
    })
    .await;
    send(4).await;
    operate(&["policy", "rollback"]).await;
    operate(&["pause", "orders", "--for", "3s"]).await;
    send(5).await;
    let mut empty = Vec::new();
    for attempt in 0..20 {
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        empty.clear();
        for (place, query) in queries() {
            let may_be_empty = MAY_BE_EMPTY.contains(&place.as_str());
            if !prometheus.has(&query).await && !may_be_empty {
                empty.push(format!("{place}: {query}"));
            }
        }
        if empty.is_empty() {
            break;
        }
        assert!(attempt < 19, "no data:\n{}", empty.join("\n"));
    }
    // The rules are those of this Prometheus too, and each can be evaluated.
    let url = format!("{}/api/v1/rules", prometheus.url);
    let rules = reqwest::get(url).await.unwrap().text().await.unwrap();
    let rules: Value = serde_json::from_str(&rules).unwrap();
    for rule in rules["data"]["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    for host in hosts {
        host.stop().await;
    }
}
