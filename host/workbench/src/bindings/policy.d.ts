// The contract between Backstop and a policy, for TypeScript. It follows bindings/wit/policy.wit.

/** A duration in whole milliseconds, up to 49 days. */
export type Milliseconds = number;

/** A point in time: milliseconds since 1970-01-01T00:00:00Z, as in Date. */
export type Timestamp = number;

/** The error of one attempt. */
export interface Error {
  /** The error's type or code as its source reports it, for example `ThrottlingException`, `Sandbox.Timedout`, `ECONNRESET`, `HTTP 503`, `exit 3`. The host cuts it at 4 KiB. */
  code: string;
  /** The error's message. The host cuts it at 4 KiB. */
  message: string;
  /** The HTTP status, if the source has one. */
  status?: number;
  /** The delay that the failing service asked for (`Retry-After`, `x-amz-retry-after`). */
  retryAfter?: Milliseconds;
  /** Other details from the source, by name: the headers of an HTTP response (names in lower case), the `requestId` of a function. At most 4 KiB in total; the host omits the largest. */
  details: Array<[string, string]>;
}

/** What kind of failure an error is. `other` is a class of the policy's own, with a name of 1 to 128 bytes. */
export type ErrorClass = { tag: 'transient' } | { tag: 'throttled' } | { tag: 'permanent' } | { tag: 'other'; val: string };

/** One failed attempt of one message. */
export interface Failure {
  /** Identifies the message in all its attempts. At most 128 bytes. */
  messageId: string;
  /** The ARN of the message's queue or function, or `local:NAME` for a queue in the host's memory. */
  source: string;
  /** The number of attempts so far, including the one that failed: 1 after the first. */
  attempt: number;
  /** The time from when the message was first sent to this failure. */
  age: Milliseconds;
  /** When this attempt failed. A policy has no clock; this and `age` are the only times that it gets. */
  failedAt: Timestamp;
  /** The delay before the attempt that failed. Undefined after the first attempt, and if the host does not know it. */
  previousDelay?: Milliseconds;
  /** The error. */
  error: Error;
  /** The message's attributes as text (binary ones in base64), in no particular order. At most 16 KiB in total; the host omits the largest. */
  attributes: Array<[string, string]>;
  /** A uniformly distributed random number in [0, 1): the only source of randomness of a policy. */
  random: number;
}

/** What to do with the message. `dead-letter` and `discard` need a reason that is not empty. */
export type Verdict = { tag: 'retry' } | { tag: 'dead-letter'; val: string } | { tag: 'discard'; val: string };

/** `export const settings: Settings`: receives the operator's settings. Default: rejects any setting. */
export interface Settings {
  /** Called once, before any other function. Throw a string to reject the settings; the operator sees it. */
  configure(settings: Array<[string, string]>): void;
}

/** `export const classifier: Classifier`: classifies an error. Default: the host's table. */
export interface Classifier {
  classify(error: Error): ErrorClass;
}

/** `export const backoff: Backoff`: computes the delay. Default: exponential with full jitter, base 1 s, cap 12 h. */
export interface Backoff {
  /** Called only if the verdict is `retry`. At most 14 days. */
  delay(failure: Failure, errorClass: ErrorClass): Milliseconds;
}

/** `export const deadLettering: DeadLettering`: decides whether the message is retried. Default: dead-letters permanent errors and retries others. */
export interface DeadLettering {
  judge(failure: Failure, errorClass: ErrorClass): Verdict;
}

/** `export const outage: Outage`: says that what is behind a message is down. Default: says nothing. */
export interface Outage {
  /** Called last for each failure: how long, from this failure, no attempt at the same thing is worthwhile. Undefined and 0 say nothing. At most 14 days. */
  downFor(failure: Failure, errorClass: ErrorClass): Milliseconds | undefined;
}
