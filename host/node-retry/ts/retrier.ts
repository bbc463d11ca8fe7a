// The retrier: what a program calls.

import { Call } from './call.js';
import { type Clock, systemClock } from './clock.js';
import { type Core, type Duration, core, shown } from './core.js';
import type { Decision } from './decision.js';
import type { End } from './errors.js';
import { Breaker, Budget, type BudgetName, Bulkhead, known } from './guards.js';
import { type Evaluate, type Failure, type Policy, evaluator, isPolicy } from './policy.js';
import { Writer } from './wire.js';

/** What happens to a call. */
export type RetryEvent =
  | { type: 'succeeded'; retrier: string; attempts: number }
  | { type: 'retrying'; retrier: string; attempts: number; delay: number; failure: Failure; decision: Decision; budgetLeft?: number; log: LogLine[] }
  | { type: 'ended'; retrier: string; attempts: number; end: End; timeLeft?: number; failure?: Failure; decision?: Decision; budgetLeft?: number; log: LogLine[] };

export interface LogLine {
  level: string;
  message: string;
}

/** What a call may set for itself, and a retrier for all of its calls. */
export interface Limits {
  /** When the result is needed: a duration from the start of the call, or a point in time. */
  deadline?: Duration | Date;
  /** The longest that one attempt may take. */
  attemptTimeout?: Duration;
  /** The least time before the deadline that makes an attempt worthwhile: 0. */
  minAttemptTime?: Duration;
  /** Whether the deadline cuts an attempt short: yes. */
  interruptAtDeadline?: boolean;
}

export interface RetrierOptions extends Limits {
  /** Its name in events: `default`. Give each dependency its own. */
  name?: string;
  /** A policy of `backstop-retry/policies`, or one that `backstop policy export --javascript` made. Without one, full jitter from 50 ms to 20 s and three attempts. */
  policy?: Policy;
  /** The settings of the policy, as text: `{ base: '50ms' }`. */
  settings?: Record<string, string>;
  /** The most attempts of a call, whatever the policy decides. */
  maxAttempts?: number;
  /** The longest delay, whatever the policy decides: 14d. */
  maxDelay?: Duration;
  /** The longest time that a service may ask for in `Retry-After`: 1m, unless `maxDelay` is set. */
  maxRetryAfter?: Duration;
  budget?: Budget | BudgetName;
  breaker?: Breaker;
  bulkhead?: Bulkhead;
  /** Gets every event. It must not block. */
  observe?: (event: RetryEvent) => void;
  clock?: Clock;
  /** Makes the delays the same in every run: for tests. */
  seed?: number;
  /** Whether each decision has an instance of the policy for itself, or one instance decides: `live` for policies that say that they keep no state, such as the built-in ones, and `fresh` for others. */
  instances?: 'fresh' | 'live';
  /** For a policy that is not trusted: it runs in a worker, which is ended after this time. */
  timeLimit?: Duration;
}

/** What the function gets at each attempt. */
export interface Attempt {
  /** From 1. */
  readonly number: number;
  readonly isRetry: boolean;
  /** Aborts when the attempt is cut short: pass it to what the attempt calls. */
  readonly signal: AbortSignal;
  /** Milliseconds until the call's deadline, at the beginning of the attempt. */
  readonly timeLeft?: number;
}

export interface CallOptions<T = unknown> extends Limits {
  /** Cancels the call, which rejects with its reason. */
  signal?: AbortSignal;
  /** The id of the call, from which the randomness of its delays derives. */
  id?: string;
  /** What the policy sees in addition, such as the tenant. */
  attributes?: Record<string, string>;
  /** Errors for which it says false end the call. */
  retryIf?: (error: unknown) => boolean;
  /** Values for which it says true are failures with the code `NotReady`. */
  retryIfOk?: (value: T) => boolean;
}

export interface Retrier {
  /** Runs the function until it succeeds, or the call ends with a `RetryError`. */
  <T>(attempt: (attempt: Attempt) => PromiseLike<T> | T, options?: CallOptions<T>): Promise<T>;
  readonly budget?: Budget;
  readonly breaker?: Breaker;
  readonly bulkhead?: Bulkhead;
}

const LIMITS = ['deadline', 'attemptTimeout', 'minAttemptTime', 'interruptAtDeadline'];
const OPTIONS = [...LIMITS, 'name', 'policy', 'settings', 'maxAttempts', 'maxDelay', 'maxRetryAfter', 'budget', 'breaker', 'bulkhead', 'observe', 'clock', 'seed', 'instances', 'timeLimit'];
const CALL_OPTIONS = [...LIMITS, 'signal', 'id', 'attributes', 'retryIf', 'retryIfOk'];

