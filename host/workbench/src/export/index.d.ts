/** What kind of failure an error is: one of the three, or a class of the policy's own. */
export type ErrorClass = { tag: 'transient' } | { tag: 'throttled' } | { tag: 'permanent' } | { tag: 'other'; val: string };

/** What becomes of the work. */
export type Verdict = { tag: 'retry' } | { tag: 'dead-letter'; val: string } | { tag: 'discard'; val: string };

/** One failed attempt, as the contract `backstop:policy@0.1.0` has it. Durations are whole milliseconds. */
export interface Failure {
  messageId: string;
  source: string;
  /** The attempts so far, with the one that failed: 1 after the first. */
  attempt: number;
  age: number;
  /** Milliseconds since 1970. */
  failedAt: number;
  previousDelay?: number;
  error: { code: string; message: string; status?: number; retryAfter?: number; details: [string, string][] };
  attributes: [string, string][];
  /** In [0, 1): the only randomness that the policy has. */
  random: number;
}

export interface Answer {
  class: ErrorClass;
  verdict: Verdict;
  /** Milliseconds, with the verdict `retry`. */
  delay?: number;
  /** How long what is behind the failure is down, if the policy says so: milliseconds. */
  downFor?: number;
}

export interface LogLine {
  level: string;
  message: string;
}

/** An answer, or how the policy broke. */
export type Evaluation =
  | { answer: Answer; broken?: undefined; log: LogLine[] }
  | { answer?: undefined; broken: { kind: 'trapped' | 'rejected-settings' | 'no-settings'; text: string }; log: LogLine[] };

export interface EvaluateOptions {
  /** Settings by name, as text. */
  settings?: Record<string, string>;
  /** The JSON text at a JSON pointer of the message's body. Without it, there is no body. */
  payload?: (pointer: string) => string | undefined;
  /** Keep the instance for the next evaluation with the same settings object. A policy that keeps state between two answers then answers by it, which no host of Backstop does. */
  live?: boolean;
}

export interface LoadedPolicy {
  /** Evaluates the policy for one failure. Never throws because of the policy. */
  evaluate(failure: Failure, options?: EvaluateOptions): Evaluation;
}

/** A policy of Backstop as a JavaScript module. `backstop-retry` takes it as its `policy`. */
export interface Policy {
  readonly name: string;
  readonly version: string;
  /** The SHA-256 digest of the file that it was exported from: the one of logs and decision records. */
  readonly digest: string;
  /** The address of the module, from which a worker imports it. */
  readonly url: string;
  /** Whether it keeps no state, so that an instance may decide twice. */
  readonly pure: boolean;
  /** Compiles its modules, once. */
  load(): Promise<LoadedPolicy>;
}

declare const policy: Policy;
export default policy;
