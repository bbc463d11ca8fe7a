// What a policy may import, for TypeScript. bindings/wit/policy.wit is the source of it.

declare module 'backstop:policy/payload@0.1.0' {
  /** The JSON text at an RFC 6901 pointer into the message that failed, as it stands there; none where the message is not JSON or has nothing there. */
  export function get(pointer: string): string | undefined;
}

declare module 'backstop:policy/default-classifier@0.1.0' {
  /** The host's own classification, for the errors that a policy has nothing of its own to say about: it knows the codes of AWS and of networks, and the HTTP statuses. */
  export function classify(error: import('./policy').Error): import('./policy').ErrorClass;
}

declare module 'backstop:policy/log@0.1.0' {
  /** One line in the host's log, which keeps at most 4 KiB and 256 lines for each decision. */
  export function log(level: 'debug' | 'info' | 'warn' | 'error', message: string): void;
}
