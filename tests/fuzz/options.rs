//! Options by name with texts, as the packages of other languages pass them on.

use backstop_host::Backstop;

use crate::{assert_readable, text};

/// Options set the same each time, or the mistake is explained in few words. A line of the input is an option: its name, `=`, and its texts with tabs between them.
pub(crate) fn options(input: &[u8]) {
    let text = text(input);
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let given: Vec<(&str, Vec<String>)> = lines
        .map(|(name, texts)| (name, texts.split('\t').map(str::to_owned).collect()))
        .collect();
    match (configured(&given), configured(&given)) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            assert_readable(&one);
        }
        (one, other) => panic!("{one:?}, then {other:?}"),
    }
}

/// The configuration that these options make.
fn configured(given: &[(&str, Vec<String>)]) -> Result<String, String> {
    let mut host = Backstop::queue("local:orders").handler(|_| async { Ok(()) });
    for (name, texts) in given {
        host = host.option(name, texts).map_err(|mistake| {
            let mistake = mistake.to_string();
            assert!(mistake.contains(name), "{mistake} does not name {name}");
            mistake
        })?;
    }
    let config = host.into_config().map_err(|mistake| mistake.to_string())?;
    assert_eq!(config.queues.len(), 1);
    Ok(format!("{:?}", config.queues[0].options) + &format!("{:?}", config.queues[0].decider))
}
