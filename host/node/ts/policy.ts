// One decision of a policy, for its tests and for programs that apply it themselves.

import type { Decision as Decided } from '../../node-retry/ts/decision.js';
import { writeFound } from '../../node-retry/ts/failures.js';
import { type Native, native } from './native.js';
import { type Settings, settings, shown } from './texts.js';

/** What was decided about a failure. */
export interface Decision extends Omit<Decided, 'wanted'> {
  /** The policy's log lines. */
  log: { level: string; message: string }[];
  /** The instructions that the policy has executed, roughly. */
  fuel: number;
}

export interface DecideOptions {
  /** The error that the handler throws. Or describe one by its code: */
  error?: unknown;
  code?: string;
  message?: string;
  /** An HTTP status. */
  status?: number;
  /** When the other side asked to be called again: milliseconds, or a text such as `'30s'`. */
  retryAfter?: number | string;
  /** Which attempt has failed, from 1: 1. */
  attempt?: number;
  /** The age of the message: milliseconds, or a text. */
  age?: number | string;
  /** The delay before this attempt. */
  previousDelay?: number | string;
  messageId?: string;
  source?: string;
  /** The random number of the decision, from 0 to below 1. Without one it derives from `messageId` and `attempt`, so that the same failure gets the same decision. */
  random?: number;
  attributes?: Readonly<Record<string, string>>;
  body?: string;
}

/** A policy that is loaded and validated, as a host does. The version that is there then decides; it follows no new one. */
export class Policy {
  private constructor(private readonly loaded: Native.LoadedPolicy) {}

  /** Loads a policy: the name of a built-in one, a file, a folder of versions, `s3://…` or `oci://…`. Rejects if it is not valid. */
  static async load(policy: string, options: { settings?: Settings } = {}): Promise<Policy> {
    if (typeof policy !== 'string') throw new TypeError(`policy: expected a name, a file or an address, such as 'full-jitter', not ${shown(policy)}`);
    const { settings: given, ...others } = options;
    const [other] = Object.keys(others);
    if (other !== undefined) throw new TypeError(`Policy.load: there is no option \`${other}\`: expected \`settings\``);
    return new Policy(await native().loadPolicy(policy, settings('settings', given)));
  }

  /** Its name and the beginning of its digest. */
  get title(): string {
    return this.loaded.title;
  }

  /** Decides about a failed attempt, in a fresh instance. */
  decide(options: DecideOptions): Decision {
    if (typeof options !== 'object' || options === null) throw new TypeError(`decide: expected options such as { code: 'HTTP 503', attempt: 3 }, not ${shown(options)}`);
    const { error, code, message, status, retryAfter, attempt = 1, age = 0, previousDelay, messageId = 'm-1', source = 'local:q', random, attributes, body, ...others } = options;
    const [other] = Object.keys(others);
    if (other !== undefined) throw new TypeError(`decide: there is no option \`${other}\``);
    if ((error === undefined) === (code === undefined)) throw new TypeError("decide: expected `error`, or `code` such as { code: 'HTTP 503' }");
    if (error !== undefined && [message, status, retryAfter].some((it) => it !== undefined)) throw new TypeError('decide: an error says its message, status and retryAfter itself');
    if (!(Number.isInteger(attempt) && attempt > 0)) throw new TypeError(`attempt: expected a whole number from 1, not ${shown(attempt)}`);
    const thrown = error ?? { code, message: message ?? '', status, retryAfter: milliseconds('retryAfter', retryAfter) };
    const circumstances: Native.Circumstances = {
      attempt,
      age: milliseconds('age', age) ?? 0,
      previousDelay: milliseconds('previousDelay', previousDelay),
      messageId,
      source,
      random,
      attributes: Object.entries(attributes ?? {}).map(([name, text]) => ({ name, text })),
      body,
    };
    return this.loaded.decide(writeFound(thrown).done(), circumstances) as Decision;
  }
}

function milliseconds(name: string, time: number | string | undefined): number | undefined {
  if (typeof time === 'string') return native().milliseconds(name, time);
  if (time === undefined || (typeof time === 'number' && time >= 0)) return time;
  throw new TypeError(`${name}: expected milliseconds, or a text such as '30s', not ${shown(time)}`);
}
