// The policy of a retrier, and its evaluation.

import { type Pairs, type Reader, Writer } from './wire.js';

/** A failed attempt, as a policy sees it. Durations are milliseconds. */
export interface Failure {
  messageId: string;
  source: string;
  attempt: number;
  age: number;
  failedAt: number;
  previousDelay?: number;
  error: FailureError;
  attributes: Pairs;
  random: number;
}

export interface FailureError {
  code: string;
  message: string;
  status?: number;
  retryAfter?: number;
  details: Pairs;
}

type Tagged = { tag: string; val?: unknown };

export interface Evaluation {
  answer?: { class: Tagged; verdict: Tagged; delay?: number; downFor?: number };
  broken?: { kind: string; text: string };
  log: { level: string; message: string }[];
}

/** A policy as `backstop policy export --javascript` makes it. */
export interface Policy {
  readonly name: string;
  readonly version: string;
  readonly digest: string;
  readonly url: string;
  readonly pure: boolean;
  load(): Promise<{ evaluate(failure: Failure, options?: { settings?: Record<string, string>; live?: boolean }): Evaluation }>;
}

export type Evaluate = (failure: Failure) => Evaluation | Promise<Evaluation>;

export interface PolicyOptions {
  settings?: Record<string, string>;
  instances?: 'fresh' | 'live';
}

export const isPolicy = (value: unknown): value is Policy =>
  typeof value === 'object' && value !== null && typeof (value as Policy).load === 'function' && typeof (value as Policy).digest === 'string';

/** What evaluates a policy with its settings. Throws if it rejects them, or an ordinary failure breaks it. */
export async function evaluator(policy: Policy, settings: Record<string, string>, live: boolean, timeLimit?: number): Promise<Evaluate> {
  const evaluate: Evaluate =
    timeLimit === undefined
      ? await policy.load().then((loaded) => (failure: Failure) => loaded.evaluate(failure, { settings, live }))
      : await import('./worker.js').then(({ inWorker }) => inWorker(policy, settings, live, timeLimit));
  const { broken } = await evaluate(ORDINARY);
  if (broken) throw new TypeError(`policy ${policy.name}: ${broken.text}`);
  return evaluate;
}

const ORDINARY: Failure = {
  messageId: 'm-1',
  source: 'retrier:default',
  attempt: 1,
  age: 0,
  failedAt: 1_767_225_600_000,
  error: { code: 'HTTP 503', message: '', status: 503, details: [] },
  attributes: [],
  random: 0.5,
};

export function readFailure(reader: Reader): Failure {
  const failure = {
    messageId: reader.text(),
    source: reader.text(),
    attempt: reader.number(),
    age: reader.number(),
    failedAt: reader.number(),
    previousDelay: reader.optional(),
    error: readError(reader),
    attributes: reader.pairs(),
    random: reader.number(),
  };
  return failure as Failure;
}

export const readError = (reader: Reader): FailureError =>
  ({ code: reader.text(), message: reader.text(), status: reader.optional(), retryAfter: reader.optional(), details: reader.pairs() }) as FailureError;

const val = ({ val }: Tagged): string => (val === undefined ? '' : String(val));

export function writeEvaluation({ answer, broken }: Evaluation): Writer {
  const writer = new Writer().number(answer === undefined);
  if (!answer) return writer.text(broken?.kind).text(broken?.text);
  return writer
    .text(answer.class.tag)
    .text(val(answer.class))
    .text(answer.verdict.tag)
    .text(val(answer.verdict))
    .number(answer.delay ?? 0)
    .number(answer.downFor);
}
