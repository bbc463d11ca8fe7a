//! Policies in S3: pushed, pulled, and fetched only when they have changed.

use std::path::Path;

use backstop_tests::aws;
use backstop_tests::bench::{Bench, module};
use backstop_tests::emulator::{Emulator, ministack, moto};
use backstop_versions::{Bucket, BucketError, SIGNATURE_SUFFIX};

const LARGEST: usize = 1 << 20;

async fn in_s3(emulator: &Emulator) {
    let bench = Bench::new().await;
    let sdk = aws::config(&emulator.endpoint).await;
    let name = format!("policies-{}", std::process::id());
    let s3 = aws_sdk_s3::Client::from_conf(
        aws_sdk_s3::config::Builder::from(&sdk)
            .force_path_style(true)
            .build(),
    );
    s3.create_bucket().bucket(&name).send().await.unwrap();
    let url = format!("s3://{name}/team/orders.wasm");
    let endpoint = ["--endpoint-url", &emulator.endpoint];
    let push = [
        &["push", "orders.wasm", &url, "--sign", "team.key"][..],
        &endpoint,
    ]
    .concat();
    let pushed = bench.json(&push).await;
    let pinned = pushed["pinned"].as_str().unwrap();
    let pull = |url, key| {
        [
            &["pull", url, "-o", "pulled.wasm", "--require-signature", key][..],
            &endpoint,
        ]
        .concat()
    };
    let pulled = bench.json(&pull(pinned, "team.pub")).await;
    assert_eq!(pulled["pin"], pushed["digest"]);
    assert_eq!(bench.read("pulled.wasm"), bench.read("orders.wasm"));
    assert!(
        bench
            .path(&format!("pulled.wasm{SIGNATURE_SUFFIX}"))
            .exists()
    );
    bench
        .fails(&pull(&url, "other.pub"), 4, "which is not accepted")
        .await;
    let elsewhere = url.replace("orders", "none");
    bench
        .fails(&pull(&elsewhere, "team.pub"), 5, "there is no s3://")
        .await;
    let wrong = format!("{url}@sha256:{}", "0".repeat(64));
    bench
        .fails(&pull(&wrong, "team.pub"), 4, "pinned to: found")
        .await;
    // As an update check reads it.
    let bucket = Bucket::new(&sdk, true);
    let key = "team/orders.wasm";
    let first = bucket
        .get(&name, key, None, LARGEST)
        .await
        .unwrap()
        .unwrap();
    let etag = first.etag.as_deref();
    assert!(etag.is_some());
    assert_eq!(bucket.get(&name, key, etag, LARGEST).await.unwrap(), None);
    bucket.put(&name, key, module(2)).await.unwrap();
    let second = bucket
        .get(&name, key, etag, LARGEST)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(second.file, module(2));
    let large = bucket.get(&name, key, None, module(2).len() - 1).await;
    assert!(
        matches!(large, Err(BucketError::TooLarge { .. })),
        "{large:?}"
    );
    assert!(bucket.signature(&name, key).await.unwrap().is_some());
    assert_eq!(
        bucket.signature(&name, "team/none.wasm").await.unwrap(),
        None
    );
    let missing = bucket.get("no-such-bucket-here", key, None, LARGEST).await;
    assert!(
        matches!(missing, Err(BucketError::NotFound { .. })),
        "{missing:?}"
    );
}

#[tokio::test]
async fn a_bucket_of_ministack_works() {
    in_s3(ministack()).await;
}

#[tokio::test]
async fn a_bucket_of_moto_works() {
    in_s3(moto()).await;
}

#[tokio::test]
async fn an_unreachable_bucket_is_reported() {
    let sdk = aws::config("http://127.0.0.1:1").await;
    let unreachable_error = Bucket::new(&sdk, true)
        .get("b", "k", None, 1)
        .await
        .unwrap_err();
    assert!(unreachable_error.is_unreachable(), "{unreachable_error}");
    assert!(
        unreachable_error
            .to_string()
            .starts_with("can't reach s3://b/k"),
        "{unreachable_error}"
    );
    let mut regionless = sdk.into_builder();
    regionless.set_region(None::<aws_config::Region>);
    let unready = Bucket::new(&regionless.build(), true)
        .get("b", "k", None, 1)
        .await;
    assert!(unready.is_err_and(|error| !error.is_unreachable()));
    let bench = Bench::new().await;
    let mistaken = ["pull", Path::new("orders.wasm").to_str().unwrap()];
    bench
        .fails(&mistaken, 2, "expected oci://REGISTRY/REPOSITORY:TAG")
        .await;
}
