//! A body in the person's own editor.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use async_trait::async_trait;
use backstop_core::text::one_line;
use backstop_dead_letters::Letter;
use backstop_dead_letters::redrive::{Edited, Editor, RedriveError};
use backstop_files::regular_file;
use backstop_queue::{BATCH_BYTES, is_allowed};
use tempfile::TempPath;

use crate::error::{Exit, Result};
use crate::terminal::{eprintln, prompt, short};

/// The editor without `VISUAL` and `EDITOR`.
const DEFAULT: &str = "vi";

/// Opens each body in a program.
#[derive(Debug)]
pub(super) struct EditorProgram {
    words: Vec<String>,
    /// Where the file of a body is while it is edited.
    folder: PathBuf,
}

impl EditorProgram {
    /// The program that `VISUAL` or `EDITOR` names.
    pub(super) fn of_environment(folder: &Path) -> Result<Arc<Self>> {
        let variable = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
        let text = variable("VISUAL").or_else(|| variable("EDITOR"));
        let text = text.unwrap_or_else(|| DEFAULT.to_owned());
        let words = shlex::split(&text).filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| {
            Exit::Usage.because(format!("`{text}` in VISUAL or EDITOR is no command"))
        })?;
        Ok(Arc::new(Self {
            words,
            folder: folder.to_owned(),
        }))
    }

    /// Lets the person edit a text until it is valid or given up.
    fn edit(words: &[String], folder: &Path, text: &str) -> std::io::Result<Edited> {
        let is_json = is_json(text);
        let name = if is_json { "body.json" } else { "body.txt" };
        // Removed when it is no longer needed.
        let file = TempPath::try_from_path(folder.join(name))?;
        let mut written = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&file)?;
        written.write_all(text.as_bytes())?;
        loop {
            let status = open(words, &file)?;
            if !status.success() {
                return Ok(Edited::Skipped(format!(
                    "skipped: the editor ended with {status}"
                )));
            }
            let edited = regular_file::read(&file, 4 * BATCH_BYTES)?;
            let wrong = match String::from_utf8(edited) {
                Ok(edited) => {
                    let edited = without_added_line_end(text, &edited);
                    if edited == text {
                        return Ok(Edited::Unchanged);
                    }
                    if edited.trim().is_empty() {
                        return Ok(Edited::Skipped("skipped: its body was emptied".to_owned()));
                    }
                    match fault(edited, is_json) {
                        None => return Ok(Edited::Changed(edited.to_owned())),
                        Some(wrong) => wrong,
                    }
                }
                Err(error) => format!("it is not UTF-8: {error}"),
            };
            eprintln!("The edited body can't be sent: {}", one_line(&wrong));
            if let Some(edited) = choice(&wrong) {
                return Ok(edited);
            }
        }
    }
}

#[async_trait]
impl Editor for EditorProgram {
    async fn edit(&self, letter: &Letter, text: &str) -> Result<Edited, RedriveError> {
        let why = letter.reason.as_deref().unwrap_or("unknown");
        let error = letter.error.as_ref().map(ToString::to_string);
        eprintln!(
            "letter {}: {}{}",
            one_line(&letter.message.id),
            short(why, 160),
            error.map_or_else(String::new, |it| format!(" ({})", short(&it, 160)))
        );
        let (words, folder, text) = (self.words.clone(), self.folder.clone(), text.to_owned());
        let program = self.words.join(" ");
        let edited = tokio::task::spawn_blocking(move || Self::edit(&words, &folder, &text)).await;
        let edited = edited.map_err(|error| RedriveError::Editor(error.to_string()))?;
        edited.map_err(|error| {
            RedriveError::Editor(format!("can't edit with `{program}` (set EDITOR): {error}"))
        })
    }
}

fn open(words: &[String], file: &Path) -> std::io::Result<ExitStatus> {
    let mut words = words.iter();
    let program = words.next().map_or(DEFAULT, String::as_str);
    Command::new(program).args(words).arg(file).status()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Editors end the last line of a file.
fn without_added_line_end<'a>(before: &str, edited: &'a str) -> &'a str {
    match edited.strip_suffix('\n') {
        Some(stripped) if !before.ends_with('\n') => {
            stripped.strip_suffix('\r').unwrap_or(stripped)
        }
        Some(_) | None => edited,
    }
}

/// Why a body can't be sent.
fn fault(body: &str, was_json: bool) -> Option<String> {
    if let Some(c) = body.chars().find(|c| !is_allowed(*c)) {
        return Some(format!(
            "SQS does not allow the character U+{:04X}",
            u32::from(c)
        ));
    }
    if body.len() > BATCH_BYTES {
        return Some(format!(
            "it has {} bytes, and SQS accepts {BATCH_BYTES}",
            body.len()
        ));
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(body) {
        Err(error) if was_json => Some(format!("it was JSON, and is none now: {error}")),
        Ok(_) | Err(_) => None,
    }
}

/// What becomes of a body that can't be sent, unless it is edited again. Without a terminal, its letter is skipped.
fn choice(wrong: &str) -> Option<Edited> {
    let skipped = || Edited::Skipped(format!("skipped: {wrong}"));
    if !std::io::stdin().is_terminal() {
        return Some(skipped());
    }
    loop {
        let answer = prompt::answer("[e]dit again, [s]kip this letter, [q]uit? ");
        match answer.as_deref() {
            Some("e") => return None,
            Some("s") => return Some(skipped()),
            Some("q") | None => return Some(Edited::Stop),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(script: &str, text: &str) -> Edited {
        let folder = tempfile::tempdir().unwrap();
        let words = ["sh", "-c", script, "sh"].map(str::to_owned);
        let edited = EditorProgram::edit(&words, folder.path(), text).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        edited
    }

    #[test]
    fn a_body_is_sent_as_it_was_edited_if_it_is_valid() {
        let changed = |text: &str| Edited::Changed(text.to_owned());
        assert_eq!(edited("true", "{\"a\":1}"), Edited::Unchanged);
        // Editors end the last line.
        assert_eq!(edited("echo >> \"$1\"", "text"), Edited::Unchanged);
        assert_eq!(
            edited("sed -i s/1/2/ \"$1\"", "{\"a\":1}"),
            changed("{\"a\":2}")
        );
        assert_eq!(edited("printf 'a\\n' > \"$1\"", "b\n"), changed("a\n"));
        assert_eq!(edited("echo no JSON > \"$1\"", "none"), changed("no JSON"));
    }

    #[test]
    fn a_letter_is_skipped_if_its_body_is_emptied_or_the_editor_fails() {
        for (script, text, expected) in [
            ("exit 1", "text", "exit status: 1"),
            (": > \"$1\"", "text", "emptied"),
        ] {
            match edited(script, text) {
                Edited::Skipped(why) => assert!(why.contains(expected), "{why}"),
                other @ (Edited::Unchanged | Edited::Changed(_) | Edited::Stop) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    #[test]
    fn what_sqs_or_the_receiver_would_reject_is_a_fault() {
        assert!(fault("{\"a\":", true).unwrap().contains("was JSON"));
        assert!(fault("\u{7}", false).unwrap().contains("U+0007"));
        assert!(fault(&"x".repeat(BATCH_BYTES + 1), false).is_some());
        assert_eq!(fault("plain", false), None);
    }
}
