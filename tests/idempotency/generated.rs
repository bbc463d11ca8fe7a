//! The keys of 100,000 generated events are those of the real libraries.

use std::fmt::Write;

use backstop_idempotency::{Event, Idempotency, MemoryStore, RecordFormat};

use crate::powertools::{PREFIX, Powertools};

/// Numbers that look random: SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn digits(&mut self, most: u64) -> String {
        let count = 1 + self.below(most);
        let digits = (0..count).map(|_| char::from(b'0' + u8::try_from(self.below(10)).unwrap()));
        digits.collect()
    }

    /// A double without a fraction.
    fn whole(&mut self) -> f64 {
        self.below(1 << 53).to_string().parse().unwrap()
    }

    fn exponent(&mut self) -> i32 {
        i32::try_from(self.below(60)).unwrap()
    }

    /// A number as text, of the kinds that the languages write in different ways.
    fn number(&mut self) -> String {
        let sign = if self.below(4) == 0 { "-" } else { "" };
        let size = match self.below(9) {
            0 => self.below(1_000).to_string(),
            1 => self.next().to_string(),
            2 => format!("1{}", self.digits(40)),
            // Any double.
            3 => loop {
                let number = f64::from_bits(self.next() >> 1);
                if number.is_finite() {
                    break format!("{number:?}");
                }
            },
            // Microseconds and quarters of them, of which many are ties.
            4 => {
                let quarters = [".0", ".25", ".5", ".75"];
                let quarter = quarters[usize::try_from(self.below(4)).unwrap()];
                format!("{}{quarter}", 1_763_914_000_000_000 + self.below(1 << 40))
            }
            5 => format!(
                "{}.{:06}",
                1_763_914_000 + self.below(1 << 20),
                self.below(1_000_000)
            ),
            // Few bits, and halves of any size.
            6 => format!("{:?}", self.whole() * 0.5_f64.powi(self.exponent())),
            7 => format!("{:?}", self.whole() * 2_f64.powi(self.exponent())),
            _ => {
                let exponent = self.exponent() - 30;
                format!("{}.{}e{exponent}", self.below(10), self.digits(19))
            }
        };
        format!("{sign}{size}")
    }

    fn string(&mut self) -> String {
        let count = self.below(8);
        let characters = (0..count).map(|_| {
            let range = [0x20, 0x80, 0x250, 0x2100, 0xd7ff, 0x1f700, 0x10_ffff];
            let end = range[usize::try_from(self.below(7)).unwrap()];
            let code = u32::try_from(self.below(end)).unwrap();
            char::from_u32(code).unwrap_or('İ')
        });
        serde_json::to_string(&characters.collect::<String>()).unwrap()
    }

    fn name(&mut self) -> String {
        match self.below(4) {
            0 => format!("\"{}\"", self.below(30)),
            1 => self.string(),
            _ => {
                let names = ["a", "A", "b", "B", "ab", "aB", "id", "é", "É", "ß"];
                format!("\"{}\"", names[usize::try_from(self.below(10)).unwrap()])
            }
        }
    }

    fn value(&mut self, depth: u32) -> String {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0..=2 => self.number(),
            3 | 4 => self.string(),
            5 => ["null", "true", "false"][usize::try_from(self.below(3)).unwrap()].to_owned(),
            6 => self.list(4, |random| random.value(depth - 1)),
            _ => self.object(depth),
        }
    }

    fn object(&mut self, depth: u32) -> String {
        let mut text = "{".to_owned();
        for place in 0..self.below(5) {
            let comma = if place > 0 { "," } else { "" };
            let (name, value) = (self.name(), self.value(depth.saturating_sub(1)));
            write!(text, "{comma}{name}: {value}").unwrap();
        }
        text + "}"
    }

    fn list(&mut self, most: u64, of: impl Fn(&mut Self) -> String) -> String {
        let count = self.below(most);
        let values: Vec<_> = (0..count).map(|_| of(self)).collect();
        format!("[{}]", values.join(","))
    }

    /// An event with something for each function.
    fn event(&mut self) -> String {
        format!(
            r#"{{"value": {}, "number": {}, "numbers": {}, "string": {}, "strings": {}, "object": {}, "small": {}}}"#,
            self.value(2),
            self.number(),
            self.list(6, Self::number),
            self.string(),
            self.list(4, Self::string),
            self.object(1),
            self.below(3),
        )
    }
}

