// For tests: time that moves on by itself whenever a call waits.

import type { Clock } from './clock.js';

interface Timer {
  at: number;
  done: () => void;
}

/** The time of day at which it begins: 2026-01-01T00:00:00Z. */
const EPOCH = 1_767_225_600_000;

/** Lets everything happen that needs no time. */
const settled = () => new Promise<void>((resolve) => ('setImmediate' in globalThis ? setImmediate(resolve) : setTimeout(resolve)));

/** A virtual clock: `retrier({ clock })`, then `await clock.run(() => retry(work))`. */
export class TestClock implements Clock {
  private passed = 0;
  private timers: Timer[] = [];

  now(): number {
    return this.passed;
  }

  time(): number {
    return EPOCH + this.passed;
  }

  timer(milliseconds: number, done: () => void): () => void {
    const timer = { at: this.passed + milliseconds, done };
    this.timers.push(timer);
    return () => {
      this.timers = this.timers.filter((it) => it !== timer);
    };
  }

  /** The milliseconds that have passed. */
  get elapsed(): number {
    return this.passed;
  }

  /** Moves the time on, and does what is due. */
  async advance(milliseconds: number): Promise<void> {
    const until = this.passed + milliseconds;
    await settled();
    while (this.step(until)) await settled();
    this.passed = until;
  }

  /** Waits for the result, and moves the time on whenever nothing else happens. What waits for something real, such as a connection, needs `advance`. */
  async run<T>(work: () => PromiseLike<T>): Promise<T> {
    let ended = false;
    const result = Promise.resolve(work()).finally(() => (ended = true));
    result.catch(() => {});
    for (;;) {
      await settled();
      if (ended || !this.step(Number.POSITIVE_INFINITY)) return result;
    }
  }

  private step(until: number): boolean {
    const next = this.timers.reduce<Timer | undefined>((first, it) => (first && first.at <= it.at ? first : it), undefined);
    if (!next || next.at > until) return false;
    this.passed = Math.max(this.passed, next.at);
    this.timers = this.timers.filter((it) => it !== next);
    next.done();
    return true;
  }
}
