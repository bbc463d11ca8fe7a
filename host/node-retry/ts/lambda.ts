// In a Lambda function: the envelope of Backstop's retry handler, and the function's remaining time as the deadline.

import { type Core, core, shown } from './core.js';
import { RetryError } from './errors.js';

/** What is used of a function's context. */
export interface LambdaContext {
  awsRequestId: string;
  getRemainingTimeInMillis(): number;
}

/** Which attempt at an event this is. */
export interface EventAttempt {
  /** From 1. */
  attempt: number;
  /** When the first attempt failed. Undefined on the first attempt. */
  firstSeen?: Date;
  /** The same for every attempt at an event. */
  id: string;
}

function opened(core: Core, event: any, context: LambdaContext): [payload: any, retry: EventAttempt] {
  const own: [any, EventAttempt] = [event, { attempt: 1, id: context.awsRequestId }];
  if (typeof event !== 'object' || event === null || Array.isArray(event)) return own;
  const { _retry_metadata: metadata, _original_payload: payload } = event;
  if (Object.keys(event).length !== 2 || !Object.hasOwn(event, '_original_payload') || typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return own;
  const number = (value: unknown) => (typeof value === 'number' ? value : Number.NaN);
  core.passText(typeof metadata.id === 'string' ? metadata.id : '');
  const length = core.exports.envelope(number(metadata.attempt), number(metadata.initial_timestamp));
  if (length < 0) return own;
  const reader = core.read(length);
  const attempt = reader.number();
  const firstSeen = new Date(1000 * reader.number());
  return [payload, { attempt, firstSeen, id: reader.number() ? metadata.id : context.awsRequestId }];
}

/** The payload as it was first sent, and which attempt at it this is. An event without an envelope is its own payload. */
export async function unwrap<E = any>(event: unknown, context: LambdaContext): Promise<[payload: E, retry: EventAttempt]> {
  return opened(await core(), event, context);
}

/** When calls are to end, so that the function can report an error before Lambda ends it: this many milliseconds before that. */
export function deadline(context: LambdaContext, margin = 500): Date {
  if (typeof context?.getRemainingTimeInMillis !== 'function') throw new TypeError(`deadline: expected the context of the function, not ${shown(context)}`);
  if (typeof margin !== 'number') throw new TypeError(`margin: expected a number of milliseconds, not ${shown(margin)}`);
  return new Date(Date.now() + context.getRemainingTimeInMillis() - margin);
}

/** The handler of a function: it gets the payload, and what it needs to retry its own calls. A call that ended with a `RetryError` fails the function with the code of its last failure, by which the retry handler's policy decides. */
export function handler<E = any, R = unknown>(
  work: (payload: E, retry: EventAttempt & { deadline: Date; context: LambdaContext }) => Promise<R> | R,
  options: { margin?: number } = {},
): (event: unknown, context: LambdaContext) => Promise<R> {
  if (typeof work !== 'function') throw new TypeError(`handler: expected a function that gets the payload, not ${shown(work)}`);
  return async (event, context) => {
    const [payload, retry] = await unwrap<E>(event, context);
    try {
      return await work(payload, { ...retry, deadline: deadline(context, options.margin), context });
    } catch (error) {
      if (!(error instanceof RetryError)) throw error;
      // Lambda reports the name of an error as its type.
      throw Object.assign(new Error(error.message, { cause: error }), { name: error.code });
    }
  };
}
