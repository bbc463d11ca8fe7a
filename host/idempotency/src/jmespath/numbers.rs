//! The arithmetic of the two languages. Python has integers of any size and doubles, JavaScript has doubles.

use std::cmp::Ordering;

use backstop_core::idempotency::RecordFormat;

use crate::format::number::{double, is_integer, javascript_number, python_float};

/// The integers from which on not every integer is a double.
const EXACT: u128 = 1 << 53;

fn written(format: RecordFormat, number: f64) -> String {
    match format {
        RecordFormat::Python => python_float(number),
        RecordFormat::TypeScript => javascript_number(number),
    }
}

fn is_python_integer(format: RecordFormat, number: &str) -> bool {
    format == RecordFormat::Python && is_integer(number)
}

pub(super) fn abs(format: RecordFormat, number: &str) -> String {
    if is_python_integer(format, number) {
        number.trim_start_matches('-').to_owned()
    } else {
        written(format, double(number).abs())
    }
}

/// `ceil` or `floor`, which are integers in Python.
pub(super) fn round(
    format: RecordFormat,
    number: &str,
    round: fn(f64) -> f64,
) -> Result<String, String> {
    if is_python_integer(format, number) {
        return Ok(number.to_owned());
    }
    let rounded = round(double(number));
    match format {
        RecordFormat::TypeScript => Ok(javascript_number(rounded)),
        RecordFormat::Python if !rounded.is_finite() => Err(format!("{number} is no integer")),
        // All digits of the double; an integer has no -0.
        RecordFormat::Python => Ok(format!("{:.0}", rounded + 0.0)),
    }
}

pub(super) fn sum(format: RecordFormat, numbers: &[&str]) -> Result<String, String> {
    let mut integer = Some(0_i128);
    let mut float = 0.0;
    for number in numbers {
        if is_python_integer(format, number) {
            match integer {
                Some(so_far) => integer = Some(add(so_far, number)?),
                None => float += double(number),
            }
        } else {
            if let Some(so_far) = integer.take() {
                float = double(&so_far.to_string());
            }
            float += double(number);
        }
    }
    Ok(match (format, integer) {
        (RecordFormat::Python, Some(sum)) => sum.to_string(),
        (RecordFormat::Python, None) => python_float(float),
        (RecordFormat::TypeScript, _) => javascript_number(float),
    })
}

fn add(sum: i128, number: &str) -> Result<i128, String> {
    let number = number.parse::<i128>().ok();
    let sum = number.and_then(|number| sum.checked_add(number));
    sum.ok_or_else(|| "integers of more than 38 digits cannot be added".to_owned())
}

/// `None` without numbers.
pub(super) fn average(format: RecordFormat, numbers: &[&str]) -> Result<Option<String>, String> {
    let count = u32::try_from(numbers.len()).map_err(|error| error.to_string())?;
    if count == 0 {
        return Ok(None);
    }
    let sum = sum(format, numbers)?;
    let average = if is_python_integer(format, &sum) {
        divided(sum.parse().unwrap_or_default(), count)
    } else {
        double(&sum) / f64::from(count)
    };
    Ok(Some(written(format, average)))
}

/// The quotient, rounded once, as Python divides integers.
fn divided(sum: i128, count: u32) -> f64 {
    let size = sum.unsigned_abs();
    let sign = if sum < 0 { -1.0 } else { 1.0 };
    if size < EXACT {
        return sign * double(&size.to_string()) / f64::from(count);
    }
    // More bits than a double has, and one that says whether there are others. A power of two changes no digit.
    let shift = size.leading_zeros();
    let (shifted, count) = (size << shift, u128::from(count));
    let quotient = (shifted / count) | u128::from(!shifted.is_multiple_of(count));
    sign * double(&quotient.to_string()) / double(&(1_u128 << shift).to_string())
}

