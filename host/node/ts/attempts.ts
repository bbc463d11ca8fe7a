// The attempts of one worker: each message is passed to the handler, and how it ended to the host.

import { fail } from './failures.js';
import { Message } from './message.js';
import type { Native } from './native.js';
import { shown } from './texts.js';

/** How many jobs are taken at once. */
const MOST = 64;

/** What a handler gets next to a message. */
export class Attempt {
  private controller?: AbortController;

  /** Aborts when nobody waits for the attempt any more: it has taken longer than `attemptTimeout`, or the host has ended. Pass it to what the handler calls. */
  get signal(): AbortSignal {
    return (this.controller ??= new AbortController()).signal;
  }

  /** @internal */
  end(): void {
    this.controller ??= new AbortController();
    this.controller.abort(new DOMException('the attempt has taken too long', 'TimeoutError'));
  }
}

type Handler = (what: any, attempt: Attempt) => unknown;

export class Attempts {
  private readonly underWay = new Map<number, Attempt>();

  constructor(
    private readonly host: Native.Host,
    private readonly worker: number,
    private readonly handle: Handler,
    private readonly batch: number | undefined,
  ) {}

  /** Takes what is there. */
  take(): void {
    for (const job of this.host.takeOver(this.worker)) {
      this.underWay.get(job)?.end();
      this.underWay.delete(job);
    }
    for (let taken; (taken = this.host.take(this.worker, this.batch ?? MOST)).length > 0; ) {
      if (this.batch === undefined) for (const job of taken) this.attempt(job);
      else this.attemptAll(taken);
    }
  }

  private attempt(job: Native.Taken): void {
    const { number } = job;
    const attempt = new Attempt();
    this.underWay.set(number, attempt);
    this.call(
      () => this.handle(new Message(job), attempt),
      () => {
        this.underWay.delete(number);
        this.host.done(this.worker, number);
      },
      (error) => {
        this.underWay.delete(number);
        fail(this.host, this.worker, number, error);
      },
    );
  }

  private attemptAll(jobs: Native.Taken[]): void {
    const attempt = new Attempt();
    for (const { number } of jobs) this.underWay.set(number, attempt);
    const end = (failed: Map<string, unknown>) => {
      for (const { id, number } of jobs) {
        this.underWay.delete(number);
        if (failed.has(id)) fail(this.host, this.worker, number, failed.get(id));
        else this.host.done(this.worker, number);
      }
    };
    const failed = (error: unknown) => end(new Map(jobs.map(({ id }) => [id, error])));
    this.call(
      () => this.handle(jobs.map((job) => new Message(job)), attempt),
      (returned) => {
        let named;
        try {
          named = failures(returned, jobs);
        } catch (error) {
          return failed(error);
        }
        end(named);
      },
      failed,
    );
  }

  private call(work: () => unknown, done: (value: unknown) => void, failed: (error: unknown) => void): void {
    let returned: any;
    try {
      returned = work();
      if (typeof returned?.then === 'function') return void returned.then(done, failed);
    } catch (error) {
      return failed(error);
    }
    done(returned);
  }
}

/** The messages of a batch that have failed, by id. */
function failures(returned: any, jobs: Native.Taken[]): Map<string, unknown> {
  if (returned === undefined || returned === null) return new Map();
  let failed: Map<string, unknown> | undefined;
  if (returned instanceof Map) failed = returned;
  else if (Array.isArray(returned.batchItemFailures)) {
    failed = new Map(returned.batchItemFailures.map((it: any) => [it?.itemIdentifier, Object.assign(new Error('the handler reports it as failed'), { code: 'BatchItemFailure' })]));
  } else if (Object.getPrototypeOf(returned) === Object.prototype) failed = new Map(Object.entries(returned));
  if (!failed) throw new TypeError(`the handler of a batch has returned ${shown(returned)}: expected nothing, or errors by message id`);
  const unknown = [...failed.keys()].filter((id) => !jobs.some((job) => job.id === id));
  if (unknown.length) throw new TypeError(`the handler of a batch has named ${unknown.map(shown).join(', ')}, which are no ids of its messages`);
  return failed;
}
