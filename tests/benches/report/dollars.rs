//! What a million failures cost in requests, by the requests that the other chapters counted.

use tests_benches::{Better, Chapter, Figure, Row, Table, Unit, requests_of_a_failure};

/// SQS, standard queues, in the United States, after the first million of a month: dollars for a million requests. <https://aws.amazon.com/sqs/pricing/>
const SQS: f64 = 0.40;

/// Lambda in the same place: dollars for a million invocations. <https://aws.amazon.com/lambda/pricing/>
const LAMBDA: f64 = 0.20;

const ABOUT: &str = "The requests that a failure causes, and what a million of them cost: $0.40 for a million requests of SQS (standard queues), $0.20 for a million invocations of Lambda. On a queue, a failure is what hides the message and the receive that brings it again. With the Lambda handler, it is everything about a record that is delayed once and invoked once, but for the polls of Lambda's own mapping, which are the same for both. Not counted: what a processor costs, the time that functions run, traffic. Requests grow with the size: each 64 KiB of a batch count as one.";

/// None if neither of its chapters was measured.
pub(crate) fn chapter(chapters: &[Chapter]) -> Option<Chapter> {
    let chapter_of = |name: &str| chapters.iter().find(|chapter| chapter.name == name);
    let mut chapter = Chapter::new("dollars", "Dollars for a million failures", ABOUT);
    if let Some(throughput) = chapter_of("throughput") {
        let tables = throughput.tables.iter();
        chapter.tables.extend(tables.filter_map(on_a_queue));
    }
    if let Some(lambda) = chapter_of("lambda") {
        chapter
            .tables
            .extend(lambda.tables.iter().filter_map(of_lambda));
    }
    (!chapter.tables.is_empty()).then_some(chapter)
}

fn empty(title: &str) -> Table {
    Table::new(title)
        .column("a million failures", Unit::Dollars, Better::Less)
        .column("requests for each", Unit::Number, Better::Less)
}

/// The figure in the column with this name.
fn figure(table: &Table, row: &Row, column: &str) -> Option<f64> {
    let index = table.columns.iter().position(|it| it.name == column)?;
    Some(row.figures[index]?.median)
}

fn put(table: &mut Table, row: &Row, dollars: f64, requests: f64) {
    let figures = [dollars, requests].map(Figure::exact);
    table.row(row.ours, row.name.clone(), figures);
}

/// From a table of consumers with failures and without latency.
fn on_a_queue(counted: &Table) -> Option<Table> {
    let (before, _) = counted.title.split_once(" % failing")?;
    let failing: f64 = before.rsplit(' ').next()?.parse().ok()?;
    if failing == 0.0 || !before.contains("no added latency") {
        return None;
    }
    let mut table = empty(&format!("On a queue, {failing} % of the messages fail"));
    for row in &counted.rows {
        let requests = figure(counted, row, "requests a message")?;
        let requests = requests_of_a_failure(requests, failing / 100.0);
        put(&mut table, row, requests * SQS, requests);
    }
    Some(table)
}

/// From the table of the Lambda handlers.
fn of_lambda(counted: &Table) -> Option<Table> {
    let mut table = empty("A function's failed event, delayed by the Lambda retry handler");
    for row in &counted.rows {
        let all = figure(counted, row, "requests a record")?;
        let invocations = figure(counted, row, "invocations a record")?;
        let dollars = (all - invocations) * SQS + invocations * LAMBDA;
        put(&mut table, row, dollars, all);
    }
    Some(table)
}
