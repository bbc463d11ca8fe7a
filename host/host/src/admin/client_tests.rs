use std::os::unix::net::UnixListener;

use super::*;

#[tokio::test]
async fn a_host_that_ends_after_it_was_found_has_ended() {
    for removes_its_socket in [true, false] {
        let cache = tempfile::tempdir().unwrap();
        let folder = Store::running_in(cache.path());
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("4711-0");
        let socket = UnixListener::bind(&path).unwrap();
        let host = Host::on_this_machine(cache.path()).unwrap().remove(0);
        drop(socket);
        if removes_its_socket {
            std::fs::remove_file(&path).unwrap();
        }
        let answer = host.unwrap().get::<Value>(&["v1", "status"], &[]).await;
        let error = answer.unwrap_err();
        assert!(matches!(&error, ClientError::Ended { .. }), "{error:?}");
        assert_eq!(error.to_string(), "process 4711 has ended");
    }
}
