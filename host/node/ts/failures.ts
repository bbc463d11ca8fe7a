// What an error says about an attempt: errors of a worker, and how the addon receives them.

import { KIND, writeFound } from '../../node-retry/ts/failures.js';
import { type Native, native } from './native.js';

// The crates cut it again: a policy receives 4 KiB of details.
const STACK = 2048;

/** What is called has said when it wants to be called again. Its status is 429. */
export class RetryAfterError extends Error {
  override name = 'RetryAfterError';
  /** @internal */
  readonly [KIND] = 2;
  readonly status = 429;

  constructor(
    /** Milliseconds. */
    readonly retryAfter: number,
    readonly code: string,
    message?: string,
  ) {
    super(message ?? code);
  }
}

/** An error after which the next attempt is not made before this time: `throw retryAfter('30s', 'CarrierBusy')`. */
export function retryAfter(time: string | number, code = 'RetryAfter', message?: string): RetryAfterError {
  return new RetryAfterError(typeof time === 'number' ? time : native().milliseconds('retryAfter', time), code, message);
}

/** The worker itself is not ready, and has not seen the message. */
export class UnavailableError extends Error {
  override name = 'UnavailableError';

  constructor(
    readonly code: string,
    message?: string,
  ) {
    super(message ?? code);
  }
}

/** An error that says that the worker is not ready: no attempt is counted, and the host receives nothing more until an attempt succeeds again. */
export const unavailable = (code = 'Unavailable', message?: string): UnavailableError => new UnavailableError(code, message);

/** Reports how an attempt has failed. An error that can't be read is a failure too: no message is lost to it. */
export function fail(host: Native.Host, worker: number, job: number, thrown: unknown): void {
  try {
    if (thrown instanceof UnavailableError) return host.unavailable(worker, job, String(thrown.code), String(thrown.message));
    const stack = (thrown as { stack?: unknown } | undefined)?.stack;
    host.failed(worker, job, writeFound(thrown).done(), typeof stack === 'string' ? stack.slice(0, STACK) : undefined);
  } catch (why) {
    host.failed(worker, job, writeFound(new Error(`the error can't be read: ${why instanceof Error ? why.message : typeof why}`)).done());
  }
}
