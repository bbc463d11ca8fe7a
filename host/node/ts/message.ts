// A message of a queue, as a handler receives it.

import { permanent } from '../../node-retry/ts/failures.js';
import type { Native } from './native.js';

/** A message of a queue. */
export class Message {
  /** The id that SQS gave it when it was sent; the same at every receive. */
  readonly id: string;
  /** The body, as its sender wrote it. */
  readonly body: string;
  /** The sender's attributes by name: texts and numbers as text, binary ones as bytes. */
  readonly attributes: Readonly<Record<string, string | Uint8Array>>;
  /** How often it has been received, this time included. */
  readonly receiveCount: number;
  /** When it was sent. */
  readonly sent: Date;
  /** The message group, on a FIFO queue. */
  readonly groupId?: string;
  /** The deduplication id, on a FIFO queue. */
  readonly deduplicationId?: string;
  /** Who has sent it, if SQS says so. */
  readonly senderId?: string;
  /** The trace that it belongs to, for X-Ray. */
  readonly traceHeader?: string;

  /** @internal */
  constructor(taken: Native.Taken) {
    this.id = taken.id;
    this.body = taken.body;
    // A name such as `__proto__` is the sender's choice, and a name like any other.
    this.attributes = taken.attributes.length ? Object.assign(Object.create(null), Object.fromEntries(taken.attributes.map(({ name, value }) => [name, value]))) : NONE;
    this.receiveCount = taken.receiveCount;
    this.sent = new Date(taken.sent);
    this.groupId = taken.groupId ?? undefined;
    this.deduplicationId = taken.deduplicationId ?? undefined;
    this.senderId = taken.senderId ?? undefined;
    this.traceHeader = taken.traceHeader ?? undefined;
  }

  /** The body as JSON. One that is none is a permanent failure with the code `Decode`. */
  json<T = any>(): T {
    try {
      return JSON.parse(this.body) as T;
    } catch (error) {
      throw permanent('Decode', `the body is no JSON: ${(error as Error).message}`);
    }
  }
}

const NONE: Readonly<Record<string, string | Uint8Array>> = Object.freeze(Object.create(null));
