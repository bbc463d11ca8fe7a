//! The credentials for a registry, from Docker's configuration. It may name a program that has them, a credential helper, whose output and time are limited.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use docker_credential::{CredentialRetrievalError, DockerCredential};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use backstop_files::regular_file;

/// The time limit for a credential helper.
const HELPER_TIMEOUT: Duration = Duration::from_secs(10);

/// The most output of a credential helper, in bytes.
const HELPER_BYTES: usize = 64 << 10;

const IDENTITY_TOKEN: &str = "an identity token is not supported: log in with a user's name and a password, or a token in place of the password";

/// A user's name and password, as a helper answers.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Login {
    pub(super) username: String,
    pub(super) secret: String,
}

/// The credentials for a registry. Without credentials, or if they can't be read, requests are anonymous.
pub(super) async fn credentials(registry: &str) -> Option<Login> {
    let path = configuration()?;
    match of(&path, server(registry)).await {
        Ok(found) => found,
        Err(reason) => {
            tracing::warn!(
                registry,
                config = %path.display(),
                "no credentials, so requests are anonymous: {reason}"
            );
            None
        }
    }
}

/// Looks up credentials in Docker's order: the helper of the registry, the file, the helper for all registries.
async fn of(config: &Path, server: &str) -> Result<Option<Login>, String> {
    let text = match regular_file::read(config, regular_file::WRITTEN) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let mut config: Value =
        serde_json::from_slice(&text).map_err(|error| format!("it is not JSON: {error}"))?;
    let mut take = |key: &str| config.as_object_mut().and_then(|config| config.remove(key));
    let helper = |named: Option<&Value>| {
        let named = named.and_then(Value::as_str).unwrap_or_default();
        (!named.is_empty()).then(|| named.to_owned())
    };
    let (own, any) = (take("credHelpers"), take("credsStore"));
    if let Some(own) = helper(own.as_ref().and_then(|own| own.get(server))) {
        return run_helper(&own, server).await;
    }
    // Without the helpers, reading it runs no program.
    let kept = config.to_string();
    match docker_credential::get_credential_from_reader(kept.as_bytes(), server) {
        Ok(DockerCredential::UsernamePassword(username, secret)) => {
            Ok(Some(Login { username, secret }))
        }
        Ok(DockerCredential::IdentityToken(_)) => Err(IDENTITY_TOKEN.to_owned()),
        Err(CredentialRetrievalError::NoCredentialConfigured) => match helper(any.as_ref()) {
            Some(any) => run_helper(&any, server).await,
            None => Ok(None),
        },
        Err(error) => Err(error.to_string()),
    }
}

/// Runs the helper with this name. `None` if it has no credentials for this registry.
async fn run_helper(helper: &str, server: &str) -> Result<Option<Login>, String> {
    let program = format!("docker-credential-{helper}");
    let answer = match timeout(HELPER_TIMEOUT, run(&program, server)).await {
        Ok(answer) => answer.map_err(|error| format!("`{program} get`: {error}"))?,
        Err(_) => {
            let most = HELPER_TIMEOUT.as_secs();
            return Err(format!("`{program} get` took more than {most}s"));
        }
    };
    if !answer.status.success() {
        let message = [&answer.stdout, &answer.stderr].map(|it| String::from_utf8_lossy(it));
        let message = message.each_ref().map(|it| it.trim()).concat();
        // The message of all helpers for this case.
        if message.contains("credentials not found") {
            return Ok(None);
        }
        let start: String = message.chars().take(300).collect();
        return Err(format!("`{program} get` failed: {start}"));
    }
    let login: Login = serde_json::from_slice(&answer.stdout)
        .map_err(|_| format!("`{program} get` did not answer with a Username and a Secret"))?;
    match login.username.as_str() {
        "<token>" => Err(IDENTITY_TOKEN.to_owned()),
        _ => Ok(Some(login)),
    }
}

/// Runs a helper to its end. When this is dropped, it is killed with all that it has started.
async fn run(program: &str, server: &str) -> io::Result<Output> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let _group = Group::of(&child);
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async {
        if let Some(mut stdin) = stdin {
            // A helper may answer without reading its whole input.
            let _ = stdin.write_all(server.as_bytes()).await;
        }
        Ok(())
    };
    let ((), stdout, stderr) = tokio::try_join!(write, read(stdout), read(stderr))?;
    let status = child.wait().await?;
    Ok(Output {
        status,
        stdout,
        stderr,
    })
}

/// The complete output of a helper, or an error if it is too long.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    let mut output = Vec::new();
    if let Some(stream) = stream {
        let limit = HELPER_BYTES as u64 + 1;
        stream.take(limit).read_to_end(&mut output).await?;
    }
    if output.len() > HELPER_BYTES {
        let reason = format!("it wrote more than {HELPER_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(output)
}

/// A helper's process group, killed when dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// `config.json` of Docker.
fn configuration() -> Option<PathBuf> {
    let folder = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let folder = folder.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".docker")))?;
    Some(folder.join("config.json"))
}

/// The key of a registry's credentials in Docker's configuration.
fn server(registry: &str) -> &str {
    match registry {
        "index.docker.io" => "https://index.docker.io/v1/",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;
    use backstop_core::clock;

    /// The result of a helper that is this script.
    async fn output_of(script: &str) -> Result<Output, io::Error> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("docker-credential-ours");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        loop {
            match run(program.to_str().unwrap(), "registry.example.com").await {
                // A process that another test was starting had it open for a moment.
                Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {}
                answer => return answer,
            }
        }
    }

    #[tokio::test]
    async fn a_helper_with_too_much_output_is_killed() {
        let started = clock::instant();
        for script in ["exec yes", "exec yes >&2", "yes & yes >&2 & wait"] {
            let error = output_of(script).await.unwrap_err();
            assert!(
                error.to_string().contains("more than 65536 bytes"),
                "{error}"
            );
        }
        assert!(started.elapsed() < HELPER_TIMEOUT);
        // A helper may answer without reading its input.
        let answer = output_of("exec 0<&-; echo fine").await.unwrap();
        assert_eq!(answer.stdout, b"fine\n");
    }

    #[tokio::test]
    async fn credentials_in_the_file_take_precedence_over_the_helper_for_all_registries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.json");
        let login = json!({"username": "u", "password": "p"});
        let found = async |config: Value| {
            std::fs::write(&path, config.to_string()).unwrap();
            of(&path, "a.example.com").await
        };
        let helper = "backstop-test-missing";
        let own =
            json!({"auths": {"a.example.com": login}, "credHelpers": {"a.example.com": helper}});
        let error = found(own).await.err().unwrap();
        assert!(
            error.contains(&format!("`docker-credential-{helper} get`")),
            "{error}"
        );
        for (config, expected) in [
            (
                json!({"auths": {"a.example.com": login}, "credsStore": helper}),
                true,
            ),
            (json!({"credHelpers": {"b.example.com": helper}}), false),
            (
                json!({"credHelpers": {"a.example.com": ""}, "credsStore": ""}),
                false,
            ),
            (json!({}), false),
        ] {
            let found = found(config.clone()).await.unwrap();
            assert_eq!(found.is_some(), expected, "{config}");
        }
        assert!(found(json!({"credsStore": helper})).await.is_err());
        assert!(found(json!([])).await.is_err());
    }
}