/// The order of two numbers. `None` if one of them is none.
pub(super) fn compare(format: RecordFormat, left: &str, right: &str) -> Option<Ordering> {
    let is_integer = |number| is_python_integer(format, number);
    match (is_integer(left), is_integer(right)) {
        (true, true) => Some(compare_integers(left, right)),
        (false, false) => double(left).partial_cmp(&double(right)),
        (true, false) => compare_with_float(left, double(right)),
        (false, true) => compare_with_float(right, double(left)).map(Ordering::reverse),
    }
}

/// Python compares an integer and a double by their exact values.
fn compare_with_float(integer: &str, float: f64) -> Option<Ordering> {
    if !float.is_finite() {
        return 0.0.partial_cmp(&float);
    }
    let whole = format!("{:.0}", float.trunc());
    let fraction = || 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal);
    Some(compare_integers(integer, &whole).then_with(fraction))
}

fn compare_integers(left: &str, right: &str) -> Ordering {
    let parts = |text: &str| {
        let digits = text
            .trim_start_matches('-')
            .trim_start_matches('0')
            .to_owned();
        (text.starts_with('-') && !digits.is_empty(), digits)
    };
    let ((left_is_negative, left), (right_is_negative, right)) = (parts(left), parts(right));
    let by_size = left.len().cmp(&right.len()).then_with(|| left.cmp(&right));
    match (left_is_negative, right_is_negative) {
        (false, false) => by_size,
        (true, true) => by_size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

/// `to_number` of a string. `None` if it says no number.
pub(super) fn of_text(format: RecordFormat, text: &str) -> Result<Option<String>, String> {
    let is_space = |it: char| match format {
        RecordFormat::Python => it.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&it),
        RecordFormat::TypeScript => it.is_whitespace() && it != '\u{85}' || it == '\u{feff}',
    };
    let text = text.trim_matches(is_space);
    if !text.is_ascii() && text.contains(char::is_numeric) {
        return Err("digits other than 0 to 9 are not read".to_owned());
    }
    Ok(match format {
        RecordFormat::Python => python_number(text),
        RecordFormat::TypeScript => javascript_text(text)?.map(javascript_number),
    })
}

/// `int(text)`, else `float(text)`.
fn python_number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let bytes = digits.as_bytes();
    let is_separated = bytes.iter().enumerate().all(|(place, byte)| {
        let is_digit = |place: usize| bytes.get(place).is_some_and(u8::is_ascii_digit);
        *byte != b'_' || place > 0 && is_digit(place - 1) && is_digit(place + 1)
    });
    if !is_separated || digits.starts_with(['-', '+']) {
        return None;
    }
    let digits = digits.replace('_', "");
    let is_negative = text.starts_with('-');
    if !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit()) {
        let size = digits.trim_start_matches('0');
        return Some(match (size.is_empty(), is_negative) {
            (true, _) => "0".to_owned(),
            (false, true) => format!("-{size}"),
            (false, false) => size.to_owned(),
        });
    }
    // Rust reads the same, `inf`, `nan`, `.5` and `5.` among them.
    let number = digits.parse::<f64>().ok()?;
    Some(python_float(if is_negative { -number } else { number }))
}

/// `Number(text)`.
fn javascript_text(text: &str) -> Result<Option<f64>, String> {
    let radix = match text.get(..2) {
        Some("0x" | "0X") => Some(16),
        Some("0o" | "0O") => Some(8),
        Some("0b" | "0B") => Some(2),
        Some(_) | None => None,
    };
    if let Some(radix) = radix {
        let digits = text.get(2..).unwrap_or_default();
        if digits.is_empty() || !digits.chars().all(|it| it.is_digit(radix)) {
            return Ok(None);
        }
        let number = u128::from_str_radix(digits, radix);
        let number = number.map_err(|_| "a number of more than 128 bits is not read".to_owned())?;
        return Ok(Some(double(&number.to_string())));
    }
    let is_decimal = |it: u8| it.is_ascii_digit() || b".eE+-".contains(&it);
    Ok(match text {
        "" => Some(0.0),
        "Infinity" | "+Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        _ if text.bytes().all(is_decimal) => text.parse().ok(),
        _ => None,
    })
}
