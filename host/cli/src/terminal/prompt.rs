//! Questions to the person at the terminal, and the password of a secret key: from the environment, or typed without echo.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _};

use super::eprint;

/// The variable that has the password where there is no terminal.
const VARIABLE: &str = "BACKSTOP_KEY_PASSWORD";

/// Asks a question on stderr. The answer is in lower case; `None` at the end of standard input.
pub(crate) fn answer(question: &str) -> Option<String> {
    line(question).map(|answer| answer.to_lowercase())
}

/// Asks a question on stderr. The answer is a line without the space around it; `None` at the end of standard input.
pub(crate) fn line(question: &str) -> Option<String> {
    eprint!("{question}");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok_and(|read| read > 0)
        .then(|| answer.trim().to_owned())
}

/// The password of an existing key.
pub(crate) fn password(key: &str) -> io::Result<String> {
    match std::env::var(VARIABLE) {
        Ok(password) => Ok(password),
        Err(_) => prompt(&format!("password of {key}: ")),
    }
}

/// The password of a new key, typed twice. An empty one is rejected.
pub(crate) fn new_password(key: &str) -> io::Result<String> {
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
