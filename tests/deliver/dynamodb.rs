//! Delivery to DynamoDB tables: puts and deletes, unprocessed items, throttles, cut connections, slow answers. No entry is lost, and the last entry of a key wins.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue::{B, N, S};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, WriteRequest,
};
use backstop_core::policy::FullJitter;
use backstop_deliver::dynamodb::{Table, delete, put};
use backstop_deliver::{Delivery, Duplicates, Report, Undelivered};
use backstop_tests::aws::config;
use backstop_tests::emulator::{ministack, moto};
use backstop_tests::proxy::{Fault, Proxy};
use futures_util::stream;

/// A table for one test, with a number as its partition key and a text as its sort key.
struct Items {
    client: Client,
    endpoint: String,
    name: String,
}

impl Items {
    async fn create(endpoint: &str) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("items-{}-{number}", std::process::id());
        let client = Client::new(&config(endpoint).await);
        let mut request = client
            .create_table()
            .table_name(&name)
            .billing_mode(BillingMode::PayPerRequest);
        for (attribute, key, kind) in [
            ("id", KeyType::Hash, ScalarAttributeType::N),
            ("part", KeyType::Range, ScalarAttributeType::S),
        ] {
            let element = KeySchemaElement::builder().attribute_name(attribute);
            let definition = AttributeDefinition::builder().attribute_name(attribute);
            request = request
                .key_schema(element.key_type(key).build().unwrap())
                .attribute_definitions(definition.attribute_type(kind).build().unwrap());
        }
        request.send().await.unwrap();
        Self {
            client,
            endpoint: endpoint.to_owned(),
            name,
        }
    }

    /// Delivers through a proxy with this plan for the writes.
    async fn deliver(
        &self,
        duplicates: Duplicates,
        entries: impl IntoIterator<Item = WriteRequest>,
        plan: impl Fn(u64) -> Fault + Send + Sync + 'static,
    ) -> Report<WriteRequest, ()> {
        let writes = AtomicU64::new(0);
        let plan = move |operation: &str, _| match operation {
            "BatchWriteItem" => plan(writes.fetch_add(1, Ordering::Relaxed)),
            _ => Fault::None,
        };
        let proxy = Proxy::start(&self.endpoint, plan).await;
        let table = Table::open(&config(&proxy.endpoint).await, &self.name)
            .await
            .unwrap();
        assert_eq!(table.key(), ["id", "part"]);
        let policy = FullJitter::default()
            .base(Duration::from_millis(5))
            .cap(Duration::from_millis(50))
            .max_attempts(20);
        let delivery = Delivery::new(table.duplicates(duplicates)).policy(policy);
        delivery
            .requests(4)
            .send(stream::iter(entries))
            .await
            .unwrap()
    }

    /// The values in the table by their partition key.
    async fn values(&self) -> BTreeMap<u32, String> {
        let mut values = BTreeMap::new();
        let mut start = None;
        loop {
            let request = self
                .client
                .scan()
                .table_name(&self.name)
                .consistent_read(true);
            let page = request.set_exclusive_start_key(start).send().await.unwrap();
            for item in page.items() {
                let id = item["id"].as_n().unwrap().parse().unwrap();
                values.insert(id, item["value"].as_s().unwrap().clone());
            }
            start = page.last_evaluated_key;
            if start.is_none() {
                return values;
            }
        }
    }
}

fn key(id: u32) -> [(String, aws_sdk_dynamodb::types::AttributeValue); 2] {
    [
        ("id".to_owned(), N(id.to_string())),
        ("part".to_owned(), S("p".to_owned())),
    ]
}

fn item(id: u32, value: &str) -> WriteRequest {
    let value = ("value".to_owned(), S(value.to_owned()));
    put(key(id).into_iter().chain([value]))
}

/// Two of three requests have a fault, each fault in turn.
fn every_fault(number: u64) -> Fault {
    const FAULTS: [Fault; 6] = [
        Fault::Throttled,
        Fault::FailedInPart,
        Fault::ServerError,
        Fault::LateServerError,
        Fault::Cut,
        Fault::Slow,
    ];
    match number % 3 {
        2 => Fault::None,
        _ => FAULTS[usize::try_from(number).unwrap() % FAULTS.len()],
    }
}

#[tokio::test]
async fn every_put_and_delete_arrives_through_every_fault() {
    for endpoint in [&ministack().endpoint, &moto().endpoint] {
        let items = Items::create(endpoint).await;
        let report = items
            .deliver(
                Duplicates::Separate,
                (0..500).map(|id| item(id, "old")),
                every_fault,
            )
            .await;
        assert_eq!(
            (report.counts.delivered, report.undelivered.len()),
            (500, 0)
        );
        assert!(report.counts.retries > 50, "{:?}", report.counts);
        // Every third is deleted, the others are put again.
        let changes = (0..500).map(|id| match id % 3 {
            0 => delete(key(id)),
            _ => item(id, "new"),
        });
        let report = items
            .deliver(Duplicates::Separate, changes, every_fault)
            .await;
        assert_eq!(
            (report.counts.delivered, report.undelivered.len()),
            (500, 0)
        );
        let expected = (0..500).filter(|id| id % 3 != 0);
        let expected: BTreeMap<_, _> = expected.map(|id| (id, "new".to_owned())).collect();
        assert_eq!(items.values().await, expected);
    }
}

#[tokio::test]
async fn without_faults_the_requests_are_full() {
    let items = Items::create(&ministack().endpoint).await;
    let entries = (0..500).map(|id| item(id, "new"));
    let report = items
        .deliver(Duplicates::Refuse, entries, |_| Fault::None)
        .await;
    assert_eq!((report.counts.delivered, report.counts.requests), (500, 20));
}

