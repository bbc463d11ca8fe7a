//! Signed policies: accepted keys, valid signatures, and refusals.

use std::io::Cursor;
use std::process::Stdio;

use backstop_tests::backstop::{program, text};
use backstop_tests::bench::{Bench, component, module};
use backstop_tests::registry::Registry;
use backstop_versions::{Registry as Client, RegistryOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdout, Command};

use crate::artifact::{package, reference};

#[tokio::test]
async fn only_policies_with_an_accepted_signature_are_pulled_if_that_is_required() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let url = registry.url("orders:1");
    let pull = |key| {
        [
            "pull",
            &url,
            "-o",
            "pulled.wasm",
            "--require-signature",
            key,
        ]
    };
    bench.json(&["push", "orders.wasm", &url]).await;
    bench.fails(&pull("team.pub"), 4, "it is not signed").await;
    bench
        .json(&["push", "orders.wasm", &url, "--sign", "other.key"])
        .await;
    bench
        .fails(&pull("team.pub"), 4, "which is not accepted")
        .await;
    assert!(!bench.path("pulled.wasm").exists());
    let pushed = bench
        .json(&["push", "orders.wasm", &url, "--sign", "team.key"])
        .await;
    let pulled = bench.json(&pull("team.pub")).await;
    assert_eq!(pulled["verified"], true);
    assert_eq!(pulled["signed-by"], pushed["signed-by"]);
    let verify = [
        "verify",
        "pulled.wasm",
        "--key",
        "other.pub",
        "--key",
        "team.pub",
    ];
    assert!(bench.run(&verify).await.status.success());
    // Signatures of another file, and cut short.
    bench.write("by-hand.wasm", &module(5));
    bench
        .run(&["sign", "by-hand.wasm", "--key", "team.key"])
        .await;
    let another = [
        "push",
        "orders.wasm",
        &url,
        "--signature",
        "by-hand.wasm.minisig",
    ];
    bench.json(&another).await;
    bench.fails(&pull("team.pub"), 4, "does not match").await;
    let whole = text(&bench.read("by-hand.wasm.minisig"));
    let client = Client::new(RegistryOptions::default());
    for length in [0, 50, 100, whole.len() - 5] {
        let cut = &whole[..length];
        let at = reference(&url);
        client
            .push(&at, &package(component()), Some(cut))
            .await
            .unwrap();
        bench
            .fails(&pull("team.pub"), 4, "is not one of minisign's")
            .await;
    }
    // Without the requirement it is pulled, and reported as unsigned.
    let pulled = bench.run(&["pull", &url, "-o", "pulled.wasm"]).await;
    assert!(text(&pulled.stdout).contains("signed     no: "));
}

#[tokio::test]
async fn signatures_are_compatible_with_minisign_in_both_directions() {
    let bench = Bench::new().await;
    // Signed by Backstop, verified by minisign's library.
    bench
        .run(&["sign", "orders.wasm", "--key", "team.key"])
        .await;
    let key = minisign::PublicKey::from_file(bench.path("team.pub")).unwrap();
    let signature = minisign::SignatureBox::from_file(bench.path("orders.wasm.minisig")).unwrap();
    minisign::verify(
        &key,
        &signature,
        Cursor::new(component()),
        true,
        false,
        false,
    )
    .unwrap();
    assert!(
        signature
            .trusted_comment()
            .unwrap()
            .contains("file:orders.wasm")
    );
    // Signed by minisign with an encrypted key, verified by Backstop.
    let password = Some("correct horse".to_owned());
    let pair = minisign::KeyPair::generate_encrypted_keypair(password.clone()).unwrap();
    bench.write("theirs.key", &pair.sk.to_box(None).unwrap().to_bytes());
    bench.write("theirs.pub", &pair.pk.to_box().unwrap().to_bytes());
    let secret = minisign::SecretKey::from_file(bench.path("theirs.key"), password).unwrap();
    let signature = minisign::sign(None, &secret, Cursor::new(component()), None, None).unwrap();
    bench.write("orders.wasm.minisig", &signature.to_bytes());
    let verify = ["verify", "orders.wasm", "--key", "theirs.pub"];
    assert!(bench.run(&verify).await.status.success());
    // A key of minisign, used by Backstop.
    let sign = ["sign", "orders.wasm", "--key", "theirs.key"];
    bench.fails(&sign, 3, "can't read the password").await;
    for (password, code) in [("battery", 3), ("correct horse", 0)] {
        let mut signing = bench.command(&sign);
        let output = signing
            .env("BACKSTOP_KEY_PASSWORD", password)
            .output()
            .await;
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    }
    assert!(bench.run(&verify).await.status.success());
}

