//! Numbers as Python and JavaScript write them. Both write the shortest digits that read back as the same double; they differ in when they use an exponent.

/// The digits of a finite number and the place of its point: 0.0015 has the digits `15` and the point -2.
struct Digits {
    digits: String,
    point: i32,
}

impl Digits {
    fn of(number: f64) -> Self {
        let number = number.abs();
        let written = format!("{number:e}");
        let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let digits = digits.replace('.', "");
        Self {
            digits: even_of_two(number, &digits).unwrap_or(digits),
            point: exponent.parse::<i32>().unwrap_or_default() + 1,
        }
    }

    /// With its point where it belongs; an integer has none.
    fn decimal(&self) -> String {
        let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
        let places = usize::try_from(self.point).unwrap_or_default();
        match self.digits.split_at_checked(places) {
            _ if self.point <= 0 => format!("0.{}{}", zeros(-self.point), self.digits),
            Some((whole, "")) => whole.to_owned(),
            Some((whole, rest)) => format!("{whole}.{rest}"),
            None => {
                let length = i32::try_from(self.digits.len()).unwrap_or(i32::MAX);
                format!("{}{}", self.digits, zeros(self.point - length))
            }
        }
    }

    /// The digits with a point after the first, for an exponent to follow.
    fn mantissa(&self) -> String {
        match self.digits.split_at_checked(1) {
            Some((first, rest)) if !rest.is_empty() => format!("{first}.{rest}"),
            _ => self.digits.clone(),
        }
    }
}

/// The digits that Python and JavaScript write if two numbers of this many digits are equally close to the double, such as 1763914000123456.2 and .3 to 1763914000123456.25: those that end in an even digit. Rust writes the greater one.
fn even_of_two(number: f64, digits: &str) -> Option<String> {
    // One digit more is a 5, and nothing follows it.
    let places = digits.len();
    let (longer, exponent) = exact(number, places)?;
    if !longer.ends_with('5') {
        return None;
    }
    let (all, _) = exact(number, MOST_DIGITS)?;
    if all.trim_end_matches('0') != longer {
        return None;
    }
    let lower = longer.get(..places)?;
    let is_even = lower.ends_with(['0', '2', '4', '6', '8']);
    let (first, rest) = lower.split_at_checked(1)?;
    let is_same = format!("{first}.{rest}e{exponent}").parse() == Ok(number);
    (is_even && is_same).then(|| lower.to_owned())
}

/// No double has more digits than this.
const MOST_DIGITS: usize = 800;

/// The digits of a number, with this many after the first, and its exponent.
fn exact(number: f64, places: usize) -> Option<(String, i32)> {
    let written = format!("{number:.places$e}");
    let (digits, exponent) = written.split_once('e')?;
    Some((digits.replace('.', ""), exponent.parse().ok()?))
}

/// Whether Python reads this number as an integer.
pub(crate) fn is_integer(written: &str) -> bool {
    let digits = written.strip_prefix('-').unwrap_or(written);
    digits.bytes().all(|it| it.is_ascii_digit())
}

/// As a double.
pub(crate) fn double(written: &str) -> f64 {
    written.parse().unwrap_or(f64::NAN)
}

/// As Python's `json.dumps` writes a number that its `json.loads` read: an integer with all of its digits, anything else as a double.
pub(crate) fn python(written: &str) -> String {
    if is_integer(written) {
        return if written == "-0" { "0" } else { written }.to_owned();
    }
    python_float(double(written))
}

/// As Python writes a double.
pub(crate) fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    let digits = Digits::of(number);
    if (-3..=16).contains(&digits.point) || number == 0.0 {
        let decimal = digits.decimal();
        let fraction = if decimal.contains('.') { "" } else { ".0" };
        return format!("{sign}{decimal}{fraction}");
    }
    let exponent = digits.point - 1;
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{}e{exponent_sign}{:02}",
        digits.mantissa(),
        exponent.abs()
    )
}

/// As JavaScript's `JSON.stringify` writes a number that its `JSON.parse` read: every number is a double.
pub(crate) fn javascript(written: &str) -> String {
    let number = double(written);
    if !number.is_finite() {
        return "null".to_owned();
    }
    javascript_number(number)
}

/// As JavaScript writes a double.
pub(crate) fn javascript_number(number: f64) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    if number.is_nan() {
        return "NaN".to_owned();
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.is_infinite() {
        return format!("{sign}Infinity");
    }
    let digits = Digits::of(number);
    if (-5..=21).contains(&digits.point) {
        return format!("{sign}{}", digits.decimal());
    }
    let exponent = digits.point - 1;
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!(
        "{sign}{}e{exponent_sign}{}",
        digits.mantissa(),
        exponent.abs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_language_writes_a_number_its_own_way() {
        for (written, in_python, in_javascript) in [
            ("0", "0", "0"),
            ("-0", "0", "0"),
            ("-0.0", "-0.0", "0"),
            ("7", "7", "7"),
            ("1.0", "1.0", "1"),
            ("1e0", "1.0", "1"),
            ("100", "100", "100"),
            ("1E2", "100.0", "100"),
            ("0.1", "0.1", "0.1"),
            ("1.10", "1.1", "1.1"),
            ("-12.5", "-12.5", "-12.5"),
            ("0.0001", "0.0001", "0.0001"),
            ("0.00001", "1e-05", "0.00001"),
            ("0.0000001", "1e-07", "1e-7"),
            ("1.5e-7", "1.5e-07", "1.5e-7"),
            ("0.000001", "1e-06", "0.000001"),
            ("1e15", "1000000000000000.0", "1000000000000000"),
            ("1e16", "1e+16", "10000000000000000"),
            ("1e21", "1e+21", "1e+21"),
            ("1e22", "1e+22", "1e+22"),
            (
                "123456789012345680.0",
                "1.2345678901234568e+17",
                "123456789012345680",
            ),
            ("9007199254740993", "9007199254740993", "9007199254740992"),
            (
                "12345678901234567890123",
                "12345678901234567890123",
                "1.2345678901234568e+22",
            ),
            ("1e400", "Infinity", "null"),
            ("-1e400", "-Infinity", "null"),
            ("5e-324", "5e-324", "5e-324"),
            // Between two of as many digits.
            (
                "1763914000123456.25",
                "1763914000123456.2",
                "1763914000123456.2",
            ),
            (
                "1763914000123456.75",
                "1763914000123456.8",
                "1763914000123456.8",
            ),
            (
                "-4503599627370495.5",
                "-4503599627370495.5",
                "-4503599627370495.5",
            ),
            (
                "9007199254740993.0",
                "9007199254740992.0",
                "9007199254740992",
            ),
            (
                "1.7976931348623157e308",
                "1.7976931348623157e+308",
                "1.7976931348623157e+308",
            ),
        ] {
            assert_eq!(python(written), in_python, "{written} in Python");
            assert_eq!(
                javascript(written),
                in_javascript,
                "{written} in JavaScript"
            );
        }
    }
}
