;; What a module built for WASI preview 1 (Go, C) gets in place of WASI: stdout and stderr go to the host's log line by line, the clock moves by what is slept and a sleep is over at once, and there is no environment, no file and no true randomness. Functions that are not here answer "not supported". PAGE and WHOLE are put in by component.rs.
(module
  (import "env" "memory" (memory 0))
  (import "backstop:policy/log@0.1.0" "log" (func $log (param i32 i32 i32)))
  (import "wasi:clocks/wall-clock@0.2.6" "now" (func $wall_clock (param i32)))

  ;; Where the line under way is, at most 4 KiB of it. 0: nowhere yet, a page of memory is taken when it is first needed.
  (global $page (mut i32) (i32.const PAGE))
  (global $length (mut i32) (i32.const 0))
  ;; 1 where each write to stderr is said at once, newline or not: where nothing is written in pieces.
  (global $whole i32 (i32.const WHOLE))
  ;; In nanoseconds. Go takes 0 for a broken clock.
  (global $now (mut i64) (i64.const 1))

  (func $say
    (if (global.get $length) (then
      (call $log (i32.const 3) (global.get $page) (global.get $length))
      (global.set $length (i32.const 0)))))

  ;; The page, taken now if it was not; 0 where there is none to be had.
  (func $paged (result i32)
    (local $new i32)
    (if (i32.eqz (global.get $page)) (then
      (local.set $new (memory.grow (i32.const 1)))
      (if (i32.eq (local.get $new) (i32.const -1)) (then (return (i32.const 0))))
      (global.set $page (i32.shl (local.get $new) (i32.const 16)))))
    (global.get $page))

  (func $put (param $byte i32)
    (if (i32.eqz (call $paged)) (then (return)))
    (if (i32.eq (local.get $byte) (i32.const 10)) (then (call $say) (return)))
    (i32.store8 (i32.add (global.get $page) (global.get $length)) (local.get $byte))
    (global.set $length (i32.add (global.get $length) (i32.const 1)))
    (if (i32.eq (global.get $length) (i32.const 4096)) (then (call $say))))

  (func (export "fd_write") (param $fd i32) (param $vectors i32) (param $count i32) (param $written i32) (result i32)
    (local $at i32) (local $end i32) (local $sum i32)
    ;; Only stdout and stderr: EBADF.
    (if (i32.gt_u (i32.sub (local.get $fd) (i32.const 1)) (i32.const 1)) (then (return (i32.const 8))))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $at (i32.load (local.get $vectors)))
      (local.set $end (i32.add (local.get $at) (i32.load offset=4 (local.get $vectors))))
      (local.set $sum (i32.add (local.get $sum) (i32.load offset=4 (local.get $vectors))))
      (block $empty (loop $byte
        (br_if $empty (i32.ge_u (local.get $at) (local.get $end)))
        (call $put (i32.load8_u (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $byte)))
      (local.set $vectors (i32.add (local.get $vectors) (i32.const 8)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (if (i32.and (i32.eq (local.get $fd) (i32.const 2)) (global.get $whole)) (then (call $say)))
    (i32.store (local.get $written) (local.get $sum))
    (i32.const 0))

  ;; stdin, stdout and stderr are character devices with every right; EBADF else.
  (func (export "fd_fdstat_get") (param $fd i32) (param $into i32) (result i32)
    (if (i32.gt_u (local.get $fd) (i32.const 2)) (then (return (i32.const 8))))
    (i64.store (local.get $into) (i64.const 2))
    (i64.store offset=8 (local.get $into) (i64.const -1))
    (i64.store offset=16 (local.get $into) (i64.const -1))
    (i32.const 0))

  ;; No folder is open.
  (func (export "fd_prestat_get") (param i32 i32) (result i32) (i32.const 8))
  (func (export "fd_close") (param i32) (result i32) (i32.const 0))
  ;; A stream has no place to seek: ESPIPE.
  (func (export "fd_seek") (param i32 i64 i32 i32) (result i32) (i32.const 70))
  ;; The end of the file.
  (func (export "fd_read") (param $fd i32) (param $vectors i32) (param $count i32) (param $read i32) (result i32)
    (i32.store (local.get $read) (i32.const 0))
    (i32.const 0))

  (func (export "args_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "args_get") (param i32 i32) (result i32) (i32.const 0))
  (func (export "environ_sizes_get") (param $count i32) (param $bytes i32) (result i32)
    (i32.store (local.get $count) (i32.const 0))
    (i32.store (local.get $bytes) (i32.const 0))
    (i32.const 0))
  (func (export "environ_get") (param i32 i32) (result i32) (i32.const 0))

  ;; The host notes who wants to know what time it is; its answer, behind the line, is not looked at. Go's runtime reads the monotonic clock all the time.
  (func (export "clock_time_get") (param $clock i32) (param $precision i64) (param $into i32) (result i32)
    (if (i32.eqz (local.get $clock)) (then
      (if (call $paged) (then (call $wall_clock (i32.add (global.get $page) (i32.const 4096)))))))
    (i64.store (local.get $into) (global.get $now))
    (i32.const 0))
  (func (export "clock_res_get") (param $clock i32) (param $into i32) (result i32)
    (i64.store (local.get $into) (i64.const 1))
    (i32.const 0))

  ;; The same bytes every time: what a policy knows of chance is failure.random.
  (func (export "random_get") (param $at i32) (param $length i32) (result i32)
    (local $end i32)
    (local.set $end (i32.add (local.get $at) (local.get $length)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (i32.store8 (local.get $at) (i32.xor (local.get $at) (i32.const 0x5a)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next)))
    (i32.const 0))

  ;; Moves the clock to when this subscription, if it is one to a clock, comes due: the tag at 8, the timeout at 24, whether it is a point in time at 40.
  (func $pass (param $in i32)
    (local $due i64)
    (if (i32.load8_u offset=8 (local.get $in)) (then (return)))
    (local.set $due (i64.load offset=24 (local.get $in)))
    (if (i32.eqz (i32.and (i32.load16_u offset=40 (local.get $in)) (i32.const 1))) (then
      (local.set $due (i64.add (local.get $due) (global.get $now)))))
    (if (i64.gt_u (local.get $due) (global.get $now)) (then (global.set $now (local.get $due)))))

  ;; Every subscription has come about: its user data, no error, its kind.
  (func (export "poll_oneoff") (param $in i32) (param $out i32) (param $count i32) (param $events i32) (result i32)
    (i32.store (local.get $events) (local.get $count))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (call $pass (local.get $in))
      (i64.store (local.get $out) (i64.load (local.get $in)))
      (i64.store offset=8 (local.get $out) (i64.shl (i64.load8_u offset=8 (local.get $in)) (i64.const 16)))
      (i64.store offset=16 (local.get $out) (i64.const 0))
      (i64.store offset=24 (local.get $out) (i64.const 0))
      (local.set $in (i32.add (local.get $in) (i32.const 48)))
      (local.set $out (i32.add (local.get $out) (i32.const 32)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next)))
    (i32.const 0))
  (func (export "sched_yield") (result i32) (i32.const 0))

  ;; What was said before the end is kept.
  (func (export "proc_exit") (param i32) (call $say) (unreachable))

  ;; Go's bindings stop the clock while they collect garbage. Here it moves by sleep alone.
  (func (export "adapter_monotonic_clock_set_paused") (param i32))
