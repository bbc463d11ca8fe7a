//! The password of a secret key: from the environment, or asked for on the terminal without showing it.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};

use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

/// The variable that has the password where nobody can be asked.
const VARIABLE: &str = "BACKSTOP_KEY_PASSWORD";

/// The password of a key that exists.
pub(super) fn known(key: &str) -> io::Result<String> {
    match std::env::var(VARIABLE) {
        Ok(password) => Ok(password),
        Err(_) => ask(&format!("password of {key}: ")),
    }
}

/// A password for a new key, typed twice.
pub(super) fn new(key: &str) -> io::Result<String> {
    if let Ok(password) = std::env::var(VARIABLE) {
        return Ok(password);
    }
    let password = ask(&format!("new password for {key}: "))?;
    if ask("once more: ")? != password {
        return Err(io::Error::other("the two are not the same"));
    }
    if password.is_empty() {
        return Err(io::Error::other(
            "it is empty; `--no-password` makes a key that needs none",
        ));
    }
    Ok(password)
}

/// On the terminal itself, wherever the standard streams go.
fn ask(question: &str) -> io::Result<String> {
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut terminal = terminal.map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("there is no terminal to ask on; set {VARIABLE}"),
        )
    })?;
    let shown = tcgetattr(&terminal)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    terminal.write_all(question.as_bytes())?;
    tcsetattr(&terminal, OptionalActions::Flush, &hidden)?;
    let mut line = String::new();
    let read = BufReader::new(&terminal).read_line(&mut line);
    tcsetattr(&terminal, OptionalActions::Now, &shown)?;
    terminal.write_all(b"\n")?;
    read?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
