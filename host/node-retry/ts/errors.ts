// How a call ends without success.

import type { Decision } from './decision.js';
import { type FailureError, readError } from './policy.js';
import type { Reader } from './wire.js';

/** How a call ended without success. */
export type End = 'deadline-exceeded' | 'budget-exhausted' | 'breaker-open' | 'bulkhead-full' | 'permanent' | 'gave-up';

/** A call that ended without success. Its cause is the last error of the function. */
export class RetryError extends Error {
  readonly end: End;
  /** The attempts that were made, with one that was cut short. */
  readonly attempts: number;
  /** Milliseconds until the deadline, if there is one. */
  readonly timeLeft?: number;
  /** The breaker or the bulkhead that refused the attempt. */
  readonly refusedBy?: string;
  /** Milliseconds until the next probe of that breaker. */
  readonly nextProbe?: number;
  /** The last failure, as the policy saw it. */
  readonly failure?: FailureError;
  /** The decision about it. */
  readonly decision?: Decision;

  constructor(reader: Reader, cause: unknown) {
    const end = reader.text() as End;
    super(reader.text(), { cause });
    this.end = end;
    // DeadlineExceeded, BudgetExhausted, BreakerOpen, BulkheadFull, Permanent, GaveUp
    this.name = end.replace(/(^|-)(.)/g, (_, __, letter: string) => letter.toUpperCase());
    this.attempts = reader.number();
    this.timeLeft = reader.optional();
    this.refusedBy = reader.text() || undefined;
    this.nextProbe = reader.optional();
    if (reader.number()) this.failure = readError(reader);
    if (reader.number()) this.decision = readDecision(reader);
  }

  /** The code of the last failure, such as `ThrottlingException` or `HTTP 503`. Without a failure, it is `Timeout` if the deadline had passed, or `BreakerOpen` or `BulkheadFull` with the status 503. */
  get code(): string {
    return this.failure?.code ?? (this.end === 'deadline-exceeded' ? 'Timeout' : this.name);
  }

  get status(): number | undefined {
    return this.failure || this.end === 'deadline-exceeded' ? this.failure?.status : 503;
  }

  /** The time that the last failure asked for, or until the breaker's next probe, whichever is longer. */
  get retryAfter(): number | undefined {
    return Math.max(this.failure?.retryAfter ?? 0, this.nextProbe ?? 0) || (this.failure?.retryAfter ?? this.nextProbe);
  }
}

export function readDecision(reader: Reader): Decision {
  const decision = {
    class: reader.text(),
    verdict: reader.text(),
    delay: reader.optional(),
    reason: reader.text() || undefined,
    by: reader.text(),
    wanted: reader.optional(),
    cause: reader.text() || undefined,
    downFor: reader.optional(),
  };
  return decision as Decision;
}
