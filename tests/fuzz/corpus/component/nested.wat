(component
  (import "backstop:policy/log@0.1.0" (instance $log
    (type $l (enum "debug" "info" "warn" "error"))
    (export "level" (type $level (eq $l)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (import "wasi:clocks/wall-clock@0.2.6" (instance $clock
    (type $d (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type $datetime (eq $d)))
    (export "now" (func (result $datetime)))))
  (core module $memory (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 64)))
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (alias core export $m "realloc" (core func $realloc))
  (core func $say (canon lower (func $log "log") (memory $mem)))
  (core func $now (canon lower (func $clock "now") (memory $mem)))
  (core module $main
    (import "log" "log" (func (param i32 i32 i32)))
    (import "clock" "now" (func (param i32)))
    (table 2 funcref) (elem (i32.const 0) 0 1)
    (global (mut i32) (i32.const 7))
    (func (export "configure") (param i32 i32) (result i32) (local i64)
      (block (loop (br_table 0 1 (local.get 0)))) (call 1 (i32.const 8)) (i32.const 0)))
  (core instance $core (instantiate $main
    (with "log" (instance (export "log" (func $say))))
    (with "clock" (instance (export "now" (func $now))))))
  (type $configure (func (param "settings" (list (tuple string string))) (result (result (error string)))))
  (func $lifted (type $configure) (canon lift (core func $core "configure") (memory $mem) (realloc $realloc)))
  (component $shim
    (type $f (func (param "settings" (list (tuple string string))) (result (result (error string)))))
    (import "configure" (func $in (type $f)))
    (export "configure" (func $in)))
  (instance $exported (instantiate $shim (with "configure" (func $lifted))))
  (export "backstop:policy/settings@0.1.0" (instance $exported)))