/// Expressions that find something in such an event, with `@` for one value of its own that no library takes for missing.
const EXPRESSIONS: [&str; 38] = [
    "to_string(value)",
    "to_string(object)",
    "to_string(number)",
    "to_string(numbers)",
    "to_string(@)",
    "abs(number)",
    "sum(numbers)",
    "avg(numbers)",
    "ceil(number)",
    "floor(number)",
    "max(numbers)",
    "min(numbers)",
    "max(strings)",
    "min(strings)",
    "sort(numbers)",
    "sort_by(numbers, &@)",
    "sort_by(strings, &@)",
    "numbers[::-1]",
    "numbers[1:]",
    "numbers[?@ > `1e15`]",
    "numbers[?@ == number || @ < `0`]",
    "number == small",
    "value == small",
    "to_number(to_string(number))",
    "to_number(string)",
    "keys(object)",
    "values(object)",
    "object.*",
    "merge(object, {a: small, \"10\": number})",
    "length(string)",
    "reverse(numbers)",
    "reverse(string)",
    "join('é', strings)",
    "contains(numbers, small)",
    "map(&to_string(@), numbers)",
    "not_null(value, number)",
    "{n: number, s: string, \"2\": `1.10`, o: object}",
    "[value, type(value), to_array(value), starts_with(string, ''), powertools_json(to_string(object))]",
];

/// The key of an event, or why it has none.
fn ours(idempotency: &Idempotency, event: &str) -> Result<String, String> {
    let event = Event::parse(event).unwrap();
    let key = idempotency
        .key_of(&event)
        .map_err(|error| error.to_string())?;
    Ok(key.unwrap().as_str().to_owned())
}

/// Compares the keys of these events at a path.
async fn compare(
    library: &mut Powertools,
    format: RecordFormat,
    path: &str,
    events: &[String],
) -> usize {
    let idempotency = Idempotency::builder(MemoryStore::new(format), PREFIX).key(path);
    let idempotency = idempotency.build().unwrap();
    let theirs = library.keys(path, events).await;
    let mut compared = 0;
    for (event, theirs) in events.iter().zip(theirs) {
        match (ours(&idempotency, event), theirs) {
            (Ok(ours), Some(theirs)) => {
                assert_eq!(ours, theirs, "{path} in {event} by {format:?}");
                compared += 1;
            }
            (Err(_), None) => compared += 1,
            // What only the machine of the other library knows: its locale, halves of characters, and integers without end.
            (Err(why), Some(_)) => {
                let is_known = ["TypeScript", "38 digits", "other than 0 to 9"];
                assert!(
                    is_known.iter().any(|it| why.contains(it)),
                    "{path} in {event} by {format:?}: {why}"
                );
            }
            (Ok(ours), None) => panic!("{path} in {event} by {format:?}: {ours}, and no key there"),
        }
    }
    compared
}

async fn keys_are_the_same(format: RecordFormat) {
    let mut library = Powertools::start(format, None);
    let mut random = Random(7);
    let mut compared = 0;
    for _ in 0..16 {
        // An array of two is never missing.
        let events: Vec<_> = (0..5_000)
            .map(|_| format!("{{\"id\": [1, {}]}}", random.value(3)))
            .collect();
        compared += compare(&mut library, format, "id", &events).await;
    }
    for expression in EXPRESSIONS {
        let events: Vec<_> = (0..600).map(|_| random.event()).collect();
        // A list with a 1 is never missing.
        let path = format!("[`1`, {expression}]");
        compared += compare(&mut library, format, &path, &events).await;
    }
    assert!(compared > 100_000, "{compared}");
}

#[tokio::test]
async fn generated_keys_are_those_of_python() {
    keys_are_the_same(RecordFormat::Python).await;
}

#[tokio::test]
async fn generated_keys_are_those_of_typescript() {
    keys_are_the_same(RecordFormat::TypeScript).await;
}
