//! Tables without borders, whose rows are a line each, whatever the width of the terminal.

use std::ops::Range;

use super::cut;

/// The space between two columns.
pub(crate) const GAP: usize = 2;

/// The widest column of a pipe whose cells are aligned. Longer cells shift the rest of their line.
const WIDEST: usize = 60;

/// The narrowest that a column is cut to before the last column is left out, and after.
const LEAST: (usize, usize) = (20, 8);

/// A table of texts. The first columns are aligned to the right. The last one is long and can be left out, as it can be had otherwise: ids.
#[derive(Debug)]
pub(crate) struct Table {
    /// The names of the columns.
    pub(crate) headers: Vec<String>,
    /// The cells, a line each; as many as there are columns.
    pub(crate) rows: Vec<Vec<String>>,
    /// How many columns are aligned to the right.
    pub(crate) right: usize,
    /// The columns that may be cut.
    pub(crate) flexible: Range<usize>,
}

/// What is printed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fitted {
    /// The lines of the table, with its headers.
    pub(crate) lines: Vec<String>,
    /// Whether there was no room for the last column.
    pub(crate) is_last_left_out: bool,
}

impl Table {
    /// The table in lines of at most so many columns, or as wide as it is.
    pub(crate) fn fit(&self, columns: Option<usize>) -> Fitted {
        let mut widths = self.widths();
        let Some(columns) = columns else {
            for width in &mut widths {
                *width = (*width).min(WIDEST);
            }
            return Fitted {
                lines: self.lines(&widths, None),
                is_last_left_out: false,
            };
        };
        let whole = widths.clone();
        let is_last_left_out = !self.shrink(&mut widths, LEAST.0, columns);
        if is_last_left_out {
            widths = whole;
            widths.pop();
            self.shrink(&mut widths, LEAST.1, columns);
        }
        Fitted {
            lines: self.lines(&widths, Some(columns)),
            is_last_left_out,
        }
    }

    /// The columns that the whole table takes.
    pub(crate) fn width(&self) -> usize {
        joined(&self.widths())
    }

    fn widths(&self) -> Vec<usize> {
        let headers = self.headers.iter().enumerate();
        headers
            .map(|(column, header)| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                let lengths = cells.chain([header]).map(|cell| cell.chars().count());
                lengths.max().unwrap_or_default()
            })
            .collect()
    }

    /// Narrows the widest flexible columns until all fit, none below `least`. Returns whether they fit.
    fn shrink(&self, widths: &mut [usize], least: usize, columns: usize) -> bool {
        loop {
            let all = joined(widths);
            let surplus = all.saturating_sub(columns);
            if surplus == 0 {
                return true;
            }
            let flexible = widths.get_mut(self.flexible.clone()).unwrap_or_default();
            let mut sorted = flexible.to_vec();
            sorted.sort_unstable();
            let next = sorted.len().checked_sub(2).and_then(|it| sorted.get(it));
            let next = next.copied().unwrap_or_default();
            let Some(widest) = flexible.iter_mut().max().filter(|widest| **widest > least) else {
                return false;
            };
            // As far as the next one, at once: a text may be long.
            let step = surplus.min((*widest - next.min(*widest)).max(1));
            *widest = widest.saturating_sub(step).max(least);
        }
    }

    fn lines(&self, widths: &[usize], columns: Option<usize>) -> Vec<String> {
        let rows = [&self.headers].into_iter().chain(&self.rows);
        rows.map(|row| {
            let cells = row.iter().zip(widths).enumerate();
            let cells = cells.map(|(column, (cell, width))| {
                let cell = cut(cell, columns.map(|_| *width));
                if column < self.right {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            cut(line.trim_end(), columns)
        })
        .collect()
    }
}

/// The width of columns next to each other.
fn joined(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + widths.len().saturating_sub(1) * GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "9e3a4ae9-f760-4cb3-baee-40a3f7b54a0b";

    fn table(reason: &str) -> Table {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        Table {
            headers: row(["letters", "reason", "code", "such as"]),
            rows: vec![
                row(["40", reason, "HTTP 503", ID]),
                row(["1,200", "permanent: HTTP 404", "HTTP 404", ID]),
            ],
            right: 1,
            flexible: 1..3,
        }
    }

    #[test]
    fn a_row_is_one_line_of_at_most_the_columns_that_there_are() {
        let reason = "max-attempts of 8 reached: HTTP 503";
        for columns in 40..200 {
            for reason in ["", reason, &"long ".repeat(10_000)] {
                let fitted = table(reason).fit(Some(columns));
                assert_eq!(fitted.lines.len(), 3);
                for line in &fitted.lines {
                    assert!(line.chars().count() <= columns, "{columns}: {line}");
                    // An id that is shown is whole: other commands take it.
                    let has_part = line.contains("9e3a") && !line.contains(ID);
                    assert!(!has_part, "{line}");
                }
            }
        }
        let fitted = table(reason).fit(Some(80));
        let expected = [
            "letters  reason                   code      such as".to_owned(),
            format!("     40  max-attempts of 8 reac…  HTTP 503  {ID}"),
            format!("  1,200  permanent: HTTP 404      HTTP 404  {ID}"),
        ];
        assert_eq!(fitted.lines, expected);
        let fitted = table(reason).fit(Some(70));
        assert!(fitted.is_last_left_out);
        assert!(fitted.lines[1].ends_with(&format!("{reason}  HTTP 503")));
    }

    #[test]
    fn nothing_is_cut_in_a_pipe() {
        let long = "long ".repeat(10_000);
        let fitted = table(&long).fit(None);
        assert!(fitted.lines[1].contains(long.trim_end()) && !fitted.is_last_left_out);
        assert!(fitted.lines.iter().all(|line| !line.contains('…')));
        assert!(fitted.lines[2].len() < 200);
    }
}
