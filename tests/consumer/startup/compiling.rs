//! The limits of what a start compiles.

use backstop_tests::backstop::Running;
use backstop_tests::compiler::heavy;

use super::start_error;

/// An allocator that takes much memory from the system before the compiler confines itself would escape the limit, or leave too little.
#[tokio::test]
async fn the_limit_of_the_compilers_memory_holds_for_the_command() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("heavy.wat"), heavy(1)).unwrap();
    let configuration = |memory: &str| {
        let path = folder.path().join(format!("{memory}.toml"));
        let text = format!(
            r#"
            limits = {{ compile = {{ memory = "{memory}" }} }}
            policies = {{ cache = "off" }}
            queues.orders = {{ url = "local:orders", handler = {{ exec = "true" }}, policy = "heavy.wat" }}
            "#
        );
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for limit in [8, 32, 64, 80, 96] {
        let configuration = configuration(&format!("{limit}MiB"));
        let (code, error) = start_error(&["--config", &configuration]).await;
        assert_eq!(code, 4, "{error}");
        let shown =
            format!("more than the {limit} MiB of memory that `limits.compile.memory` allows");
        assert!(error.contains(&shown), "{error}");
    }
    Running::start(&["--config", &configuration("512MiB")])
        .await
        .kill()
        .await;
}
