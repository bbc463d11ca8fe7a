//! `install.sh`: installs what the key of the release has signed, and nothing else.

use std::io::Cursor;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backstop_tests::backstop::text;
use backstop_tests::documents::{blocks, document};
use minisign::KeyPair;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::root::which;
use super::served::{Files, serve};
use super::world::{make_with, one, scenarios, shared_packages, works};

/// What the script runs, besides what downloads and what verifies.
const TOOLS: [&str; 22] = [
    "sh",
    "id",
    "uname",
    "mkdir",
    "pwd",
    "mktemp",
    "rm",
    "grep",
    "sha256sum",
    "tar",
    "gzip",
    "cp",
    "mv",
    "sed",
    "tail",
    "head",
    "od",
    "cat",
    "chmod",
    "env",
    "ls",
    "tr",
];

/// A release with the key that has signed it, and a folder for what is written for it.
struct Published {
    folder: TempDir,
    archive: String,
    pair: KeyPair,
}

impl Published {
    fn new() -> Self {
        let archive = one(&shared_packages("archives"), ".tar.gz");
        let archive = archive.file_name().unwrap().to_str().unwrap().to_owned();
        Self {
            folder: tempfile::tempdir().unwrap(),
            archive,
            pair: KeyPair::generate_unencrypted_keypair().unwrap(),
        }
    }

    /// The files of the release by their paths.
    fn files(&self) -> Files {
        let archive = std::fs::read(shared_packages("archives").join(&self.archive)).unwrap();
        let digest: String = Sha256::digest(&archive)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let sums = format!("{digest}  {}\n", self.archive).into_bytes();
        let signature = minisign::sign(
            None,
            &self.pair.sk,
            Cursor::new(&sums),
            Some("backstop"),
            None,
        )
        .unwrap();
        Files::from([
            (format!("/{}", self.archive), archive),
            ("/SHA256SUMS".to_owned(), sums),
            (
                "/SHA256SUMS.minisig".to_owned(),
                signature.into_string().into_bytes(),
            ),
        ])
    }

    /// Serves files, and writes the script that installs from there.
    async fn serve(&self, files: Files) -> PathBuf {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        serve(listener, files);
        let key = self.pair.pk.to_base64();
        let output = self.folder.path().join("scripts");
        std::fs::create_dir_all(&output).unwrap();
        make_with("installer", &output, &["--url", &url, "--public-key", &key]);
        output.join("install.sh")
    }
}

/// Runs the script with these programs and no others.
async fn install(script: &Path, programs: &[&str]) -> (Output, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path");
    std::fs::create_dir(&path).unwrap();
    for program in TOOLS.iter().chain(programs) {
        symlink(which(program), path.join(program)).unwrap();
    }
    let mut run = Command::new(which("sh"));
    run.arg(script)
        .args(["--prefix", "installed"])
        .current_dir(&folder);
    run.env_clear().env("PATH", path).env("HOME", folder.path());
    // It waits for the server, which this thread may serve.
    let output = tokio::task::spawn_blocking(move || run.output().unwrap())
        .await
        .unwrap();
    (output, folder)
}

/// Runs the script, which has to refuse with this reason and install nothing.
async fn is_refused(script: &Path, programs: &[&str], reason: &str) {
    let (output, folder) = install(script, programs).await;
    let explained = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{explained}");
    assert!(explained.contains(reason), "{explained}");
    assert!(!folder.path().join("installed/bin").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_installer_installs_what_is_signed_and_nothing_else() {
    let release = Published::new();
    let script = release.serve(release.files()).await;
    for programs in [["curl", "openssl"], ["wget", "minisign"]] {
        let (output, folder) = install(&script, &programs).await;
        assert!(output.status.success(), "{}", text(&output.stderr));
        let installed = folder.path().join("installed");
        let backstop = installed.join("bin/backstop");
        let command = |arguments: &[&str]| {
            let mut command = Command::new(&backstop);
            command.args(arguments).env("HOME", folder.path());
            command
        };
        works(&command, scenarios().to_str().unwrap());
        assert!(installed.join("share/man/man1/backstop-run.1").is_file());
    }
    is_refused(&script, &["curl"], "needs minisign or OpenSSL 3").await;
    is_refused(&script, &["openssl"], "needs curl or wget").await;

    let verifiers = [["curl", "openssl"], ["curl", "minisign"]];
    let changed = |path: &str| {
        let mut files = release.files();
        let content = files.get_mut(path).unwrap();
        let last = content.len() - 2;
        content[last] ^= 1;
        files
    };
    let archive = release
        .serve(changed(&format!("/{}", release.archive)))
        .await;
    is_refused(&archive, &verifiers[0], "the checksum of").await;
    for verifier in verifiers {
        let sums = release.serve(changed("/SHA256SUMS")).await;
        is_refused(&sums, &verifier, "the signature of SHA256SUMS is wrong").await;
        // Somebody else's release, whole.
        let other = Published {
            folder: tempfile::tempdir().unwrap(),
            archive: String::new(),
            pair: KeyPair::generate_unencrypted_keypair().unwrap(),
        };
        let script = other.serve(release.files()).await;
        let output = install(&script, &verifier).await.0;
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    }
    let mut files = release.files();
    files.remove("/SHA256SUMS.minisig");
    is_refused(&release.serve(files).await, &verifiers[0], "can't download").await;
}

#[test]
fn a_download_is_verified_by_the_documented_commands() {
    let page = document("host/docs/deploy/install.md");
    let (_, section) = page.split_once("\n### Verify a download\n").unwrap();
    let commands = blocks(section, "sh").remove(0);
    let published = Published::new();
    let folder = published.folder.path();
    for (path, bytes) in published.files() {
        std::fs::write(folder.join(path.trim_start_matches('/')), bytes).unwrap();
    }
    let key = published.pair.pk.to_box().unwrap().into_string();
    std::fs::write(folder.join("backstop.pub"), key).unwrap();
    let verify = || {
        let mut verify = Command::new("sh");
        verify.args(["-ec", &commands]).current_dir(folder);
        verify.output().unwrap()
    };
    let verified = verify();
    assert!(verified.status.success(), "{}", text(&verified.stderr));
    for changed in [&published.archive, "SHA256SUMS"] {
        let file = folder.join(changed);
        let before = std::fs::read(&file).unwrap();
        std::fs::write(&file, [&before[..], b"x"].concat()).unwrap();
        assert!(!verify().status.success(), "{changed}");
        std::fs::write(&file, before).unwrap();
    }
}
