//! Records: the real libraries read ours, and we read theirs.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use backstop_core::failure::Error;
use backstop_idempotency::{
    Attributes, Completed, DynamoStore, Event, Idempotency, OnceError, RecordFormat, TableError,
};
use backstop_tests::emulator::ministack;
use backstop_tests::idempotency::Records;
use serde_json::{Value, json};

use crate::powertools::{Call, PREFIX, Powertools};

const FORMATS: [RecordFormat; 2] = [RecordFormat::Python, RecordFormat::TypeScript];

struct World {
    table: Records,
    library: Powertools,
    ours: Idempotency,
}

impl World {
    async fn new(format: RecordFormat, has_sort_key: bool) -> Self {
        let endpoint = &ministack().endpoint;
        let table = if has_sort_key {
            Records::with_sort_key(endpoint).await
        } else {
            Records::create(endpoint).await
        };
        let library = Powertools::start(format, Some(&table));
        let ours = Idempotency::builder(table.store(format), PREFIX);
        let ours = ours.key("/order/id").validate("/order/total");
        Self {
            ours: ours.build().unwrap(),
            library,
            table,
        }
    }

    async fn ours(
        &self,
        event: &str,
        result: &Value,
    ) -> Result<Completed<Value>, OnceError<Error>> {
        let event = Event::parse(event).unwrap();
        let work = || async { Ok::<_, Error>(result.clone()) };
        self.ours.once_for(&event, work).await
    }

    async fn theirs(&mut self, event: &str, result: &str) -> Value {
        let call = call(event, result);
        self.library.call(call).await
    }
}

fn call<'a>(event: &'a str, result: &'a str) -> Call<'a> {
    Call {
        event,
        result,
        path: "order.id",
        validate: Some("order.total"),
        ..Call::default()
    }
}

fn event(id: &str) -> String {
    json!({"order": {"id": id, "total": 2.5}}).to_string()
}

/// A result as each library reads it back.
fn json_of(text: &Value) -> Value {
    serde_json::from_str(text.as_str().unwrap_or_else(|| panic!("{text}"))).unwrap()
}

#[tokio::test]
async fn each_reads_the_results_of_the_other() {
    for format in FORMATS {
        for has_sort_key in [false, true] {
            let mut world = World::new(format, has_sort_key).await;
            for (number, result) in [
                json!(null),
                json!(true),
                json!("Zoë 😀"),
                json!({"statusCode": 200, "body": "{\"a\": 1}", "list": [1, 2.5, null, {}], "small": 1e-7}),
                json!(9_007_199_254_740_991_i64),
                json!([]),
            ]
            .iter()
            .enumerate()
            {
                let (ours, theirs) = (event(&format!("ours-{number}")), event(&format!("theirs-{number}")));
                assert!(!world.ours(&ours, result).await.unwrap().repeated);
                let read = world.theirs(&ours, "\"not this\"").await;
                // Powertools for Python returns `None` for every stored result that is false in Python.
                let is_false = format == RecordFormat::Python && *result == json!([]);
                let expected = if is_false { &Value::Null } else { result };
                assert_eq!((&json_of(&read["result"]), &read["ran"]), (expected, &json!(false)), "{format:?}");

                let written = world.theirs(&theirs, &result.to_string()).await;
                assert_eq!(written["ran"], true, "{written}");
                let read = world.ours(&theirs, &json!("not this")).await.unwrap();
                assert_eq!((&read.result, read.repeated), (result, true), "{format:?}");
            }
            assert_eq!(world.table.count().await["COMPLETED"], 12);
        }
    }
}

#[tokio::test]
async fn each_refuses_a_repeat_with_another_payload() {
    for format in FORMATS {
        let mut world = World::new(format, false).await;
        let changed = |id: &str| json!({"order": {"id": id, "total": 2.51}}).to_string();
        world.ours(&event("ours"), &json!(1)).await.unwrap();
        let refused = world.theirs(&changed("ours"), "2").await;
        assert_eq!(refused["error"], "IdempotencyValidationError", "{refused}");

        world.theirs(&event("theirs"), "1").await;
        let refused = world.ours(&changed("theirs"), &json!(2)).await.unwrap_err();
        assert!(matches!(refused, OnceError::PayloadMismatch), "{refused}");
    }
}

