//! Numbers of clients, as `--clients` takes them.

use std::str::FromStr;

/// Numbers of clients, in ascending order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClientCounts(pub(super) Vec<u32>);

/// The most clients that a simulation may have.
const MAX_CLIENTS: u32 = 10_000;

impl FromStr for ClientCounts {
    type Err = String;

    /// Reads numbers and ranges (`10..=190/10`), separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            format!("expected numbers from 1 to {MAX_CLIENTS}, such as 50, 10,100 or 10..=190/10")
        };
        let number = |text: &str| {
            let number = text.trim().parse().ok();
            number.filter(|number| (1..=MAX_CLIENTS).contains(number))
        };
        let mut counts = Vec::new();
        for part in text.split(',') {
            let range = part.split_once("..=").map(|(from, rest)| {
                let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
                Some((number(from)?, number(to)?, number(step)?))
            });
            match range {
                Some(Some((from, to, step))) if from <= to => {
                    counts.extend((from..=to).step_by(step as usize));
                }
                Some(_) => return Err(malformed()),
                None => counts.push(number(part).ok_or_else(malformed)?),
            }
        }
        counts.sort_unstable();
        counts.dedup();
        Ok(Self(counts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clients_are_numbers_and_ranges() {
        let of = |text: &str| text.parse::<ClientCounts>().map(|counts| counts.0);
        assert_eq!(of("50"), Ok(vec![50]));
        assert_eq!(of("100, 10,100"), Ok(vec![10, 100]));
        assert_eq!(of("10..=40/10,1..=3"), Ok(vec![1, 2, 3, 10, 20, 30, 40]));
        assert_eq!(of("10..=190/10").unwrap().len(), 19);
        for invalid in ["", "0", "ten", "9..=1", "1..=9/0", "1..9", "10001", "1..="] {
            assert!(of(invalid).is_err(), "{invalid}");
        }
    }
}