/// Entries of 40 keys, each key 10 times, with values that count up.
fn repeated() -> impl Iterator<Item = WriteRequest> {
    (0..400).map(|number| {
        // The same number, written in another way.
        let id = match number % 2 {
            0 => format!("{}", number % 40),
            _ => format!("{}.0e0", number % 40),
        };
        let value = ("value".to_owned(), S((number / 40).to_string()));
        let key = [
            ("id".to_owned(), N(id)),
            ("part".to_owned(), S("p".to_owned())),
        ];
        put(key.into_iter().chain([value]))
    })
}

#[tokio::test]
async fn the_last_entry_of_a_key_wins_separately_or_at_once() {
    for (duplicates, superseded) in [(Duplicates::Separate, 0), (Duplicates::LastWins, 300)] {
        let items = Items::create(&ministack().endpoint).await;
        let report = items.deliver(duplicates, repeated(), every_fault).await;
        let counts = report.counts;
        assert_eq!(counts.delivered + counts.superseded, 400, "{counts:?}");
        assert!(counts.superseded >= superseded, "{counts:?}");
        let expected = (0..40).map(|id| (id, "9".to_owned())).collect();
        assert_eq!(items.values().await, expected);
    }
}

#[tokio::test]
async fn a_second_entry_of_a_key_can_be_refused() {
    let items = Items::create(&ministack().endpoint).await;
    let report = items
        .deliver(Duplicates::Refuse, repeated(), |_| Fault::Slow)
        .await;
    assert_eq!(report.counts.delivered + report.counts.undelivered, 400);
    assert!(report.counts.delivered < 200, "{:?}", report.counts);
    let duplicate = |outcome: &backstop_deliver::Outcome<_, _>| {
        outcome.undelivered() == Some(&Undelivered::Duplicate) && outcome.attempts == 0
    };
    assert!(report.undelivered.iter().all(duplicate));
}

#[tokio::test]
async fn an_entry_that_breaks_its_request_is_found_and_the_others_arrive() {
    for endpoint in [&ministack().endpoint, &moto().endpoint] {
        let items = Items::create(endpoint).await;
        let entries = (0..50).map(|id| match id {
            // Without a sort key.
            17 => put([("id".to_owned(), N("17".to_owned()))]),
            // With a partition key of another type.
            31 => put([
                ("id".to_owned(), S("31".to_owned())),
                ("part".to_owned(), S("p".to_owned())),
            ]),
            // Larger than an item may be.
            44 => put(key(44)
                .into_iter()
                .chain([("blob".to_owned(), B(vec![0; 500_000].into()))])),
            id => item(id, "new"),
        });
        let report = items
            .deliver(Duplicates::Separate, entries, |_| Fault::None)
            .await;
        let mut undelivered: Vec<_> = report
            .undelivered
            .iter()
            .map(|outcome| (outcome.index, outcome.undelivered().unwrap().as_str()))
            .collect();
        undelivered.sort_unstable();
        assert_eq!(
            undelivered,
            [(17, "rejected"), (31, "rejected"), (44, "too-large")]
        );
        assert_eq!(items.values().await.len(), 47);
    }
}

#[tokio::test]
async fn a_table_that_does_not_exist_is_an_error_at_once() {
    let sdk = config(&ministack().endpoint).await;
    let refused = Table::open(&sdk, "missing").await.unwrap_err();
    assert_eq!(refused.error.code, "ResourceNotFoundException");
    assert!(!refused.retryable, "{refused}");
}

#[tokio::test]
async fn the_command_delivers_requests_and_exported_items() {
    let items = Items::create(&ministack().endpoint).await;
    items
        .deliver(
            Duplicates::Separate,
            (0..10).map(|id| item(id, "old")),
            |_| Fault::None,
        )
        .await;
    let folder = tempfile::tempdir().unwrap();
    let id = |id: u32| format!(r#""id": {{"N": "{id}"}}, "part": {{"S": "p"}}"#);
    let mut lines = String::new();
    for number in 0..100 {
        let item = format!(r#"{{{}, "value": {{"S": "new"}}}}"#, id(number));
        lines += &match number {
            5 => format!("{{\"DeleteRequest\": {{\"Key\": {{{}}}}}}}\n", id(number)),
            6 => format!("{{\"Item\": {item}}}\n"),
            7 => "{\"Item\": {\"id\": {\"N\": \"7\"}}}\n".to_owned(),
            _ => format!("{{\"PutRequest\": {{\"Item\": {item}}}}}\n"),
        };
    }
    let input = folder.path().join("orders.jsonl");
    std::fs::write(&input, lines).unwrap();
    let arguments = [
        "deliver",
        "dynamodb",
        "--json",
        "--table",
        &items.name,
        "--duplicates",
        "last-wins",
        "--endpoint-url",
        &items.endpoint,
        input.to_str().unwrap(),
    ];
    let mut command = backstop_tests::backstop::command(&arguments);
    let output = command.current_dir(folder.path()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(9));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(summary["delivered"], 99, "{summary}");
    let left = std::fs::read_to_string(folder.path().join("undelivered.jsonl")).unwrap();
    assert_eq!(left, "{\"Item\": {\"id\": {\"N\": \"7\"}}}\n");
    let mut expected: BTreeMap<_, _> = (0..100).map(|id| (id, "new".to_owned())).collect();
    expected.remove(&5);
    expected.insert(7, "old".to_owned());
    assert_eq!(items.values().await, expected);
}
