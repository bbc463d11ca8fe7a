// The contract between Backstop and a policy, for TypeScript. bindings/wit/policy.wit is the source of it.

/** A span of time in whole milliseconds, up to 49 days. */
export type Milliseconds = number;

/** A point in time: milliseconds since 1970-01-01T00:00:00Z, as Date takes it. */
export type Timestamp = number;

/** What went wrong in one attempt. */
export interface Error {
  /** The error's type or code as its source reports it: `ThrottlingException`, `Sandbox.Timedout`, `ECONNRESET`, `HTTP 503`, `exit 3`. Cut at 4 KiB by the host. */
  code: string;
  /** The error's text, cut at 4 KiB by the host. */
  message: string;
  /** The HTTP status, where the source has one. */
  status?: number;
  /** How long the failing service asked to be left alone (`Retry-After`, `x-amz-retry-after`). */
  retryAfter?: Milliseconds;
  /** What else the source reports, by name: the headers of an HTTP answer (names in lower case), the `requestId` of a function. At most 4 KiB in all: the host leaves the largest out. */
  details: Array<[string, string]>;
}

/** What kind of failure an error is. `other` is a class of the policy's own, by a name of 1 to 128 bytes. */
export type ErrorClass = { tag: 'transient' } | { tag: 'throttled' } | { tag: 'permanent' } | { tag: 'other'; val: string };

/** One failed attempt of one message. */
export interface Failure {
  /** Identifies the message through all of its attempts. At most 128 bytes. */
  messageId: string;
  /** The ARN of the queue or the function that the message belongs to; `local:NAME` for a queue in the host's own memory. */
  source: string;
  /** How many attempts have been made, the one that failed included: 1 after the first. */
  attempt: number;
  /** From when the message was first sent to when this attempt failed. */
  age: Milliseconds;
  /** When this attempt failed. With `age`, the only time that a policy knows. */
  failedAt: Timestamp;
  /** The delay before the attempt that failed: none after the first, and none where the host does not know it. */
  previousDelay?: Milliseconds;
  /** Why it failed. */
  error: Error;
  /** The message's attributes, as text (a binary one in base64), in no order that means anything. At most 16 KiB in all: the host leaves the largest out. */
  attributes: Array<[string, string]>;
  /** A uniformly random number in [0, 1): the only randomness that a policy has. */
  random: number;
}

/** What becomes of the message. A dead letter and a discarded message need a reason that is not empty. */
export type Verdict = { tag: 'retry' } | { tag: 'dead-letter'; val: string } | { tag: 'discard'; val: string };

/** `export const settings: Settings`: takes what the operator sets. Default: any setting is refused. */
export interface Settings {
  /** Called once, before anything else. What is thrown refuses the settings: a string, that the operator reads. */
  configure(settings: Array<[string, string]>): void;
}

/** `export const classifier: Classifier`: says what kind of failure an error is. Default: the host's table. */
export interface Classifier {
  classify(error: Error): ErrorClass;
}

/** `export const backoff: Backoff`: says how long to wait. Default: exponential with full jitter, base 1 s, cap 12 h. */
export interface Backoff {
  /** Asked only when the verdict is to retry. At most 14 days. */
  delay(failure: Failure, errorClass: ErrorClass): Milliseconds;
}

/** `export const deadLettering: DeadLettering`: says whether there is a next attempt. Default: dead-letter what is permanent, retry the rest. */
export interface DeadLettering {
  judge(failure: Failure, errorClass: ErrorClass): Verdict;
}
