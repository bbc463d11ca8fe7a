//! The commands of `host/docs/operate/admin.md`.

use std::os::unix::fs::PermissionsExt;

use backstop_tests::documents::{blocks, document};
use backstop_tests::eventually;
use backstop_tests::policies::waits;
use backstop_tests::shell::Shell;

use super::world::World;

/// A cluster with the secret of the document, whose port is forwarded already.
const KUBECTL: &str = "#!/bin/sh
case $1 in
get) base64 < token ;;
port-forward) ;;
*) exit 1 ;;
esac
";

#[tokio::test]
async fn the_commands_about_the_admin_interface_run() {
    let blocks = blocks(&document("host/docs/operate/admin.md"), "sh");
    let [requests, token, commands] = blocks.as_slice() else {
        panic!("{blocks:?}");
    };
    let folder = tempfile::tempdir().unwrap();
    let shell = Shell::new(folder.path()).with_account();
    shell.run(token).await;
    let path = folder.path().join("token");
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o077, 0);
    let kubectl = folder.path().join("bin/kubectl");
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    std::fs::write(&kubectl, KUBECTL).unwrap();
    std::fs::set_permissions(&kubectl, PermissionsExt::from_mode(0o755)).unwrap();
    let shell = shell.path(folder.path().join("bin")).with("USER", "ana");

    let token_file = ["--admin-token-file", path.to_str().unwrap()];
    let world = World::start_in(folder, &token_file).await;
    world.swap().await;
    let running = std::fs::read_dir(world.at("kept/running")).unwrap();
    let socket = running.last().unwrap().unwrap().path();
    let requests = requests
        .replace("http://10.0.0.7:9465", &world.url)
        .replace(
            "~/.cache/backstop/running/4711-5f0c3a1e",
            socket.to_str().unwrap(),
        );
    let answers = shell.run(&requests).await.stdout;
    assert_eq!(answers.matches("\"version\":1").count(), 3, "{answers}");
    assert_eq!(world.rollbacks().await, 1);

    std::fs::write(world.at("policy.wat"), waits(3)).unwrap();
    eventually("another version is active", || async {
        let log = world.running.log();
        log.matches("a new version of the policy is active").count() == 2
    })
    .await;
    let commands = commands.replace("http://127.0.0.1:9465", &world.url);
    let shown = shell.run(&commands).await.stdout;
    assert!(shown.contains("active      "), "{shown}");
    assert_eq!(world.rollbacks().await, 2);
    world.running.logged("(claims to be `ana`)").await;
    world.running.stop().await;
}
