//! The tables `[limits]` and `[limits.compile]`: what a policy and its compiler may use.

use super::*;

table! {
    /// What each component of a policy may use in one decision.
    Limits at "limits", "a table of limits, such as { fuel = 50000000, memory = \"64MiB\" }";

    /// WebAssembly instructions, approximately; slow ones, such as those on tables and divisions, cost up to 255; deterministic.
    fuel: Option<u64> = "50000000" => limits_fuel(u64) {
        shown: "50 000 000, about 50 ms",
    }

    /// Elapsed time.
    time: Option<Span> = "2s" => limits_time(Duration) {
        shown: "2s; 10s in Lambda",
    }

    /// Linear memory, all memories together; at most 4GiB.
    memory: Option<Bytes> = "64MiB" => limits_memory(Bytes) {
        bounds: "at most 4GiB",
    }

    /// Elements of one table.
    table_elements: Option<usize> = "20000" => limits_table_elements(usize) {
        shown: "20 000",
    }

    /// Core instances.
    instances: Option<usize> = "64" => limits_instances(usize) {}

    /// Log lines, 256 at most; the rest is dropped.
    log: Option<Bytes> = "4KiB" => limits_log(Bytes) {}

    /// Strings in one answer.
    strings: Option<Bytes> = "1MiB" => limits_strings(Bytes) {}

    /// Bytes moved by calls to the host.
    payload: Option<Bytes> = "16MiB" => limits_payload(Bytes) {}

    /// Size of the file.
    component: Option<Bytes> = "64MiB" => limits_component(Bytes) {}

    /// Limits of the compiler.
    compile: Option<CompileLimits> {
        row: "limits of the compiler, [below](#limitscompile)",
    }
}

table! {
    /// What the compiler may use.
    CompileLimits at "limits.compile", "a table of `time`, `cpu` and `memory`, such as { time = \"5m\", memory = \"2GiB\" }";

    /// Elapsed time; a version that takes longer is tried again.
    time: Option<Span> = "5m" => limits_compile_time(Duration) {}

    /// Processor time of all threads, in whole seconds.
    cpu: Option<Span> = "2m" => limits_compile_cpu(Duration) {}

    /// Memory; never more than three quarters of the container's limit (cgroup v1 or v2).
    memory: Option<Bytes> = "2GiB" => limits_compile_memory(Bytes) {
        shown: "2GiB; in Lambda at most three quarters of the function's memory",
    }
}
