// What retriers share: budgets, breakers and bulkheads.

import { type Core, type Duration, shown } from './core.js';
import { Writer } from './wire.js';

/** Frees the numbers of what the program has forgotten. */
const forgotten = new FinalizationRegistry<() => void>((free) => free());

/** What is made in the module when a retrier first needs it, since that loads the module. */
abstract class Guard {
  private made?: number;
  private core?: Core;

  constructor(readonly name: string) {
    if (typeof name !== 'string') throw new TypeError(`name: expected a text, not ${shown(name)}`);
  }

  protected abstract make(core: Core): number;
  protected abstract readonly kind: number;

  /** @internal */
  in(core: Core): number {
    if (this.made === undefined) {
      const { kind } = this;
      const made = (this.made = this.make((this.core = core)));
      forgotten.register(this, () => core.exports.guard_drop(kind, made));
    }
    return this.made;
  }

  /** Reads its state from the module; undefined before a retrier has it. */
  protected state<T>(read: (core: Core, made: number) => T): T | undefined {
    return this.core && this.made !== undefined ? read(this.core, this.made) : undefined;
  }
}

/** The numbers of a retry budget; those of the set that it begins with, unless they are given. */
export interface BudgetNumbers {
  /** The most tokens, and how many there are at first: 500. */
  capacity?: number;
  /** The cost of a retry after a transient error: 14, or 10 with `aws-2.0`. */
  transientCost?: number;
  /** The cost of a retry after a throttled one: 5. */
  throttledCost?: number;
  /** The cost of a retry after an error of any other class: 14, or 5 with `aws-2.0`. */
  otherCost?: number;
  /** What a first attempt adds that succeeds: 1. */
  firstSuccess?: number;
  /** Tokens that each second adds: 0. */
  refillPerSecond?: number;
  /** Retries that are possible in each second without tokens: 1. */
  floorPerSecond?: number;
}

const BUDGETS = ['aws-2.0', 'aws-2.1'] as const;
export type BudgetName = (typeof BUDGETS)[number];

/** Bounds the retries of all calls together: a bucket of tokens that any number of retriers share. */
export class Budget extends Guard {
  protected readonly kind = 0;

  constructor(
    name: string,
    private readonly from: BudgetName = 'aws-2.1',
    private readonly numbers: BudgetNumbers = {},
  ) {
    super(name);
    if (!BUDGETS.includes(from)) throw new TypeError(`budget: expected ${BUDGETS.map((it) => `\`${it}\``).join(' or ')}, not ${shown(from)}`);
    known('budget', numbers, ['capacity', 'transientCost', 'throttledCost', 'otherCost', 'firstSuccess', 'refillPerSecond', 'floorPerSecond']);
    areNumbers('budget', numbers);
  }

  protected make(core: Core): number {
    const { capacity, transientCost, throttledCost, otherCost, firstSuccess, refillPerSecond, floorPerSecond } = this.numbers;
    const writer = new Writer().text(this.from);
    for (const number of [capacity, transientCost, throttledCost, otherCost, firstSuccess, refillPerSecond, floorPerSecond]) writer.number(number);
    core.pass(writer);
    return core.exports.budget_new();
  }

  /** The tokens that are left. Undefined before a retrier has it. */
  get left(): number | undefined {
    return this.state((core, made) => core.exports.budget_left(made));
  }
}

/** The numbers of a circuit breaker. */
export interface BreakerNumbers {
  /** Failures without a success between them that open it: 20. */
  minimum?: number;
  /** How long nothing may have succeeded: 5s, up to 1h. */
  shortestOutage?: Duration;
  /** The largest pause before the first probe, and of all: 4s and 60s. */
  pauses?: [Duration, Duration];
  /** The longest `Retry-After` that is believed: 5m, up to 1d. */
  longestRetryAfter?: Duration;
  /** The attempts in flight at which it is closed again: 100. */
  most?: number;
  /** How many more are in flight after a round of successes: 1. */
  growth?: number;
  /** The share of failures that cuts the limit while it grows: 0.8. */
  share?: number;
  /** The part of the limit that is left: 0.5. */
  cut?: number;
}

/** While what is called is down, calls fail at once. Any number of retriers share it; give each dependency its own. */
export class Breaker extends Guard {
  protected readonly kind = 1;

  constructor(
    name: string,
    private readonly numbers: BreakerNumbers = {},
  ) {
    super(name);
    known('breaker', numbers, ['minimum', 'shortestOutage', 'pauses', 'longestRetryAfter', 'most', 'growth', 'share', 'cut']);
    const { pauses, shortestOutage, longestRetryAfter, ...others } = numbers;
    areNumbers('breaker', others);
    if (pauses !== undefined && !(Array.isArray(pauses) && pauses.length === 2)) throw new TypeError(`breaker.pauses: expected the largest pause before the first probe and of all, such as ['4s', '60s'], not ${shown(pauses)}`);
  }

  protected make(core: Core): number {
    const { minimum, shortestOutage, pauses = [], longestRetryAfter, most, growth, share, cut } = this.numbers;
    const time = (name: string, value?: Duration) => core.duration(`breaker.${name}`, value);
    const writer = new Writer().text(this.name).number(minimum).number(time('shortestOutage', shortestOutage));
    writer.number(time('pauses', pauses[0])).number(time('pauses', pauses[1])).number(time('longestRetryAfter', longestRetryAfter));
    for (const number of [most, growth, share, cut]) writer.number(number);
    core.pass(writer);
    return core.exports.breaker_new();
  }

  /** Its state. Undefined before a retrier has it. */
  get status(): { state: 'closed' | 'open' | 'probing' | 'growing'; inFlight: number; failed: number } | undefined {
    return this.state((core, made) => {
      const reader = core.read(core.exports.breaker_status(made));
      return { state: reader.text() as 'closed', inFlight: reader.number(), failed: reader.number() };
    });
  }
}

/** Limits how many attempts are under way at once, over all retriers that share it. */
export class Bulkhead extends Guard {
  protected readonly kind = 2;
  /** Whether an attempt that finds no place free waits for one. */
  readonly waits: boolean;

  constructor(
    name: string,
    private readonly most: number,
    options: { waits?: boolean } = {},
  ) {
    super(name);
    known('bulkhead', options, ['waits']);
    if (!(Number.isInteger(most) && most > 0)) throw new TypeError(`bulkhead ${name}: expected how many attempts may be under way at once, from 1, not ${shown(most)}`);
    this.waits = options.waits ?? true;
  }

  protected make(core: Core): number {
    core.passText(this.name);
    return core.exports.bulkhead_new(this.most);
  }

  /** The places that are free. Undefined before a retrier has it. */
  get free(): number | undefined {
    return this.state((core, made) => core.exports.bulkhead_free(made));
  }
}

/** Throws for an option that is none, such as a misspelled one. */
export function known(of: string, options: object, names: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) throw new TypeError(`${of}: there is no option \`${name}\`; expected one of ${names.join(', ')}`);
  }
}

/** Throws for a number that is none, or below zero. */
function areNumbers(of: string, numbers: object): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (value !== undefined && !(typeof value === 'number' && value >= 0)) throw new TypeError(`${of}.${name}: expected a number from 0, not ${shown(value)}`);
  }
}
