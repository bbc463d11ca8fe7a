//! Policies for tests: written by hand, some of them hostile, as text that the host loads like any other file.

/// The interfaces, as a core module names them.
const PREFIX: &str = "backstop:policy";

/// Whether a failure passed to `judge` or `delay` is a real one: the ids of the probe start with `probe`, and those of messages are hexadecimal.
pub const AT_WORK: &str = "(i32.ne (i32.load8_u (i32.load (local.get 0))) (i32.const 112))";

/// A policy whose functions have these bodies; a function without one is not exported.
///
/// `delay` returns an `i32`. `classify`, `judge`, `configure` and `down_for` return the address of their answer, such as [`Rule::FIRST`]. `start` runs when an instance is created.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rule<'a> {
    /// Run at instantiation.
    pub start: &'a str,
    /// `configure(settings) -> result<_, string>`
    pub configure: Option<&'a str>,
    /// `classify(error) -> error-class`
    pub classify: Option<&'a str>,
    /// `judge(failure, class) -> verdict`
    pub judge: Option<&'a str>,
    /// `delay(failure, class) -> milliseconds`
    pub delay: Option<&'a str>,
    /// `down-for(failure, class) -> option<milliseconds>`
    pub down_for: Option<&'a str>,
}

/// An answer of `down-for`: so many milliseconds.
pub fn down_for(milliseconds: u32) -> String {
    format!(
        "(i32.store (i32.const 176) (i32.const 1)) (i32.store (i32.const 180) (i32.const {milliseconds})) (i32.const 176)"
    )
}

/// An answer of `down-for` that says nothing.
pub const NOT_DOWN: &str = "(i32.const 64)";

impl Rule<'_> {
    /// An answer of `transient`, of `retry`, or of `ok`: the first case.
    pub const FIRST: &'static str = "(i32.const 64)";
    /// An answer of `permanent`.
    pub const PERMANENT: &'static str = "(i32.const 80)";
    /// An endless loop.
    pub const LOOP: &'static str = "(loop $l (br $l)) (unreachable)";

    /// The policy's text.
    pub fn text(&self) -> String {
        let export = |interface: &str, function: &str, parameters: usize, body: Option<&str>| {
            body.map_or_else(String::new, |body| {
                let parameters = "i32 ".repeat(parameters);
                format!("(func (export \"{PREFIX}/{interface}@0.1.0#{function}\") (param {parameters}) (result i32) {body})\n")
            })
        };
        let start = if self.start.is_empty() {
            String::new()
        } else {
            format!("(func $start {}) (start $start)", self.start)
        };
        // 64: case 0. 80: case 2. 96: case 1 with an empty string. 112: case 1 with ten megabytes. 128: case 1 with `because`. 144: case 3 with `cart`. 160: case 3 with an empty string.
        format!(
            r#"(module
  (import "backstop:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "backstop:policy/payload@0.1.0" "get" (func $get (param i32 i32 i32)))
  (memory (export "memory") 200 10000)
  (global $next (mut i32) (i32.const 4096))
  (func (export "cabi_realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1))) (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at))
  (data (i32.const 80) "\02")
  (data (i32.const 96) "\01\00\00\00\00\08\00\00\00\00\00\00")
  (data (i32.const 112) "\01\00\00\00\00\10\00\00\80\96\98\00")
  (data (i32.const 128) "\01\00\00\00\00\08\00\00\07\00\00\00")
  (data (i32.const 144) "\03\00\00\00\08\08\00\00\04\00\00\00")
  (data (i32.const 160) "\03\00\00\00\00\08\00\00\00\00\00\00")
  (data (i32.const 2048) "because\00cart/tenant")
  (func $recurse (param i32) (result i32) (i32.add (i32.const 1) (call $recurse (i32.add (local.get 0) (i32.const 1)))))
  {start}
  {}{}{}{}{})"#,
            export("settings", "configure", 2, self.configure),
            export("classifier", "classify", 10, self.classify),
            export("dead-lettering", "judge", 1, self.judge),
            export("backoff", "delay", 1, self.delay),
            export("outage", "down-for", 1, self.down_for),
        )
    }
}

/// The text of a policy that waits this long.
pub fn waits(milliseconds: u32) -> String {
    Rule {
        delay: Some(&format!("(i32.const {milliseconds})")),
        ..Rule::default()
    }
    .text()
}
