//! The model of the table is what an emulator of DynamoDB is: the same short histories on both.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use backstop_core::failure::Timestamp;
use backstop_core::lock::lock;
use backstop_idempotency::store::{Claim, Completion, Renewal, Store};
use backstop_idempotency::{Attributes, DynamoStore, RecordFormat};
use backstop_tests::emulator::ministack;
use backstop_tests::idempotency::{Records, SORT_KEY};
use rand::rngs::ChaCha8Rng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::network::client;
use super::table::Table;

/// The model, without a network in between.
#[derive(Debug, Clone)]
struct Direct(Arc<Mutex<Table>>);

impl HttpConnector for Direct {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap();
        let body = serde_json::from_slice(request.body().bytes().unwrap()).unwrap();
        let answer = lock(&self.0).request(target.rsplit('.').next().unwrap(), &body);
        let (status, body) = match answer {
            Ok(body) => (200, body),
            Err(refusal) => (refusal.status, refusal.body()),
        };
        let status = status.try_into().unwrap();
        HttpConnectorFuture::ready(Ok(HttpResponse::new(
            status,
            SdkBody::from(body.to_string()),
        )))
    }
}

/// Something that an owner does, with its times.
#[derive(Debug)]
struct Step {
    what: u32,
    key: String,
    owner: String,
    now: Timestamp,
    lease: Duration,
    take_over: bool,
    result: Result<String, String>,
}

impl Step {
    fn draw(now: Timestamp, random: &mut ChaCha8Rng) -> Self {
        let results = [r#""done""#, r#"{"a": [1, 2.5, null], "b": ""}"#, "7"];
        Self {
            what: random.random_range(0..5),
            key: format!("orders#{}", random.random_range(0..2)),
            owner: format!("owner {}", random.random_range(0..3)),
            now,
            lease: Duration::from_secs(random.random_range(1..40)),
            take_over: random.random_ratio(2, 3),
            result: if random.random_ratio(1, 6) {
                Err("too large".to_owned())
            } else {
                Ok((*results.choose(random).unwrap()).to_owned())
            },
        }
    }

    /// What the store answers to it.
    async fn answer(&self, store: &DynamoStore) -> String {
        let (key, owner) = (self.key.as_str(), self.owner.as_str());
        let lease_until = self.now.plus(self.lease);
        let expires = lease_until.0 / 1_000 + 20;
        let claim = Claim {
            key,
            owner,
            now: self.now,
            lease_until,
            expires,
            validation: self.take_over.then_some("a hash"),
            take_over: self.take_over,
        };
        let renewal = Renewal {
            key,
            owner,
            lease_until,
            expires,
        };
        let result = self.result.as_ref();
        let completion = Completion {
            key,
            owner,
            expires,
            result: result.map(String::as_str).map_err(String::as_str),
        };
        match self.what {
            0 | 1 => format!("{:?}", store.claim(&claim).await.unwrap()),
            2 => store.renew(&renewal).await.unwrap().to_string(),
            3 => store.complete(&completion).await.unwrap().to_string(),
            _ => format!("{:?}", store.release(key, owner).await.unwrap()),
        }
    }
}

#[tokio::test]
async fn the_model_answers_as_an_emulator_does() {
    let mut answers = std::collections::BTreeSet::new();
    for seed in 0..16 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (has_sort_key, is_python) = (seed % 2 == 0, seed % 4 < 2);
        let format = if is_python {
            RecordFormat::Python
        } else {
            RecordFormat::TypeScript
        };
        let endpoint = &ministack().endpoint;
        let (records, keys, attributes) = if has_sort_key {
            let attributes = Attributes::default().sort_key(SORT_KEY);
            let keys = ["id", SORT_KEY].as_slice();
            (Records::with_sort_key(endpoint).await, keys, attributes)
        } else {
            let keys = ["id"].as_slice();
            (Records::create(endpoint).await, keys, Attributes::default())
        };
        let table = Direct(Arc::new(Mutex::new(Table::new(keys))));
        let model = DynamoStore::new(client(table), "model")
            .attributes(attributes)
            .format(format);
        let emulator = records.store(format);
        let (mut now, mut history) = (Timestamp(1_798_761_600_000), Vec::new());
        for _ in 0..40 {
            now = now.plus(Duration::from_millis(random.random_range(0..12_000)));
            let step = Step::draw(now, &mut random);
            let answer = step.answer(&model).await;
            let shown = format!("{step:?}: {answer}");
            history.push(shown);
            let expected = step.answer(&emulator).await;
            assert_eq!(answer, expected, "seed {seed}: {history:#?}");
            answers.insert(answer.split(['{', '(']).next().unwrap().to_owned());
        }
    }
    // Each kind of answer came.
    assert_eq!(answers.len(), 5, "{answers:?}");
}
