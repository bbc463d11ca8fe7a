;; A policy written by hand, without a toolchain: waits two seconds more after each attempt.
;; It exports one interface, `backoff`; the host has its defaults for the others.
;; Change the 2000 below while Backstop runs, and save: the next failure is decided by the new rule.
(module
  ;; Room for the largest failure that the host can tell of.
  (memory (export "memory") 40)

  ;; Where the host asks for room to put the failure's strings: one piece after the other.
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
    (local $attempt i32)
    ;; failure.attempt stands 16 bytes in, behind two strings.
    (local.set $attempt (i32.load offset=16 (local.get $failure)))
    ;; From the hundredth attempt on the wait grows no more.
    (if (i32.gt_u (local.get $attempt) (i32.const 100)) (then (local.set $attempt (i32.const 100))))
    (i32.mul (local.get $attempt) (i32.const 2000))))
