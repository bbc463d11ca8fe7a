// One call: the module says what is next, and this does it.

import { RetryError, readDecision } from './errors.js';
import { writeFound } from './failures.js';
import { type Evaluation, readFailure, writeEvaluation } from './policy.js';
import type { Attempt, CallOptions, RetryEvent, Shared } from './retrier.js';
import type { Reader, Writer } from './wire.js';

/** The calls under way, by the module's numbers. */
const calls = new Map<number, Call<any>>();

export class Call<T> {
  readonly result: Promise<T>;
  private resolve!: (value: T) => void;
  private reject!: (error: unknown) => void;
  private readonly number: number;
  private value!: T;
  private error: unknown;
  private log: Evaluation['log'] = [];
  /** Cancels the timer. */
  private timer?: () => void;
  /** Of the attempt under way. */
  private attempt?: AbortController;
  /** Counts what was begun, so that what ends later than it was waited for changes nothing. */
  private turn = 0;
  private readonly abort = () => this.cancel();

  constructor(
    private readonly retrier: Shared,
    private readonly work: (attempt: Attempt) => PromiseLike<T> | T,
    private readonly options: CallOptions<T>,
    limits: Writer,
  ) {
    this.result = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    const { core } = retrier;
    core.pass(limits.text(options.id).pairs(Object.entries(options.attributes ?? {})));
    this.number = core.exports.call_new(retrier.number);
    calls.set(this.number, this);
    if (options.signal?.aborted) return this.cancel(), this;
    options.signal?.addEventListener('abort', this.abort);
    this.goOn();
  }

  private get times(): [number, number] {
    return [this.retrier.clock.now(), this.retrier.clock.time()];
  }

  private goOn(): void {
    this.next(this.retrier.core.exports.call_go_on(this.number, ...this.times));
  }

  private after(milliseconds: number | undefined, done: () => void): void {
    if (milliseconds !== undefined) this.timer = this.retrier.clock.timer(milliseconds, done);
  }

  /** Does what is next. */
  private next(length: number): void {
    const { core } = this.retrier;
    this.turn += 1;
    this.timer?.();
    this.timer = undefined;
    // What was cut short: who has succeeded or failed has no controller any more.
    this.attempt?.abort(new DOMException('the attempt was cut short', 'TimeoutError'));
    this.attempt = undefined;
    const reader = core.read(length);
    const does = [this.begin, this.evaluate, this.wait, this.enter, this.succeeded, this.ended];
    does[reader.number()]?.call(this, reader);
    for (let woken; (woken = core.exports.call_woken()) >= 0; ) calls.get(woken)?.goOn();
  }

  private begin(reader: Reader): void {
    const number = reader.number();
    const { turn } = this;
    this.after(reader.optional(), () => this.goOn());
    const controller = (this.attempt = new AbortController());
    const attempt: Attempt = { number, isRetry: number > 1, signal: controller.signal, timeLeft: reader.optional() };
    const ends = (work: () => void) => () => {
      if (turn !== this.turn) return;
      this.attempt = undefined;
      work();
    };
    const failed = (error: unknown) => ends(() => this.failed(error))();
    const done = (value: T) => ends(() => this.done(value))();
    try {
      Promise.resolve(this.work(attempt)).then(done, failed);
    } catch (error) {
      // Later, as from a promise: the call is not made yet.
      Promise.reject(error).then(done, failed);
    }
  }

  private done(value: T): void {
    let isNotReady = false;
    try {
      isNotReady = this.options.retryIfOk?.(value) ?? false;
    } catch (error) {
      return this.cancel(error);
    }
    this.value = value;
    this.next(this.retrier.core.exports.call_succeeded(this.number, Number(isNotReady), ...this.times));
  }

  private failed(error: unknown): void {
    const { core } = this.retrier;
    let isRefused = false;
    try {
      isRefused = !(this.options.retryIf?.(error) ?? true);
    } catch (thrown) {
      return this.cancel(thrown);
    }
    this.error = error;
    core.pass(writeFound(error));
    this.next(core.exports.call_failed(this.number, Number(isRefused), ...this.times));
  }

  private evaluate(reader: Reader): void {
    this.after(reader.optional(), () => this.goOn());
    const { turn } = this;
    const evaluated = (evaluation: Evaluation) => {
      if (turn !== this.turn) return;
      const { core } = this.retrier;
      this.log = evaluation.log;
      core.pass(writeEvaluation(evaluation));
      this.next(core.exports.call_evaluated(this.number, ...this.times));
    };
    const evaluation = this.retrier.evaluate!(readFailure(reader));
    if (evaluation instanceof Promise) evaluation.then(evaluated);
    else evaluated(evaluation);
  }

  private wait(reader: Reader): void {
    const delay = reader.number();
    const budgetLeft = reader.optional();
    const { turn } = this;
    this.after(delay, () => this.goOn());
    if (!reader.number()) return;
    const failure = readFailure(reader);
    this.report({ type: 'retrying', attempts: failure.attempt, delay, failure, decision: readDecision(reader), budgetLeft, log: this.log }, turn);
  }

  private enter(reader: Reader): void {
    this.after(reader.optional(), () => this.next(this.retrier.core.exports.call_cut(this.number, ...this.times)));
  }

  private succeeded(reader: Reader): void {
    const attempts = reader.number();
    this.forget();
    this.resolve(this.value);
    this.report({ type: 'succeeded', attempts });
  }

  private ended(reader: Reader): void {
    const budgetLeft = reader.optional();
    const error = new RetryError(reader, this.error);
    const failed = reader.number() ? { failure: readFailure(reader), decision: readDecision(reader) } : {};
    this.forget();
    this.reject(error);
    const { end, attempts, timeLeft } = error;
    this.report({ type: 'ended', attempts, end, timeLeft, budgetLeft, log: this.log, ...failed });
  }

  /** An observer that throws ends the call with its error. */
  private report(event: any, turn = this.turn): void {
    const { observe, name } = this.retrier;
    this.log = [];
    try {
      observe?.({ retrier: name, ...event } as RetryEvent);
    } catch (error) {
      if (turn === this.turn) this.cancel(error);
    }
  }

  /** Ends the call now. A retry that was not sent gives its tokens back. */
  private cancel(error: unknown = this.options.signal?.reason): void {
    this.turn += 1;
    this.timer?.();
    this.attempt?.abort(error);
    this.forget();
    this.reject(error);
  }

  private forget(): void {
    this.options.signal?.removeEventListener('abort', this.abort);
    calls.delete(this.number);
    this.retrier.core.exports.call_drop(this.number);
  }
}