#[tokio::test]
async fn keys_are_never_replaced_and_readable_only_by_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new().await;
    let made = std::fs::metadata(bench.path("team.key")).unwrap();
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
    bench
        .fails(&["keygen", "team", "--no-password"], 2, "never replaced")
        .await;
    bench
        .fails(&["keygen", "new"], 3, "set BACKSTOP_KEY_PASSWORD")
        .await;
    bench
        .fails(
            &["verify", "orders.wasm", "--key", "new.pub"],
            3,
            "can't read the public key new.pub: there is no such file; correct the path, or create a pair of keys with `backstop policy keygen NAME`",
        )
        .await;
    bench
        .fails(
            &["sign", "orders.wasm", "--key", "team.pub"],
            3,
            "is not a secret key",
        )
        .await;
    bench
        .fails(&["sign", "linear", "--key", "team.key"], 2, "is built in")
        .await;
}

/// Reads from a terminal until it shows `part`; all of it so far.
async fn shown(terminal: &mut ChildStdout, so_far: &mut String, part: &str) {
    let mut bytes = [0; 256];
    while !so_far.contains(part) {
        let read = terminal.read(&mut bytes).await.unwrap();
        assert!(read > 0, "{part:?} does not come: {so_far}");
        so_far.push_str(&text(&bytes[..read]));
    }
}

/// Waits until a terminal echoes nothing.
async fn echo_is_off(path: &str) {
    loop {
        let stty = Command::new("stty").args(["-a", "-F", path]).output().await;
        let settings = text(&stty.unwrap().stdout);
        if settings.split_whitespace().any(|word| word == "-echo") {
            return;
        }
    }
}

#[tokio::test]
async fn a_password_is_typed_at_the_terminal_without_echo_with_redirected_streams() {
    let bench = Bench::new().await;
    let line = format!(
        "tty; exec {} policy keygen typed < /dev/null > output.txt",
        program("backstop").display()
    );
    let mut session = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .current_dir(bench.path(""))
        .env("SHELL", "/bin/sh")
        .env_remove("BACKSTOP_KEY_PASSWORD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut keyboard, mut terminal) = (
        session.stdin.take().unwrap(),
        session.stdout.take().unwrap(),
    );
    let mut screen = String::new();
    for prompt in ["new password for typed.key: ", "repeat the password: "] {
        shown(&mut terminal, &mut screen, prompt).await;
        echo_is_off(screen.lines().next().unwrap().trim()).await;
        keyboard.write_all(b"correct horse\n").await.unwrap();
    }
    assert!(session.wait().await.unwrap().success(), "{screen}");
    terminal.read_to_string(&mut screen).await.unwrap();
    assert!(!screen.contains("correct"), "{screen}");
    let output = text(&bench.read("output.txt"));
    assert!(output.contains("typed.pub"), "{output}");

    let sign = ["sign", "orders.wasm", "--key", "typed.key"];
    let mut signing = bench.command(&sign);
    let signed = signing.env("BACKSTOP_KEY_PASSWORD", "correct horse");
    assert!(signed.output().await.unwrap().status.success());
}

#[tokio::test]
async fn a_signature_is_for_one_policy() {
    let (registry, bench) = (Registry::start(), Bench::new().await);
    let verify = |name| {
        [
            "verify",
            "orders.wasm",
            "--key",
            "team.pub",
            "--signed-for",
            name,
        ]
    };
    let sign = ["sign", "orders.wasm", "--key", "team.key"];
    let signed = bench.run(&sign).await;
    assert!(text(&signed.stdout).contains(" for the policy orders\n"));
    let verified = bench.run(&verify("orders")).await;
    assert!(text(&verified.stdout).contains(" for the policy orders at 2"));
    let other = "is for the policy `orders`, and `signed-for` requires the policy `invoices`";
    bench.fails(&verify("invoices"), 4, other).await;
    bench
        .run(&[&sign[..], &["--for", "invoices"]].concat())
        .await;
    assert!(bench.run(&verify("invoices")).await.status.success());
    let name = "is not the name of a policy";
    bench
        .fails(&[&sign[..], &["--for", "a b"]].concat(), 2, name)
        .await;

    let url = registry.url("orders:1");
    bench
        .json(&["push", "orders.wasm", &url, "--sign", "team.key"])
        .await;
    let pull = [
        "pull",
        &url,
        "--require-signature",
        "team.pub",
        "--signed-for",
    ];
    bench.json(&[&pull[..], &["orders"]].concat()).await;
    bench
        .fails(&[&pull[..], &["invoices"]].concat(), 4, other)
        .await;
    let push = [
        "push",
        "orders.wasm",
        &url,
        "--sign",
        "team.key",
        "--for",
        "invoices",
    ];
    bench.json(&push).await;
    bench.json(&[&pull[..], &["invoices"]].concat()).await;
}
