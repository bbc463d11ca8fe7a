//! `backstop man`: the help of each command as a manual page, for packages.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory, Parser};
use clap_mangen::Man;

use crate::Cli;
use crate::error::{Context, Result};

/// Write a manual page for each command into a folder
#[derive(Debug, Parser)]
pub(super) struct Args {
    folder: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let folder = &args.folder;
    let mut command = Cli::command().disable_help_subcommand(true);
    // Each command then knows its full name.
    command.build();
    std::fs::create_dir_all(folder)
        .and_then(|()| write(&command, folder))
        .with_context(|| format!("can't write manual pages into {}", folder.display()))
}

/// Writes the pages of a command and of those below it.
fn write(command: &Command, folder: &Path) -> io::Result<()> {
    for below in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        write(below, folder)?;
    }
    let source = concat!("backstop ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Backstop");
    std::fs::write(folder.join(man.get_filename()), page(&man, command)?)
}

/// The sections, the last of which is ours: clap_mangen would fill the lines of examples.
fn page(man: &Man, command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.get_subcommands().any(|it| !it.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if command
        .get_after_long_help()
        .or(command.get_after_help())
        .is_some()
    {
        let mut rest = Vec::new();
        man.render_extra_section(&mut rest)?;
        page.extend(sections(&String::from_utf8_lossy(&rest)).bytes());
    }
    Ok(page)
}

/// The text after the options as sections: a line such as `Examples:` is a heading, and lines that are indented stay as they are.
fn sections(rendered: &str) -> String {
    let (_, text) = rendered.split_once(".SH EXTRA\n").unwrap_or_default();
    let mut sections = String::new();
    let mut is_filled = true;
    if !text
        .split('\n')
        .next()
        .is_some_and(|line| line.ends_with(':'))
    {
        sections.push_str(".SH NOTES\n");
    }
    for line in text.lines() {
        let is_indented = line.starts_with("  ") || (line.is_empty() && !is_filled);
        if is_indented == is_filled {
            sections.push_str(if is_indented { ".nf\n" } else { ".fi\n" });
            is_filled = !is_indented;
        }
        match line.strip_suffix(':') {
            Some(heading) if !is_indented => {
                sections.push_str(&format!(".SH {}\n", heading.to_uppercase()))
            }
            Some(_) | None if line.is_empty() && is_filled => sections.push_str(".PP\n"),
            Some(_) | None => {
                sections.push_str(&format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
            }
        }
    }
    if !is_filled {
        sections.push_str(".fi\n");
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn examples_keep_their_lines_and_prose_is_filled() {
        let rendered = ".SH EXTRA\nExamples:\n  Try it:\n    backstop demo\n\n  Or not:\n    true\n\nOne.\n\nTwo.\n";
        let expected = ".SH EXAMPLES\n.nf\nTry it:\n  backstop demo\n\nOr not:\n  true\n\n.fi\nOne.\n.PP\nTwo.\n";
        assert_eq!(sections(rendered), expected);
        assert_eq!(
            sections(".SH EXTRA\nTry `demo`.\n"),
            ".SH NOTES\nTry `demo`.\n"
        );
    }
}
