//! Evaluates the few functions of CloudWatch's metric math that an alarm of the deployment uses: `FILL`, `DIFF`, `IF`, `+`, `>` and `OR`.

/// A value for each period; `None` where there is no data.
type Series = Vec<Option<f64>>;

/// The value of an expression in each of so many periods. `metric` has the series of each id.
pub(super) fn evaluated(
    expression: &str,
    periods: usize,
    metric: &dyn Fn(&str) -> Series,
) -> Series {
    let mut parser = Parser {
        left: tokens(expression),
        periods,
        metric,
    };
    let series = parser.or();
    assert!(parser.left.is_empty(), "{:?}", parser.left);
    series
}

/// The words and signs, the last one first.
fn tokens(expression: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in expression.chars() {
        match letter {
            '(' | ')' | ',' | '+' | '>' => spaced.extend([' ', letter, ' ']),
            _ => spaced.push(letter),
        }
    }
    spaced.split_whitespace().rev().map(str::to_owned).collect()
}

struct Parser<'a> {
    left: Vec<String>,
    periods: usize,
    metric: &'a dyn Fn(&str) -> Series,
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let is_next = self.left.last().is_some_and(|next| next == token);
        if is_next {
            self.left.pop();
        }
        is_next
    }

    fn or(&mut self) -> Series {
        let mut series = self.comparison();
        while self.take("OR") {
            let other = self.comparison();
            series = both(&series, &other, |one, other| {
                truth(one != 0.0 || other != 0.0)
            });
        }
        series
    }

    fn comparison(&mut self) -> Series {
        let series = self.sum();
        if !self.take(">") {
            return series;
        }
        let other = self.sum();
        both(&series, &other, |one, other| truth(one > other))
    }

    fn sum(&mut self) -> Series {
        let mut series = self.term();
        while self.take("+") {
            let other = self.term();
            series = both(&series, &other, |one, other| one + other);
        }
        series
    }

    fn term(&mut self) -> Series {
        let word = self.left.pop().unwrap();
        if let Ok(number) = word.parse() {
            return vec![Some(number); self.periods];
        }
        if !self.take("(") {
            return (self.metric)(&word);
        }
        let mut arguments = vec![self.or()];
        while self.take(",") {
            arguments.push(self.or());
        }
        assert!(self.take(")"), "{word}: {:?}", self.left);
        match (word.as_str(), arguments.as_slice()) {
            ("FILL", [series, filled]) => {
                let pairs = series.iter().zip(filled);
                pairs.map(|(value, filled)| value.or(*filled)).collect()
            }
            // The difference from the period before, which the first one does not have.
            ("DIFF", [series]) => {
                let pairs = series.windows(2).map(|pair| Some(pair[1]? - pair[0]?));
                std::iter::once(None).chain(pairs).collect()
            }
            ("IF", [condition, yes, no]) => {
                let branches = yes.iter().zip(no).zip(condition);
                let chosen = branches.map(|((yes, no), it)| if (*it)? == 0.0 { *no } else { *yes });
                chosen.collect()
            }
            _ => panic!("{word} with {} arguments", arguments.len()),
        }
    }
}

/// Combines the periods in which both have data.
fn both(one: &Series, other: &Series, combine: fn(f64, f64) -> f64) -> Series {
    let pairs = one.iter().zip(other);
    pairs
        .map(|(one, other)| Some(combine((*one)?, (*other)?)))
        .collect()
}

fn truth(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}
