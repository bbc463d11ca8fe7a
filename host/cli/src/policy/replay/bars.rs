//! Two distributions of delays side by side, as bars in the terminal.

use backstop_workbench::replay::{Delays, STEPS};
use backstop_workbench::simulate::Rounded;

/// The width of the longest bar, in characters.
const BAR: usize = 28;

/// One line for each range of delays, from the first range that has any to the last: the range, and the count and bar of both sides. Empty if there are no delays.
pub(super) fn lines(old: &Delays, new: &Delays) -> Vec<String> {
    let pairs = || old.steps.into_iter().zip(new.steps);
    let has_any = |(old, new): (usize, usize)| old + new > 0;
    let first = pairs().position(has_any).unwrap_or(STEPS.len());
    let last = STEPS.len() - pairs().rev().position(has_any).unwrap_or(STEPS.len());
    let most = pairs().map(|(old, new)| old.max(new)).max().unwrap_or(0);
    let digits = most.to_string().len();
    let shown = STEPS.into_iter().zip(pairs()).enumerate();
    shown
        .filter(|(step, _)| (first..last).contains(step))
        .map(|(step, (from, (old, new)))| {
            let range = match STEPS.get(step + 1) {
                Some(to) if from == 0 => format!("to {}", Rounded(u64::from(*to))),
                Some(to) => format!("{} to {}", Rounded(from.into()), Rounded(u64::from(*to))),
                None => format!("from {}", Rounded(from.into())),
            };
            let (left, right) = (bar(old, most), bar(new, most));
            let line = format!("{range:<14} {old:>digits$} {left:<BAR$}  {new:>digits$} {right}");
            line.trim_end().to_owned()
        })
        .collect()
}

/// The header of [`lines`], with the labels above the two sides.
pub(super) fn header(old: &Delays, new: &Delays, labels: [&str; 2]) -> String {
    let most = old.steps.into_iter().chain(new.steps).max().unwrap_or(0);
    let width = most.to_string().len() + 1 + BAR;
    let [left, right] = labels;
    format!("{:<14} {left:<width$}  {right}", "")
}

fn bar(count: usize, most: usize) -> String {
    crate::bar::bar(count as u64, most as u64, BAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_before_the_first_delay_and_after_the_last_are_left_out() {
        let mut old = Delays::default();
        let mut new = Delays::default();
        old.steps[7] = 10;
        new.steps[9] = 5;
        let (full, half) = ("█".repeat(BAR), "█".repeat(BAR / 2));
        assert_eq!(
            lines(&old, &new),
            [
                format!("1s to 2s       10 {full}   0"),
                format!("2s to 5s        0 {:BAR$}   0", ""),
                format!("5s to 10s       0 {:BAR$}   5 {half}", ""),
            ]
        );
        assert!(lines(&Delays::default(), &Delays::default()).is_empty());
        new.steps[23] = 1;
        let lines = lines(&old, &new);
        assert!(lines.last().unwrap().starts_with("from 7d"), "{lines:?}");
    }
}
