// The imports of a policy, for TypeScript. They follow bindings/wit/policy.wit.

declare module 'backstop:policy/payload@0.1.0' {
  /** The JSON text at an RFC 6901 pointer in the failed message's body, unchanged, except that half of a surrogate pair becomes `\ufffd`. Undefined if the body is not JSON or has no value there. */
  export function get(pointer: string): string | undefined;
}

declare module 'backstop:policy/default-classifier@0.1.0' {
  /** The host's classification, for errors that a policy has no rule for. It knows the error codes of AWS and of networks, and the HTTP statuses. */
  export function classify(error: import('./policy').Error): import('./policy').ErrorClass;
}

declare module 'backstop:policy/log@0.1.0' {
  /** Writes one line to the host's log. At most 4 KiB and 256 lines are kept for each decision. */
  export function log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void;
}