#[tokio::test]
async fn each_sees_work_of_the_other_in_progress_and_takes_over_after_its_lease() {
    for format in FORMATS {
        let mut world = World::new(format, false).await;
        // Ours is in progress.
        let (ours, id) = (world.ours.clone(), Event::parse(&event("ours")).unwrap());
        let hanging = tokio::spawn(async move {
            let work = std::future::pending::<Result<Value, Error>>;
            ours.once_for(&id, work)
                .deadline(Duration::from_secs(2))
                .await
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        let refused = world.theirs(&event("ours"), "1").await;
        assert_eq!(
            refused["error"], "IdempotencyAlreadyInProgressError",
            "{refused}"
        );
        let ended = hanging.await.unwrap();
        assert!(matches!(ended, Err(OnceError::LeaseEnded(_))), "{ended:?}");
        let taken_over = world.theirs(&event("ours"), "1").await;
        assert_eq!(
            (json_of(&taken_over["result"]), &taken_over["ran"]),
            (json!(1), &json!(true))
        );

        // Theirs is in progress, for longer than what is left of the invocation.
        let theirs = event("theirs");
        let slow = Call {
            takes: 3_000,
            remaining: Some(1_500),
            ..call(&theirs, "\"late\"")
        };
        world.library.send(slow).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let refused = world.ours(&theirs, &json!(2)).await.unwrap_err();
        let OnceError::InProgress { left } = refused else {
            panic!("{refused}")
        };
        assert!(left <= Duration::from_millis(1_500), "{left:?}");
        tokio::time::sleep(left + Duration::from_millis(10)).await;
        let taken_over = world.ours(&theirs, &json!(2)).await.unwrap();
        assert_eq!((taken_over.result, taken_over.repeated), (json!(2), false));

        // As the document says: their late completion has no condition.
        let late = world.library.receive().await;
        assert_eq!(json_of(&late["result"]), json!("late"));
        let overwritten = world.ours(&theirs, &json!(2)).await.unwrap();
        assert_eq!(
            (overwritten.result, overwritten.repeated),
            (json!("late"), true)
        );
    }
}

#[tokio::test]
async fn work_of_powertools_that_failed_or_has_no_lease() {
    for format in FORMATS {
        let mut world = World::new(format, false).await;
        let theirs = event("theirs");
        let failing = Call {
            what: "fail",
            ..call(&theirs, "1")
        };
        let failed = world.library.call(failing).await;
        assert_eq!(failed["ran"], true, "{failed}");
        let done = world.ours(&theirs, &json!(2)).await.unwrap();
        assert!(!done.repeated);

        // Outside of Lambda there is no lease: the record is in the way until it expires.
        let unleased = event("unleased");
        let slow = Call {
            takes: 1_000,
            remaining: None,
            ..call(&unleased, "1")
        };
        world.library.send(slow).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let refused = world.ours(&unleased, &json!(2)).await.unwrap_err();
        let hour = Duration::from_secs(3_590)..Duration::from_secs(3_601);
        assert!(
            matches!(refused, OnceError::InProgress { left } if hour.contains(&left)),
            "{refused}"
        );
        world.library.receive().await;
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_is_an_error_for_everybody_and_the_work_is_done_once() {
    for format in FORMATS {
        let mut world = World::new(format, false).await;
        // Larger than an item as it is, and as JSON text that is six times as long as what it says.
        for (id, text) in [
            ("long", "x".repeat(3_000_000)),
            ("escaped", "\0".repeat(500_000)),
        ] {
            let ran = AtomicU32::new(0);
            let work = || async {
                ran.fetch_add(1, Ordering::Relaxed);
                Ok::<_, Error>(Some(text.clone()))
            };
            for _ in 0..2 {
                let event = Event::parse(&event(id)).unwrap();
                let error = world.ours.once_for(&event, work).await.unwrap_err();
                assert!(error.is_work_done(), "{format:?} {id}: {error}");
                let failure = Error::from(error);
                assert_eq!(failure.code, "IdempotencyResultNotStored");
                assert!(failure.message.contains("bytes"), "{}", failure.message);
            }
            let repeat = world.ours(&event(id), &json!(null)).await;
            assert!(
                matches!(repeat, Err(OnceError::ResultNotStored { .. })),
                "{repeat:?}"
            );
            let theirs = world.theirs(&event(id), "1").await;
            assert_eq!(theirs["ran"], false, "{format:?}: {theirs}");
            assert!(theirs["error"].is_string(), "{format:?}: {theirs}");
            assert_eq!(ran.load(Ordering::Relaxed), 1);
        }
        assert_eq!(world.table.count().await["COMPLETED_RESULT_NOT_STORED"], 2);
    }
}

#[tokio::test]
async fn a_table_is_checked() {
    let table = Records::create(&ministack().endpoint).await;
    let store = table.store(RecordFormat::Python);
    assert_eq!(store.check().await, Ok(Some(false)));
    let sorted = store
        .clone()
        .attributes(Attributes::default().sort_key("sk".to_owned()));
    let error = sorted.check().await.unwrap_err();
    assert!(matches!(error, TableError::OtherKey { .. }), "{error}");
    let none = DynamoStore::new(table.client.clone(), "no-such-table");
    let error = none.check().await.unwrap_err();
    assert!(matches!(error, TableError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("no-such-table"), "{error}");
}
