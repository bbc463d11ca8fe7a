// What a policy is to know of an error that a function throws. The package `backstop-sqs` is built with this file too.

import { type Pairs, Writer } from './wire.js';

/** Marks errors whose code is the program's own: 1 for permanent ones, 2 for others. Registered, so that the packages know each other's errors. */
export const KIND: unique symbol = Symbol.for('backstop.kind');

/** An error that every further attempt would repeat. */
export class PermanentError extends Error {
  override name = 'PermanentError';
  /** @internal */
  readonly [KIND] = 1;

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
    .number(error[KIND as any] ?? 0)
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
