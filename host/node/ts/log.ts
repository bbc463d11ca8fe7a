// The host's log. It is one for a process.

import { native } from './native.js';

export type Level = 'error' | 'warn' | 'info' | 'debug' | 'trace';

export interface LogLine {
  level: Level;
  text: string;
}

const LEVELS: readonly string[] = ['error', 'warn', 'info', 'debug', 'trace'];

let write: (line: LogLine) => void = (line) => process.stderr.write(`${new Date().toISOString()} ${line.level.toUpperCase().padStart(5)} ${line.text}\n`);
let level: Level = 'info';
let isStarted = false;

/** Where the host's log goes: to this function, from this level on. Without it, lines go to stderr. Call it before the first worker runs. */
export function logTo(to: (line: LogLine) => void, from: Level = 'info'): void {
  if (typeof to !== 'function') throw new TypeError(`logTo: expected a function, such as (line) => logger[line.level](line.text), not ${String(to)}`);
  if (!LEVELS.includes(from)) throw new TypeError(`logTo: expected 'error', 'warn', 'info', 'debug' or 'trace', not ${String(from)}`);
  if (isStarted && from !== level) throw new Error('logTo: the level is fixed once a worker has run: call logTo before');
  write = to;
  level = from;
}

/** Passes lines on from now on. */
export function startLog(): void {
  if (isStarted) return;
  native().startLog(level, (lines) => {
    for (const line of lines) {
      try {
        write(line as LogLine);
      } catch (why) {
        // A logger that throws ends neither the program nor the log.
        process.stderr.write(`backstop: the function of logTo has thrown: ${String(why)}: ${line.text}\n`);
      }
    }
  });
  isStarted = true;
}
