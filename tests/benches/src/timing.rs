//! Sides that take turns: whatever else the machine does meets all of them.

use backstop_core::clock;

use crate::Figure;

/// One side: does the work so many times, and returns the nanoseconds of one.
pub type Side<'a> = Box<dyn FnMut(u32) -> f64 + 'a>;

/// A side that is a function here.
pub fn side<'a, T>(mut work: impl FnMut() -> T + 'a) -> Side<'a> {
    Box::new(move |times| {
        let started = clock::instant();
        for _ in 0..times {
            std::hint::black_box(work());
        }
        started.elapsed().as_secs_f64() * 1e9 / f64::from(times)
    })
}

/// Measures all sides in turns: a first round that warms up, then this many. Each round of a side does its work so many times.
pub fn rounds(rounds: usize, sides: &mut [(u32, Side<'_>)]) -> Vec<Figure> {
    let mut measured: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    for round in 0..=rounds {
        for ((times, side), measured) in sides.iter_mut().zip(&mut measured) {
            let took = side(*times);
            if round > 0 {
                measured.push(took);
            }
        }
    }
    measured.into_iter().map(Figure::of).collect()
}

/// The same figure in another unit.
pub fn scaled(figure: Figure, factor: f64) -> Figure {
    Figure {
        median: figure.median * factor,
        lower_quartile: figure.lower_quartile * factor,
        upper_quartile: figure.upper_quartile * factor,
        rounds: figure.rounds,
    }
}
