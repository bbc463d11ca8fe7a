// Workers: a function for each message of a queue, and the host that serves them.

import { type Attempt, Attempts } from './attempts.js';
import { startLog } from './log.js';
import type { Message } from './message.js';
import { type Native, native } from './native.js';
import type { QueueOptions } from './options.js';
import { camel, shown, snake, texts } from './texts.js';

export type { QueueOptions };

interface OwnOptions {
  /** The queue's URL, or `local:NAME` for a queue in memory. */
  queueUrl: string | URL;
  /** Bodies that fill a queue in memory; what is no text becomes JSON. The worker ends when the queue is empty. */
  messages?: readonly unknown[];
}

export interface WorkerOptions extends QueueOptions, OwnOptions {
  batch?: undefined;
  /** Is called with each message. When its promise fulfils, the message is deleted; when it rejects, the policy decides. */
  handle: (message: Message, attempt: Attempt) => unknown;
}

/** The messages of a batch that have failed: errors by id, or what Lambda calls a partial batch response. Nothing means that all have succeeded. */
export type BatchFailures = Map<string, unknown> | Record<string, unknown> | { batchItemFailures: { itemIdentifier: string }[] } | undefined | void;

export interface BatchWorkerOptions extends QueueOptions, OwnOptions {
  /** The most messages of one call. A batch is what is there, without a wait for more. */
  batch: number;
  handle: (messages: Message[], attempt: Attempt) => BatchFailures | PromiseLike<BatchFailures>;
}

/** What became of a queue's messages. */
export interface Counts {
  succeeded: number;
  retried: number;
  deadLettered: number;
}

export interface RunOptions {
  /** Stops the host, as SIGTERM does. */
  signal?: AbortSignal;
  /** Whether SIGTERM and SIGINT stop the host while it runs: yes. */
  signals?: boolean;
}

/** A worker of one queue. `worker` makes one. */
export class Worker {
  readonly queueUrl: string;
  /** The function of its options, for its tests. */
  readonly handle: (what: any, attempt: Attempt) => unknown;
  /** @internal */
  readonly batch: number | undefined;
  /** @internal */
  readonly parts: Native.Worker;
  /** @internal */
  running?: Running;

  /** @internal */
  constructor(options: WorkerOptions | BatchWorkerOptions) {
    if (typeof options !== 'object' || options === null) throw new TypeError(`worker: expected options such as { queueUrl, handle: async (message) => { … } }, not ${shown(options)}`);
    const { queueUrl, messages, handle, batch, ...others } = options as BatchWorkerOptions;
    if (typeof queueUrl !== 'string' && !(queueUrl instanceof URL)) throw new TypeError(`queueUrl: expected the queue's URL, such as 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders', not ${shown(queueUrl)}`);
    if (typeof handle !== 'function') throw new TypeError(`handle: expected a function, such as async (message) => { … }, not ${shown(handle)}`);
    if (batch !== undefined && !(Number.isInteger(batch) && batch > 0)) throw new TypeError(`batch: expected a whole number from 1, not ${shown(batch)}`);
    if (messages !== undefined && !Array.isArray(messages)) throw new TypeError(`messages: expected an array, not ${shown(messages)}`);
    this.queueUrl = String(queueUrl);
    this.handle = handle;
    this.batch = batch;
    const given = Object.entries(others).filter(([, value]) => value !== undefined && value !== null);
    this.parts = {
      url: this.queueUrl,
      options: given.map(([name, value]) => ({ name: snake(name), texts: texts(name, value) })),
      messages: messages?.map(body),
    };
    // What is wrong is said where the worker is made, and not where it runs.
    host([this.parts]);
  }

  /** Serves the queue until SIGTERM, SIGINT, `stop` or the signal, then lets what is under way finish. */
  async run(options?: RunOptions): Promise<Counts> {
    const counts = await run([this], options);
    return Object.values(counts)[0]!;
  }

  /** Stops it, as SIGTERM does: what is under way is finished first. */
  stop(): void {
    this.running?.stop();
  }
}

/** Makes a worker: a function that is called with each message of a queue.
 *
 *     const orders = worker({
 *       queueUrl: 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders',
 *       policy: 'orders.wasm',
 *       settings: { base: '2s' },
 *       handle: async (message) => { … },
 *     });
 *     await orders.run();
 *
 * The other options are the keys of a queue in `backstop.toml`, with capitals for dashes. Times are texts such as `'30s'`.
 */
export function worker(options: WorkerOptions): Worker;
export function worker(options: BatchWorkerOptions): Worker;
export function worker(options: WorkerOptions | BatchWorkerOptions): Worker {
  return new Worker(options);
}

/** Serves the queues of these workers in one host, until SIGTERM, SIGINT or the signal. Resolves with the counts by the queue's name; rejects if the host can't start. */
export async function run(workers: readonly Worker[], options: RunOptions = {}): Promise<Record<string, Counts>> {
  if (!Array.isArray(workers) || workers.length === 0 || !workers.every((it) => it instanceof Worker)) throw new TypeError(`run: expected an array of workers, such as run([orders, bills]), not ${shown(workers)}`);
  const { signal, signals = true } = options;
  for (const it of workers) if (it.running) throw new Error(`run: ${it.queueUrl} is served already`);
  if (signal?.aborted) return Object.fromEntries(workers.map((it) => [it.queueUrl, { succeeded: 0, retried: 0, deadLettered: 0 }]));
  const running = new Running(workers);
  const stop = () => running.stop();
  const onSignal = () => {
    // A second one ends the program.
    for (const name of SIGNALS) process.off(name, onSignal);
    stop();
  };
  if (signals) for (const name of SIGNALS) process.on(name, onSignal);
  signal?.addEventListener('abort', stop);
  try {
    return await running.ended;
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
    signal?.removeEventListener('abort', stop);
  }
}

const SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** A host that runs, with what makes the attempts of its workers. */
class Running {
  readonly ended: Promise<Record<string, Counts>>;
  private readonly host: Native.Host;

  constructor(workers: readonly Worker[]) {
    startLog();
    this.host = host(workers.map((it) => it.parts));
    const attempts = workers.map((it, number) => new Attempts(this.host, number, it.handle, it.batch));
    this.ended = new Promise<void>((resolve, reject) => {
      try {
        this.host.start((number) => attempts[number]!.take(), resolve);
      } catch (error) {
        reject(error);
      }
    })
      // The log's last lines come first.
      .then(() => new Promise(setImmediate))
      .then(() => this.result())
      .finally(() => {
        for (const it of workers) it.running = undefined;
      });
    for (const it of workers) it.running = this;
  }

  stop(): void {
    this.host.stop();
  }

  private result(): Record<string, Counts> {
    try {
      return Object.fromEntries(this.host.result().map(({ name, ...counts }) => [name, counts]));
    } catch (error) {
      throw new Error(camel((error as Error).message));
    }
  }
}

function host(workers: Native.Worker[]): Native.Host {
  const { Host } = native();
  try {
    return new Host(workers);
  } catch (error) {
    throw new TypeError(camel((error as Error).message));
  }
}

function body(message: unknown): string {
  const text = typeof message === 'string' ? message : JSON.stringify(message);
  if (text === undefined) throw new TypeError(`messages: ${shown(message)} is no text, and has no JSON`);
  return text;
}
