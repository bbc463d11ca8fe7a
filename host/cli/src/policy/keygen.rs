//! `backstop policy keygen`: the keys that policies are signed and verified with.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::output::println;
use anyhow::Context;
use clap::Parser;

use super::password;
use crate::exit::UsageError;
use backstop::policy::{NewKeys, SigningError};

const EXAMPLES: &str = "\
Examples:
  backstop policy keygen team
  backstop policy keygen ci --no-password

The files are minisign's: `minisign -G` makes the same.";

/// Make a key pair to sign policies with: NAME.key and NAME.pub
///
/// NAME.key is secret, and encrypted with a password: BACKSTOP_KEY_PASSWORD, or asked for. NAME.pub goes to the hosts. Neither is written where there is one already.
#[derive(Debug, Parser)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// What the files are called, without their endings; may have a folder before it
    name: PathBuf,

    /// Leave the secret key unencrypted, for a machine that keeps it otherwise
    #[arg(long)]
    no_password: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (secret, public) = (named(&args.name, "key"), named(&args.name, "pub"));
    for path in [&secret, &public] {
        if path.exists() {
            let path = path.display();
            return Err(UsageError(format!(
                "{path} is there already, and keys are never replaced"
            ))
            .into());
        }
    }
    let password = if args.no_password {
        None
    } else {
        let shown = secret.display().to_string();
        let asked = password::new(&shown).map_err(|cause| SigningError::Password {
            path: secret.clone(),
            cause,
        })?;
        Some(asked)
    };
    let made = NewKeys::generate(password)?;
    write(&secret, 0o600, &made.secret).with_context(|| refused(&secret))?;
    write(&public, 0o644, &made.public).with_context(|| refused(&public))?;
    println!("made {}: secret, signs policies", secret.display());
    println!(
        "made {}: public, the key {} for the hosts",
        public.display(),
        made.id
    );
    println!();
    println!("require-signature = [\"{}\"]", made.line);
    Ok(())
}

fn named(name: &Path, ending: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(".");
    path.push(ending);
    PathBuf::from(path)
}

fn refused(path: &Path) -> String {
    format!("can't write {}", path.display())
}

/// A new file; never in place of another.
fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
