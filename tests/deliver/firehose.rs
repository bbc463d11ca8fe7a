//! Delivery to a Firehose stream that writes to a bucket: records that fail in part are sent again, and every record arrives.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_firehose::types::{DeliveryStreamType, ExtendedS3DestinationConfiguration};
use aws_smithy_types::base64;
use backstop_core::policy::FullJitter;
use backstop_deliver::firehose::Stream;
use backstop_deliver::{Delivery, Undelivered};
use backstop_tests::aws::config;
use backstop_tests::backstop::{command, text};
use backstop_tests::emulator::ministack;
use backstop_tests::proxy::{Fault, Proxy};
use futures_util::stream;

/// A stream and its bucket.
async fn create(name: &str) -> aws_sdk_s3::Client {
    let sdk = config(&ministack().endpoint).await;
    let s3 = aws_sdk_s3::config::Builder::from(&sdk).force_path_style(true);
    let s3 = aws_sdk_s3::Client::from_conf(s3.build());
    s3.create_bucket().bucket(name).send().await.unwrap();
    let destination = ExtendedS3DestinationConfiguration::builder()
        .role_arn("arn:aws:iam::000000000000:role/firehose")
        .bucket_arn(format!("arn:aws:s3:::{name}"));
    aws_sdk_firehose::Client::new(&sdk)
        .create_delivery_stream()
        .delivery_stream_name(name)
        .delivery_stream_type(DeliveryStreamType::DirectPut)
        .extended_s3_destination_configuration(destination.build().unwrap())
        .send()
        .await
        .unwrap();
    s3
}

/// The numbers in all objects of the bucket, and how many records there are.
async fn records(s3: &aws_sdk_s3::Client, bucket: &str) -> (BTreeSet<u32>, usize) {
    let (mut numbers, mut count) = (BTreeSet::new(), 0);
    let mut pages = s3.list_objects_v2().bucket(bucket).into_paginator().send();
    while let Some(page) = pages.next().await {
        for object in page.unwrap().contents() {
            let request = s3.get_object().bucket(bucket).key(object.key().unwrap());
            let body = request.send().await.unwrap().body.collect().await.unwrap();
            for line in String::from_utf8(body.to_vec()).unwrap().lines() {
                numbers.insert(line.parse().unwrap());
                count += 1;
            }
        }
    }
    (numbers, count)
}

#[tokio::test]
async fn every_record_arrives_and_only_failed_ones_are_sent_again() {
    let name = format!("clicks-{}", std::process::id());
    let s3 = create(&name).await;
    let puts = AtomicU64::new(0);
    let proxy = Proxy::start(&ministack().endpoint, move |operation, _| {
        const FAULTS: [Fault; 4] = [
            Fault::FailedInPart,
            Fault::Throttled,
            Fault::None,
            Fault::None,
        ];
        match operation {
            "PutRecordBatch" => {
                FAULTS[usize::try_from(puts.fetch_add(1, Ordering::Relaxed)).unwrap() % 4]
            }
            _ => Fault::None,
        }
    })
    .await;
    let clicks = Stream::open(&config(&proxy.endpoint).await, &name)
        .await
        .unwrap();
    let policy = FullJitter::default().base(Duration::from_millis(5));
    let mut entries: Vec<_> = (0..700)
        .map(|number| format!("{number}\n").into_bytes())
        .collect();
    entries.insert(300, vec![b'0'; (1_000 << 10) + 1]);
    let delivery = Delivery::new(clicks).policy(policy).requests(2);
    let report = delivery.send(stream::iter(entries)).await.unwrap();
    assert_eq!(
        (report.counts.delivered, report.counts.possibly_twice),
        (700, 0)
    );
    assert!(report.counts.retries >= 250, "{:?}", report.counts);
    let [large] = &report.undelivered[..] else {
        panic!("{:?}", report.counts);
    };
    assert!(matches!(
        large.undelivered(),
        Some(Undelivered::TooLarge { .. })
    ));
    assert_eq!(records(&s3, &name).await, ((0..700).collect(), 700));
}

#[tokio::test]
async fn the_command_delivers_lines_and_records_of_the_api() {
    let name = format!("commands-{}", std::process::id());
    let s3 = create(&name).await;
    let folder = tempfile::tempdir().unwrap();
    let lines: String = (0..600).map(|number| format!("{number}\n")).collect();
    let records_of_api: String = (600..700)
        .map(|number| {
            format!(
                "{{\"Data\": \"{}\"}}\n",
                base64::encode(format!("{number}\n"))
            )
        })
        .chain(["{\"Data\": 7}\n".to_owned()])
        .collect();
    let deliver = async |file: &str, text: String, more: &[&str]| {
        std::fs::write(folder.path().join(file), text).unwrap();
        let endpoint = &ministack().endpoint;
        let arguments = [
            "deliver",
            "firehose",
            "--stream",
            &name,
            "--endpoint-url",
            endpoint,
            file,
        ];
        let mut command = command(&[&arguments[..], more].concat());
        command.current_dir(folder.path()).output().await.unwrap()
    };
    let delivered = deliver("lines", lines, &["--lines"]).await;
    assert_eq!(
        delivered.status.code(),
        Some(0),
        "{}",
        text(&delivered.stderr)
    );
    let delivered = deliver("records", records_of_api, &[]).await;
    assert_eq!(
        delivered.status.code(),
        Some(9),
        "{}",
        text(&delivered.stderr)
    );
    let left = std::fs::read_to_string(folder.path().join("undelivered.jsonl")).unwrap();
    assert_eq!(left, "{\"Data\": 7}\n");
    assert_eq!(records(&s3, &name).await, ((0..700).collect(), 700));
}

#[tokio::test]
async fn a_stream_that_does_not_exist_is_an_error_at_once() {
    let sdk = config(&ministack().endpoint).await;
    let refused = Stream::open(&sdk, "missing").await.unwrap_err();
    assert_eq!(refused.error.code, "ResourceNotFoundException");
}
