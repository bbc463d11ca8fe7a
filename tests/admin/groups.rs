//! What waits by tenant, on a real host: the interface, the page and the commands.

use aws_sdk_sqs::types::QueueAttributeName as Q;
use backstop_tests::aws::Queues;
use backstop_tests::backstop::{command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::eventually;
use reqwest::StatusCode;
use serde_json::json;

use super::page::{Person, button};
use super::schema::schema;
use super::validator::mistakes;
use super::world::World;

#[tokio::test]
async fn what_waits_is_shown_and_woken_by_tenant() {
    let queues = Queues::standard(&ministack().endpoint, &[(Q::VisibilityTimeout, "30")]).await;
    let config = format!(
        "endpoint-url = {:?}\nadmin = \"127.0.0.1:0\"\n[policies]\ncache = \"cache\"\n[queues.orders]\nurl = {:?}\ndead-letter-queue = {:?}\nhandler = {{ exec = [\"sh\", \"-c\", \"exit 7\"] }}\npolicy = \"linear\"\nsettings = {{ base = \"1h\" }}\ngroup-by = \"/tenant\"\n",
        queues.endpoint, queues.url, queues.dead_letters
    );
    let world = World::of_config(tempfile::tempdir().unwrap(), &config).await;
    let tenants = ["acme", "acme", "acme", "globex", "<b>\\u202e&"];
    let bodies = tenants.map(|tenant| format!(r#"{{"tenant":"{tenant}"}}"#));
    queues
        .send(bodies.into_iter().chain(["{}".to_owned()]))
        .await;
    eventually("they wait", async || {
        world.get("/v1/waiting").await.1["queues"][0]["waiting"] == 6
    })
    .await;
    let (_, report) = world.get("/v1/waiting?queue=orders").await;
    assert_eq!(mistakes(&schema(), "waiting", &report), [""; 0]);
    let orders = &report["queues"][0];
    assert_eq!(orders["grouped-by"], "/tenant");
    let groups: Vec<_> = orders["by-group"].as_array().unwrap().iter().collect();
    assert_eq!(groups.len(), 4, "{orders}");
    assert_eq!(
        (&groups[0]["value"], &groups[0]["count"]),
        (&json!("acme"), &json!(3))
    );
    let (_, report) = world.get("/v1/waiting?group=globex&group=acme").await;
    assert_eq!(report["queues"][0]["waiting"], 4);
    let id = report["queues"][0]["groups"][0]["samples"][0]
        .as_str()
        .unwrap();
    let (_, message) = world.get(&format!("/v1/messages/{id}")).await;
    assert_eq!(mistakes(&schema(), "messages", &message), [""; 0]);
    assert!(message["messages"][0]["group"].is_string(), "{message}");

    let mut ana = Person::at(&world.url);
    ana.sign_in("Ana", "").await;
    let (_, view) = ana.see("/waiting?queue=orders").await;
    assert!(
        view.contains("By /tenant") && view.contains("/waiting?queue=orders&amp;group=acme"),
        "{view}"
    );
    assert!(
        view.contains("&lt;b&gt;\\u{202e}&amp;") && !view.contains("<b>"),
        "{view}"
    );
    let (_, preview) = ana
        .see("/waiting/wake?queue=orders&group=acme&spread=0")
        .await;
    assert!(
        preview.contains("group acme") && preview.contains("<strong>3</strong> messages match"),
        "{preview}"
    );
    let (status, done) = ana.act(&button(&preview)).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(done["summary"], "Done at 1 of 1 hosts: 3 messages woken.");

    let run = async |arguments: &[&str]| {
        let of_host = ["--admin", &world.url];
        let output = command(&[arguments, &of_host].concat()).output().await;
        let output = output.unwrap();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, shown, error) = run(&["waiting", "orders"]).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(
        shown.contains("/tenant") && shown.contains("globex") && shown.contains("(none)"),
        "{shown}"
    );
    assert!(!shown.contains('\u{202e}'), "{shown}");
    let wake = ["wake", "orders", "--group", "globex", "--dry-run"];
    let (code, shown, error) = run(&wake).await;
    assert_eq!(code, Some(0), "{error}");
    assert!(shown.contains("1 of 1 matching messages"), "{shown}");
    world.running.stop().await;
}

#[tokio::test]
async fn a_group_of_a_queue_without_groups_is_refused_and_chooses_nothing() {
    let world = World::start().await;
    let wake = json!({ "queue": "orders", "filter": { "group": ["acme"] } });
    let (status, refused) = world.post("/v1/wake", &wake).await;
    assert_eq!(status, 400, "{refused}");
    let error = refused["error"].as_str().unwrap();
    assert!(error.contains("`group-by`"), "{error}");
    world.running.stop().await;
}
