;; Plain exponential backoff, to compare policies with: min(cap, base * 2^(attempt - 1)), without any jitter.
;; The zeros of $base and $cap are replaced before it is loaded. A base of 0 means no backoff.
(module
  (global $base i64 (i64.const 0 (; base ;)))
  (global $cap i64 (i64.const 0 (; cap ;)))

  ;; Enough memory for the largest failure that a host passes. It is reused for each failure.
  (memory (export "memory") 40)
  (global $next (mut i32) (i32.const 1024))
  (func (export "cabi_realloc")
    (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
    (local $at i32)
    (local.set $at
      (i32.and
        (i32.add (global.get $next) (i32.sub (local.get $align) (i32.const 1)))
        (i32.sub (i32.const 0) (local.get $align))))
    (global.set $next (i32.add (local.get $at) (local.get $size)))
    (local.get $at))

  ;; delay: func(failure: failure, class: error-class) -> milliseconds
  (func (export "backstop:policy/backoff@0.1.0#delay") (param $failure i32) (result i32)
    (local $doublings i64)
    (local $delay i64)
    (global.set $next (i32.const 1024))
    ;; failure.attempt is at offset 16, after two strings. 32 doublings exceed every cap.
    (local.set $doublings
      (i64.sub (i64.extend_i32_u (i32.load offset=16 (local.get $failure))) (i64.const 1)))
    (if (i64.gt_u (local.get $doublings) (i64.const 32))
      (then (local.set $doublings (i64.const 32))))
    (local.set $delay (i64.shl (global.get $base) (local.get $doublings)))
    (i32.wrap_i64
      (select (local.get $delay) (global.get $cap)
        (i64.lt_u (local.get $delay) (global.get $cap))))))
