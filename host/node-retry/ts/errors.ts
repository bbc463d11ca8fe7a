// Errors: how a call ends, and what a policy is to know of one that a function throws.

import { type FailureError, readError } from './policy.js';
import { type Pairs, type Reader, Writer } from './wire.js';

/** How a call ended without success. */
export type End = 'deadline-exceeded' | 'budget-exhausted' | 'breaker-open' | 'bulkhead-full' | 'permanent' | 'gave-up';

/** What was decided about a failed attempt. */
export interface Decision {
  /** `transient`, `throttled`, `permanent`, or the policy's own name after `other:`. */
  class: string;
  verdict: 'retry' | 'dead-letter' | 'discard';
  /** Milliseconds, with the verdict `retry`. */
  delay?: number;
  reason?: string;
  by: 'policy' | 'shortened' | 'bound' | 'fallback';
  /** The delay before it was shortened. */
  wanted?: number;
  /** Which bound, or how the policy broke. */
  cause?: string;
  downFor?: number;
}

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

/** An error that every further attempt would repeat. */
export class PermanentError extends Error {
  override name = 'PermanentError';

  constructor(
    readonly code: string,
    message?: string,
    options?: ErrorOptions,
  ) {
    super(message ?? code, options);
  }
}

/** An error that ends the call with `permanent`, whatever its policy: `throw permanent('CardDeclined', 'the bank says no')`. Of an error, its code or its name. */
export function permanent(error: string | Error, message?: string): PermanentError {
  if (typeof error === 'string') return new PermanentError(error, message);
  const { code } = error as { code?: unknown };
  return new PermanentError(typeof code === 'string' ? code : error.name, message ?? error.message, { cause: error });
}

/** A response with an error status. */
export class HttpError extends Error {
  override name = 'HttpError';
  readonly status: number;

  constructor(readonly response: Response) {
    super(`HTTP ${response.status}`);
    this.status = response.status;
  }
}

/** The response, or an error with its status and headers if the status is 400 or above. */
export function success(response: Response): Response {
  if (response.status >= 400) throw new HttpError(response);
  return response;
}

type Found = Record<string, any>;

/** Whether a value is one of a web interface. Its class is not named, since Node loads fetch for that, which takes longer than all the rest. */
const is = (value: unknown, kind: string): boolean => Object.prototype.toString.call(value) === `[object ${kind}]`;

const text = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The errors from this one to its first cause, and those of attempts at several addresses. */
function chain(error: Found): Found[] {
  const found: Found[] = [];
  for (let next: any = error; next && typeof next === 'object' && found.length < 8; next = next.cause ?? next.errors?.[0]) found.push(next);
  return found;
}

/** What is known of an error: the rules that make a code and a status of it are in the module. */
export function writeFound(thrown: unknown): Writer {
  const error: Found = typeof thrown === 'object' && thrown !== null ? thrown : { message: String(thrown) };
  const { $metadata: metadata, $retryable: retryable } = error;
  const response: Found = is(error, 'Response') ? error : (error.response ?? error.$response ?? {});
  const codes = chain(error).map((it) => text(it.code)).filter(Boolean);
  const number = (...values: unknown[]) => values.find((value) => typeof value === 'number') as number | undefined;
  const hint = error.retryAfterHint instanceof Date ? Math.max(0, error.retryAfterHint.getTime() - Date.now()) : undefined;
  return new Writer()
    .number(error instanceof PermanentError)
    .text(text(error.code))
    .pairs(codes.map((code) => [code, '']))
    .text(is(error, 'Response') ? '' : text(error.name))
    .text(text(error.message))
    .number(number(metadata?.httpStatusCode, error.status, error.statusCode, response.status, response.statusCode))
    .number(number(error.retryAfter, hint))
    .number(Boolean(retryable))
    .number(Boolean(retryable?.throttling))
    .pairs([...headers(response.headers ?? error.headers), ...(metadata?.requestId ? [['requestId', String(metadata.requestId)] as [string, string]] : [])]);
}

function headers(found: unknown): Pairs {
  if (!found || typeof found !== 'object') return [];
  const entries = is(found, 'Headers') ? [...(found as Headers)] : Object.entries(found);
  return entries.filter(([, value]) => ['string', 'number'].includes(typeof value)).map(([name, value]) => [name.toLowerCase(), String(value)]);
}
