//! Where somebody else's figure is better than Backstop's best.

use tests_benches::{Better, Chapter, Column, Figure, Table};

/// One figure of somebody else's that is better.
pub(crate) struct Loss<'a> {
    pub(crate) chapter: &'a Chapter,
    pub(crate) table: &'a Table,
    pub(crate) column: &'a Column,
    pub(crate) ours: (&'a str, Figure),
    pub(crate) theirs: (&'a str, Figure),
}

impl Loss<'_> {
    /// How many times better, always more than 1.
    pub(crate) fn times(&self) -> f64 {
        let (ours, theirs) = (self.ours.1, self.theirs.1);
        match self.column.better {
            Some(Better::More) => theirs.times(ours),
            _ => ours.times(theirs),
        }
    }
}

pub(crate) fn of(chapters: &[Chapter]) -> Vec<Loss<'_>> {
    let tables = chapters.iter().flat_map(|chapter| {
        let tables = chapter.tables.iter();
        tables.map(move |table| (chapter, table))
    });
    tables
        .flat_map(|(chapter, table)| {
            let columns = table.columns.iter().enumerate();
            columns.flat_map(move |(index, column)| in_column(chapter, table, index, column))
        })
        .collect()
}

fn in_column<'a>(
    chapter: &'a Chapter,
    table: &'a Table,
    index: usize,
    column: &'a Column,
) -> Vec<Loss<'a>> {
    let Some(better) = column.better else {
        return Vec::new();
    };
    let figures = |ours: bool| {
        let rows = table.rows.iter().filter(move |row| row.ours == ours);
        rows.filter_map(move |row| Some((row.name.as_str(), row.figures[index]?)))
    };
    let is_better = |one: Figure, other: Figure| match better {
        Better::Less => one.median < other.median,
        Better::More => one.median > other.median,
    };
    let best = figures(true).reduce(|best, next| {
        if is_better(next.1, best.1) {
            next
        } else {
            best
        }
    });
    let Some(ours) = best else {
        return Vec::new();
    };
    figures(false)
        .filter(|theirs| is_better(theirs.1, ours.1))
        .map(|theirs| Loss {
            chapter,
            table,
            column,
            ours,
            theirs,
        })
        .collect()
}
