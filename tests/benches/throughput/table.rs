//! The results as tables, and how the fastest of each side compare.

use tests_benches::{Better, Chapter, Figure, Table, Unit};

use crate::plan::{Case, Latency, Side};
use crate::run::Measured;

/// Why Backstop loses where it does.
const LOSSES: &str = "A loop reads no attributes that it does not need, counts nothing, decides nothing and keeps no policy's code: what a message costs more is that, and so is the memory. Where the emulator shares the processors, the rate follows the processor time of both.";

/// A case and the figures of its rounds.
pub(crate) type Results = [(Case, Figures)];

#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) rate: Figure,
    pub(crate) processor: Figure,
    requests: Figure,
    pub(crate) memory: Figure,
    import: Option<Figure>,
    started: Figure,
}

impl Figures {
    pub(crate) fn of(rounds: &[Measured]) -> Self {
        let figure = |of: fn(&Measured) -> f64| Figure::of(rounds.iter().map(of));
        Self {
            rate: figure(|it| it.rate),
            processor: figure(|it| it.processor),
            requests: figure(|it| it.requests),
            memory: figure(|it| it.memory),
            import: rounds[0]
                .import
                .map(|_| figure(|it| it.import.unwrap_or_default())),
            started: figure(|it| it.started),
        }
    }
}

/// The tables of these results, in the order in which they come.
pub(crate) fn add(chapter: &mut Chapter, results: &Results) {
    let mut titles: Vec<String> = Vec::new();
    for (case, _) in results {
        if !titles.contains(&case.table()) {
            titles.push(case.table());
        }
    }
    for title in titles {
        let of_table = || results.iter().filter(|(case, _)| case.table() == title);
        let has_language = of_table().any(|(case, _)| case.language.is_some());
        let mut table = Table::new(&title)
            .column("messages a second", Unit::PerSecond, Better::More)
            .column("processor time a message", Unit::Microseconds, Better::Less)
            .column("requests a message", Unit::Number, Better::Less)
            .column("peak memory", Unit::Mebibytes, Better::Less);
        table = if has_language {
            table
                .column("import", Unit::Milliseconds, Better::Less)
                .column("until it starts", Unit::Milliseconds, Better::Less)
        } else {
            table.because(LOSSES)
        };
        for (case, figures) in of_table() {
            let Figures {
                rate,
                processor,
                requests,
                memory,
                import,
                started,
            } = *figures;
            let mut figures = vec![Some(rate), Some(processor), Some(requests), Some(memory)];
            if has_language {
                figures.extend([import, Some(started)]);
            }
            table.row(case.side.is_ours(), case.name(), figures);
        }
        chapter.add(table);
    }
}

/// The fastest Backstop as a library, divided by the fastest of each other side, on a standard queue without failures.
pub(crate) fn add_ratios(chapter: &mut Chapter, results: &Results) {
    for latency in [Latency::None, Latency::TenMilliseconds] {
        let fastest = |is_side: fn(Side) -> bool| {
            let plain = results.iter().filter(|(case, _)| {
                case.latency == latency
                    && case.failing == 0
                    && !case.fifo
                    && !case.grows()
                    && is_side(case.side)
            });
            plain.max_by(|(_, one), (_, other)| one.rate.median.total_cmp(&other.rate.median))
        };
        let Some((case, ours)) = fastest(|side| matches!(side, Side::Backstop { .. })) else {
            continue;
        };
        let mut table = Table::new(&format!("{}, beside, {}", case.name(), latency.name()))
            .column("rate", Unit::Times, None)
            .column("processor time a message", Unit::Times, None)
            .not_drawn();
        let others: [fn(Side) -> bool; 4] = [
            |side| side == Side::Bare,
            |side| side == Side::BareWithAttributes,
            |side| side == Side::SqsConsumer,
            |side| side == Side::Boto3,
        ];
        for other in others {
            if let Some((case, theirs)) = fastest(other) {
                let ratios = [
                    ours.rate.times(theirs.rate),
                    ours.processor.times(theirs.processor),
                ];
                table.theirs(case.name(), ratios.map(Figure::exact));
            }
        }
        chapter.add(table);
    }
}
