//! Tables of figures: printed for the one who watches, and written as JSON for the report.

use std::io::ErrorKind;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Better, Figure, Unit};

/// What one benchmark measures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Chapter {
    /// The benchmark's name, which is also that of its file.
    pub name: String,
    /// Its heading in the report.
    pub title: String,
    /// What was measured, and with what.
    pub about: String,
    /// In the order of the report.
    pub tables: Vec<Table>,
}

/// Sides that are compared, each with the same figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[must_use]
pub struct Table {
    /// What its rows are.
    pub title: String,
    /// The figures of each row; the report draws the first.
    pub columns: Vec<Column>,
    /// The sides.
    pub rows: Vec<Row>,
    /// Why Backstop loses where it does; empty where it does not.
    pub why: String,
    /// Whether the report draws the first column: not where its rows count different things.
    pub drawn: bool,
}

/// One figure of each row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Column {
    /// What is measured.
    pub name: String,
    /// What it is measured in.
    pub unit: Unit,
    /// Which of two rows is the better one; none where that is no question.
    pub better: Option<Better>,
}

/// One side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// Who or what is measured.
    pub name: String,
    /// Whether it is Backstop's. The others' rows are what it is compared with.
    pub ours: bool,
    /// One for each column.
    pub figures: Vec<Option<Figure>>,
}

impl Chapter {
    /// Without tables.
    pub fn new(name: &str, title: &str, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            about: about.to_owned(),
            tables: Vec::new(),
        }
    }

    /// Prints a table as soon as it is there, and keeps it.
    pub fn add(&mut self, table: Table) {
        table.print();
        self.tables.push(table);
    }

    /// Writes what there is for the report.
    pub fn write(&self) {
        let folder = folder();
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join(format!("{}.json", self.name));
        let json = serde_json::to_string_pretty(self).unwrap();
        std::fs::write(file, json + "\n").unwrap();
    }
}

/// A chapter that a benchmark has written; none if it has not run.
pub fn read(name: &str) -> Option<Chapter> {
    match std::fs::read(folder().join(format!("{name}.json"))) {
        Ok(json) => Some(serde_json::from_slice(&json).unwrap()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Where the figures and the report are: `bench` in the target folder.
pub fn folder() -> PathBuf {
    // The program is `release/deps/NAME` in it.
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().join("bench")
}

impl Table {
    /// Without columns and rows.
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            columns: Vec::new(),
            rows: Vec::new(),
            why: String::new(),
            drawn: true,
        }
    }

    /// With one more figure for each row.
    pub fn column(mut self, name: &str, unit: Unit, better: impl Into<Option<Better>>) -> Self {
        self.columns.push(Column {
            name: name.to_owned(),
            unit,
            better: better.into(),
        });
        self
    }

    /// Why Backstop loses where it does.
    pub fn because(mut self, why: &str) -> Self {
        why.clone_into(&mut self.why);
        self
    }

    /// Without a picture.
    pub fn not_drawn(mut self) -> Self {
        self.drawn = false;
        self
    }

    /// A row of Backstop's.
    pub fn ours<F: Into<Option<Figure>>>(
        &mut self,
        name: impl Into<String>,
        figures: impl IntoIterator<Item = F>,
    ) {
        self.row(true, name, figures);
    }

    /// A row of somebody else's.
    pub fn theirs<F: Into<Option<Figure>>>(
        &mut self,
        name: impl Into<String>,
        figures: impl IntoIterator<Item = F>,
    ) {
        self.row(false, name, figures);
    }

    /// A row of the one or of the other.
    pub fn row<F: Into<Option<Figure>>>(
        &mut self,
        ours: bool,
        name: impl Into<String>,
        figures: impl IntoIterator<Item = F>,
    ) {
        let name = name.into();
        let figures: Vec<_> = figures.into_iter().map(Into::into).collect();
        assert_eq!(figures.len(), self.columns.len(), "{}: {name}", self.title);
        self.rows.push(Row {
            name,
            ours,
            figures,
        });
    }

    fn print(&self) {
        println!("\n{}", self.title);
        let names = self.rows.iter().map(|row| row.name.chars().count());
        let widest = names.max().unwrap_or_default();
        print!("  {:widest$}", "");
        for column in &self.columns {
            print!("   {:>14}", column.name);
        }
        println!();
        for row in &self.rows {
            print!("  {:widest$}", row.name);
            for (column, figure) in self.columns.iter().zip(&row.figures) {
                let width = column.name.chars().count().max(14);
                match figure {
                    Some(figure) => {
                        let shown = format!("{figure}{}", column.unit.symbol());
                        print!("   {shown:>width$}");
                    }
                    None => print!("   {:>width$}", "–"),
                }
            }
            println!();
        }
    }
}