/** What calls share. */
export interface Shared {
  core: Core;
  number: number;
  name: string;
  evaluate?: Evaluate;
  observe?: (event: RetryEvent) => void;
  clock: Clock;
}

const forgotten = new FinalizationRegistry<() => void>((free) => free());

/** A retrier. Make one for each dependency, once in a program. */
export async function retrier(options: RetrierOptions = {}): Promise<Retrier> {
  if (typeof options !== 'object' || options === null) throw new TypeError(`retrier: expected options such as { maxAttempts: 5 }, not ${shown(options)}`);
  known('retrier', options, OPTIONS);
  const { name = 'default', policy, settings, observe, clock = systemClock, maxAttempts } = options;
  if (policy !== undefined && !isPolicy(policy)) throw new TypeError(`policy: expected one of \`backstop-retry/policies\`, such as \`fullJitter\`, or one that \`backstop policy export --javascript\` made, not ${shown(policy)}`);
  if (!policy && settings) throw new TypeError('settings: they are for a policy; name one with `policy`');
  if (maxAttempts !== undefined && !(Number.isInteger(maxAttempts) && maxAttempts > 0)) throw new TypeError(`maxAttempts: expected a whole number from 1, not ${shown(maxAttempts)}`);
  if (observe !== undefined && typeof observe !== 'function') throw new TypeError(`observe: expected a function, not ${shown(observe)}`);
  for (const [setting, value] of Object.entries(settings ?? {})) {
    if (typeof value !== 'string') throw new TypeError(`settings.${setting}: expected a text such as '50ms' or '3', not ${shown(value)}`);
  }
  const guard = (of: 'breaker' | 'bulkhead', kind: Function, named: string) => {
    if (options[of] !== undefined && !(options[of] instanceof kind)) throw new TypeError(`${of}: expected a \`${named}\`, not ${shown(options[of])}`);
  };
  guard('breaker', Breaker, 'Breaker');
  guard('bulkhead', Bulkhead, 'Bulkhead');
  const loaded = await core();
  const budget = typeof options.budget === 'string' ? new Budget(name, options.budget) : options.budget;
  if (budget !== undefined && !(budget instanceof Budget)) throw new TypeError(`budget: expected a \`Budget\`, 'aws-2.1' or 'aws-2.0', not ${shown(budget)}`);
  const { breaker, bulkhead, instances } = options;
  if (instances !== undefined && !['fresh', 'live'].includes(instances)) throw new TypeError(`instances: expected 'fresh' or 'live', not ${shown(instances)}`);
  const time = (of: keyof RetrierOptions) => loaded.duration(of, options[of] as Duration | undefined);
  const live = (instances ?? (policy?.pure ? 'live' : 'fresh')) === 'live';
  const evaluate = policy && (await evaluator(policy, settings ?? {}, live, time('timeLimit')));
  const [high, low] = options.seed === undefined ? [Math.random() * 2 ** 32, Math.random() * 2 ** 32] : [options.seed / 2 ** 32, options.seed % 2 ** 32];
  loaded.pass(
    new Writer()
      .text(`retrier:${name}`)
      .number(!policy)
      .number(maxAttempts)
      .number(time('maxDelay'))
      .number(time('maxRetryAfter'))
      .number(budget?.in(loaded))
      .number(breaker?.in(loaded))
      .number(bulkhead?.in(loaded))
      .number(bulkhead?.waits ?? true)
      .number(high)
      .number(low),
  );
  const number = loaded.exports.retrier_new();
  const shared: Shared = { core: loaded, number, name, evaluate, observe, clock };
  const retry: Retrier = (attempt, of = {}) => {
    if (typeof attempt !== 'function') return Promise.reject(new TypeError(`retry: expected a function that makes an attempt, such as \`() => fetch(url)\`, not ${shown(attempt)}`));
    try {
      known('retry', of, CALL_OPTIONS);
      return new Call(shared, attempt, of, limits(loaded, clock, { ...options, ...of })).result;
    } catch (error) {
      return Promise.reject(error);
    }
  };
  forgotten.register(retry, () => loaded.exports.retrier_drop(number));
  return Object.assign(retry, { budget, breaker, bulkhead });
}

/** The limits of a call, as the module reads them. */
function limits(core: Core, clock: Clock, { deadline, attemptTimeout, minAttemptTime, interruptAtDeadline = true }: Limits): Writer {
  const isDate = deadline instanceof Date && !Number.isNaN(deadline.getTime());
  const left = isDate ? Math.max(0, deadline.getTime() - clock.time()) : core.duration('deadline', deadline as Duration);
  return new Writer()
    .number(left)
    .number(core.duration('attemptTimeout', attemptTimeout))
    .number(core.duration('minAttemptTime', minAttemptTime))
    .number(!interruptAtDeadline);
}
