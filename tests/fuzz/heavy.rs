//! Policies that are costly to compile for their size, made of an input: what each of its pieces repeats, and how often.

use std::fmt::Write;

/// Instructions that leave the stack as it was, in a function with the parameter 0 and the locals 1 to 4.
const PIECES: [&str; 16] = [
    "local.get 0 i32.const 7 i32.mul local.set 0 ",
    "local.get 2 f64.sqrt f64.nearest local.get 2 f64.div local.set 2 ",
    "local.get 3 local.get 3 f64x2.div i64x2.neg local.set 3 ",
    "block block block local.get 0 br_table 0 1 2 1 0 2 end end end ",
    "local.get 0 call 2 ",
    "local.get 0 local.get 0 call_indirect (type 0) ",
    "local.get 0 local.get 0 i64.load offset=8 i64.store offset=16 ",
    "local.get 0 local.get 0 local.get 0 memory.fill ",
    "local.get 0 if local.get 1 i64.const 3 i64.div_s local.set 1 else local.get 1 i64.clz local.set 1 end ",
    "local.get 0 table.get 0 local.set 4 local.get 0 local.get 4 table.set 0 ",
    "ref.func 2 local.set 4 ",
    "global.get 0 i64.const 1 i64.add global.set 0 ",
    "local.get 0 i32.eqz local.get 0 local.get 0 select local.set 0 ",
    "i32.const 1 memory.grow drop ",
    "block local.get 0 br_if 0 local.get 1 i64.popcnt local.set 1 end ",
    "local.get 2 i64.trunc_sat_f64_s f64.convert_i64_u local.set 2 ",
];

/// What encloses all that comes after it, with its end.
const AROUND: [(&str, &str); 4] = [
    ("block ", "end "),
    ("loop ", "end "),
    ("local.get 0 if ", "end "),
    ("local.get 0 ", "drop "),
];

/// The longest text, in bytes.
const MOST: usize = 64 << 10;

/// A policy, as a module in binary. The first bytes say how many functions, locals, globals, elements and segments of data there are; of the others, each pair is a piece and how often it is there.
pub(crate) fn policy(input: &[u8]) -> Option<Vec<u8>> {
    let (&[functions, locals, globals, elements, segments], pieces) = input.split_first_chunk()?;
    let (mut body, mut ends) = (String::new(), String::new());
    for pair in pieces.chunks_exact(2) {
        let (piece, times) = (usize::from(pair[0]), usize::from(pair[1]));
        if pair[0] & 0x80 == 0 {
            body += &PIECES[piece % PIECES.len()].repeat(times);
        } else {
            let (start, end) = AROUND[piece % AROUND.len()];
            body += &start.repeat(times % 64);
            ends = end.repeat(times % 64) + &ends;
        }
        if body.len() > MOST / 8 {
            break;
        }
    }
    let more = " i32".repeat(usize::from(locals) * 2);
    let function = format!("(func (param i32) (local i64 f64 v128 funcref{more}) {body} {ends})\n");
    let copies = (usize::from(functions) * 4)
        .min(MOST / function.len())
        .max(1);
    let mut text = "(module (type (func (param i32))) (memory (export \"memory\") 1) (table 2000 funcref)
        (func (export \"cabi_realloc\") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export \"backstop:policy/backoff@0.1.0#delay\") (param i32) (result i32) (i32.const 5))\n"
        .to_owned();
    text += &function.repeat(copies);
    text += &"(global (mut i64) (i64.const 7))\n".repeat(1 + usize::from(globals) * 8);
    let items = "2 ".repeat(1 + usize::from(elements) * 4);
    writeln!(text, "(elem (i32.const 0) func {items})").ok()?;
    text += &"(data (i32.const 8) \"text\")\n".repeat(usize::from(segments) * 8);
    wat::parse_str(format!("{text})")).ok()
}
