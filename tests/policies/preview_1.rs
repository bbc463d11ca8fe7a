//! Modules for WASI preview 1, with the official adapter, as other toolchains may build them. They are granted nothing.

use std::num::NonZeroU32;
use std::sync::Arc;

use backstop_core::failure::Failure;
use backstop_engine::{Evaluation, Limits, Payload, Policy, Sandbox};
use backstop_tests::preview_1::component;

/// Half of the range of random numbers.
fn failure(code: &str) -> Failure {
    Failure {
        random: 0.5,
        ..backstop_tests::failure(code)
    }
}

fn evaluate_once(policy: &Policy, code: &str) -> Evaluation {
    policy.evaluate(
        &failure(code),
        &Arc::new(Payload::new(r#"{"tenant": "t-1"}"#)),
    )
}

/// A policy of a preview-1 core module that exports `delay`.
fn behind_the_adapter(module: Vec<u8>) -> Arc<Policy> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.wasm");
    std::fs::write(&file, component(module)).unwrap();
    let sandbox = Sandbox::new(Limits::default()).unwrap();
    backstop_versions::load(&sandbox, file.to_str().unwrap(), &[])
        .unwrap_or_else(|error| panic!("{:#}", anyhow::Error::from(error)))
}

#[test]
fn a_preview_1_module_behind_the_official_adapter_has_no_clock_no_files_and_fixed_random_numbers() {
    let core = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
        (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environment (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $arguments (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_prestat_get" (func $preopen (param i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
        (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 4)
        (global $next (mut i32) (i32.const 8192))
        (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
            (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1))) (i32.sub (i32.const 0) (local.get $align))))
            (global.set $next (i32.add (local.get $at) (local.get $size)))
            (local.get $at))
        (data (i32.const 100) "to stderr\n")
        (data (i32.const 200) "\64\00\00\00\0a\00\00\00")
        (func (export "backstop:policy/backoff@0.1.0#delay") (param $failure i32) (result i32)
            (drop (call $write (i32.const 2) (i32.const 200) (i32.const 1) (i32.const 300)))
            (drop (call $environment (i32.const 304) (i32.const 308)))
            (drop (call $arguments (i32.const 312) (i32.const 316)))
            (drop (call $clock (i32.const 0) (i64.const 1) (i32.const 320)))
            (drop (call $clock (i32.const 1) (i64.const 1) (i32.const 328)))
            ;; No preopened folder: EBADF. No environment, no arguments, and clocks that stand still.
            (if (i32.ne (call $preopen (i32.const 3) (i32.const 400)) (i32.const 8)) (then (unreachable)))
            (if (i32.or (i32.load (i32.const 304)) (i32.load (i32.const 312))) (then (unreachable)))
            (if (i64.ne (i64.load (i32.const 320)) (i64.const 0)) (then (unreachable)))
            (if (i64.ne (i64.load (i32.const 328)) (i64.const 1)) (then (unreachable)))
            ;; Attempt 9 asks to sleep.
            (if (i32.eq (i32.load offset=16 (local.get $failure)) (i32.const 9)) (then
                (i32.store8 (i32.const 508) (i32.const 0))
                (i64.store (i32.const 524) (i64.const 1000000000))
                (drop (call $poll (i32.const 500) (i32.const 600) (i32.const 1) (i32.const 700)))))
            (drop (call $random (i32.const 340) (i32.const 4)))
            (i32.and (i32.load (i32.const 340)) (i32.const 0xffffff))))"#;
    let policy = behind_the_adapter(wat::parse_str(core).unwrap());
    let evaluation = evaluate_once(&policy, "HTTP 503");
    assert_eq!(
        evaluation
            .log
            .first()
            .map(|line| (line.level.as_str(), line.message.as_str())),
        Some(("stderr", "to stderr"))
    );
    let first = evaluation.answer.unwrap();
    assert_eq!(
        evaluate_once(&policy, "HTTP 503").answer.unwrap(),
        first,
        "random bytes come from the failure's own number"
    );
    let other = Failure {
        random: 0.25,
        ..failure("HTTP 503")
    };
    assert_ne!(
        policy.evaluate(&other, &Arc::default()).answer.unwrap(),
        first
    );

    let sleepy = Failure {
        attempt: NonZeroU32::new(9).unwrap(),
        ..failure("HTTP 503")
    };
    let evaluation = policy.evaluate(&sleepy, &Arc::default());
    assert!(evaluation.answer.is_ok(), "{evaluation:?}");
    assert!(
        evaluation.took.as_millis() < 900,
        "a sleep of a second must not block the host: {evaluation:?}"
    );
}
