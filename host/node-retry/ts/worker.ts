// A policy in a worker, which is ended when the policy takes too long.

import type { Evaluate, Evaluation, Failure, Policy } from './policy.js';

/** The longest that the policy's module may take to load, in milliseconds. */
const LOADING = 10_000;

/** What runs in the worker: it has no file of its own, so that bundlers need not find it. */
const SERVE = `async (data, post, on) => {
  const { default: found } = await import(data.url);
  const policy = found.default ?? found;
  const loaded = await policy.load();
  on(({ id, failure }) => post({ id, evaluation: loaded.evaluate(failure, data) }));
  post({});
}`;

interface Port {
  post(message: unknown): void;
  end(): void;
  /** Whether it keeps the program alive. */
  holds(is: boolean): void;
}

type Receive = (message?: { id?: number; evaluation?: Evaluation }, error?: Error) => void;

async function start(data: object, receive: Receive): Promise<Port> {
  if (globalThis.process?.versions?.node) {
    const { Worker } = await import(/* webpackIgnore: true */ /* @vite-ignore */ 'node:worker_threads');
    const code = `const { parentPort: port, workerData } = require('node:worker_threads');
      (${SERVE})(workerData, (it) => port.postMessage(it), (done) => port.on('message', done)).catch((error) => { throw error; });`;
    const worker = new Worker(code, { eval: true, workerData: data, env: {}, stdin: false });
    worker.on('message', receive);
    worker.on('error', (error: Error) => receive(undefined, error));
    return { post: (it) => worker.postMessage(it), end: () => void worker.terminate(), holds: (is) => (is ? worker.ref() : worker.unref()) };
  }
  const code = `onmessage = ({ data }) => (${SERVE})(data, (it) => postMessage(it), (done) => { onmessage = (it) => done(it.data); });`;
  const worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })), { type: 'module' });
  worker.onmessage = ({ data: message }) => receive(message);
  worker.onerror = ({ message }) => receive(undefined, new Error(message));
  worker.postMessage(data);
  return { post: (it) => worker.postMessage(it), end: () => worker.terminate(), holds: () => {} };
}

/** Evaluates the policy in a worker. One that takes longer than the limit is ended, and the next evaluation starts another. */
export async function inWorker(policy: Policy, settings: Record<string, string>, live: boolean, limit: number): Promise<Evaluate> {
  const broken = (kind: string, text: string): Evaluation => ({ broken: { kind, text: `the policy ${text}` }, log: [] });
  let next = 0;
  let running: Promise<Port> | undefined;
  const waiting = new Map<number, (evaluation: Evaluation) => void>();

  /** Ends the worker: whoever waits for it hears why. */
  const fail = (evaluation: Evaluation) => {
    running?.then((port) => port.end()).catch(() => {});
    running = undefined;
    for (const done of waiting.values()) done(evaluation);
    waiting.clear();
  };
  const begin = () =>
    new Promise<Port>((resolve, reject) => {
      /** It did not load. One that takes too long would go on. */
      const refuse = (error: Error) => {
        clearTimeout(late);
        port.then((it) => it.end()).catch(() => {});
        reject(error);
      };
      const late = setTimeout(() => refuse(new Error(`it did not load within ${LOADING} ms`)), LOADING);
      const receive: Receive = (message, error) => {
        if (error) {
          refuse(error);
          fail(broken('trapped', `failed in its worker: ${error.message}`));
        } else if (message?.evaluation) {
          waiting.get(message.id!)?.(message.evaluation);
          waiting.delete(message.id!);
        } else {
          clearTimeout(late);
          resolve(port);
        }
      };
      const port = start({ url: policy.url, settings, live }, receive);
      port.catch(refuse);
    });

  return async (failure: Failure) => {
    let port: Port;
    try {
      port = await (running ??= begin());
    } catch (error) {
      fail(broken('trapped', ''));
      return broken('not-loaded', `is not loaded: ${(error as Error).message}`);
    }
    const id = (next += 1);
    port.holds(true);
    return new Promise<Evaluation>((resolve) => {
      const late = setTimeout(() => fail(broken('out-of-time', `was stopped after ${limit}ms`)), limit);
      waiting.set(id, (evaluation) => {
        clearTimeout(late);
        if (waiting.size <= 1) port.holds(false);
        resolve(evaluation);
      });
      port.post({ id, failure });
    });
  };
}
