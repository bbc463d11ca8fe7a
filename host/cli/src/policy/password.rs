//! The password of a secret key: from the environment, or typed at the terminal without echo.

use std::fs::OpenOptions;
use std::io;

/// The variable that has the password where there is no terminal.
const VARIABLE: &str = "BACKSTOP_KEY_PASSWORD";

/// The password of an existing key.
pub(super) fn for_key(key: &str) -> io::Result<String> {
    match std::env::var(VARIABLE) {
        Ok(password) => Ok(password),
        Err(_) => prompt(&format!("password of {key}: ")),
    }
}

/// The password of a new key, typed twice. An empty one is rejected.
pub(super) fn for_new_key(key: &str) -> io::Result<String> {
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(password);
    }
    let password = prompt(&format!("new password for {key}: "))?;
    if prompt("repeat the password: ")? != password {
        return Err(io::Error::other("the passwords do not match"));
    }
    if password.is_empty() {
        return Err(io::Error::other(
            "the password is empty; `--no-password` creates a key without one",
        ));
    }
    Ok(password)
}

/// Prompts on the controlling terminal, wherever the standard streams lead.
fn prompt(question: &str) -> io::Result<String> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    terminal.map_err(|error| {
        let message = format!("there is no terminal to prompt on: set {VARIABLE}");
        io::Error::new(error.kind(), message)
    })?;
    rpassword::prompt_password(question)
}
