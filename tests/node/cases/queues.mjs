// What the suites share.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';

import { logTo, worker } from 'backstop-sqs';

/** The log of all workers of a suite. */
export const log = [];
logTo((line) => log.push(line));

/** Of a millisecond: retries come at once. */
export const SHORT = { base: '1ms', cap: '1ms', floor: '1ms' };

/** Serves a queue in memory that is filled with these messages, to its end. */
export const serve = async (handle, messages, options = {}) => {
  const { succeeded, retried, deadLettered } = await worker({ queueUrl: 'local:orders', settings: SHORT, maxAttempts: 2, cache: 'off', messages, handle, ...options }).run();
  return [succeeded, retried, deadLettered];
};

/** A program of its own, with the lines that it prints. */
export const program = (text, ...words) => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', text, ...words], { stdio: ['ignore', 'pipe', 'pipe'] });
  let err = '';
  child.stderr.on('data', (data) => (err += data));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, err })));
  return {
    child,
    ended,
    line: async () => (await lines.next()).value,
    rest: async () => {
      const rest = [];
      for (let next; !(next = await lines.next()).done; ) rest.push(next.value);
      return rest;
    },
  };
};

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
