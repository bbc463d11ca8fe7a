// The addon, and the command that is installed next to it.

import { existsSync } from 'node:fs';

export namespace Native {
  export interface Option {
    name: string;
    texts: string[];
  }

  export interface Worker {
    url: string;
    options: Option[];
    messages?: string[];
  }

  export interface Counts {
    name: string;
    succeeded: number;
    retried: number;
    deadLettered: number;
  }

  export interface Taken {
    number: number;
    id: string;
    body: string;
    attributes: { name: string; value: string | Uint8Array }[];
    receiveCount: number;
    sent: number;
    groupId?: string;
    deduplicationId?: string;
    senderId?: string;
    traceHeader?: string;
  }

  export interface Host {
    start(wake: (worker: number) => void, ended: () => void): void;
    stop(): void;
    result(): Counts[];
    take(worker: number, most: number): Taken[];
    takeOver(worker: number): number[];
    done(worker: number, job: number): void;
    failed(worker: number, job: number, found: Uint8Array, stack?: string): void;
    unavailable(worker: number, job: number, code: string, message: string): void;
  }

  export interface Setting {
    name: string;
    text: string;
  }

  export interface Circumstances {
    attempt: number;
    age: number;
    previousDelay?: number;
    messageId: string;
    source: string;
    random?: number;
    attributes: Setting[];
    body?: string;
  }

  export interface Decision {
    class: string;
    verdict: string;
    delay?: number;
    reason?: string;
    by: string;
    cause?: string;
    downFor?: number;
    log: { level: string; message: string }[];
    fuel: number;
  }

  export interface LoadedPolicy {
    readonly title: string;
    decide(found: Uint8Array, circumstances: Circumstances): Decision;
  }
}

export interface Native {
  Host: new (workers: Native.Worker[]) => Native.Host;
  compileBy(program: string): void;
  loadPolicy(name: string, settings: Native.Setting[]): Promise<Native.LoadedPolicy>;
  milliseconds(name: string, text: string): number;
  startLog(level: string, write: (lines: { level: string; text: string }[]) => void): void;
}

const SCOPE = '@backstop-sqs';
const HERE = `${process.platform}-${process.arch}`;

let loaded: Native | undefined;

/** The addon. It is loaded when something of it is used first. */
export function native(): Native {
  if (loaded) return loaded;
  loaded = load();
  const command = program();
  if (command) loaded.compileBy(command);
  return loaded;
}

function load(): Native {
  // Of a checkout: next to this file.
  const built = `${__dirname}/backstop.node`;
  const named = process.env.BACKSTOP_ADDON ?? (existsSync(built) ? built : undefined);
  if (named) {
    // Whatever it is called: `require` goes by the end of the name.
    const module = { exports: {} };
    process.dlopen(module, named);
    return module.exports as Native;
  }
  const found: unknown[] = [];
  // npm installs the one of this platform's C library; others may have both.
  for (const library of ['gnu', 'musl']) {
    try {
      return require(`${SCOPE}/${HERE}-${library}`) as Native;
    } catch (why) {
      if ((why as { code?: unknown }).code !== 'MODULE_NOT_FOUND') found.push(why);
    }
  }
  const why = found.length ? `it can't be loaded: ${found.map((it) => (it as Error).message).join('; ')}` : 'it is not installed';
  throw new Error(`backstop-sqs: the addon for ${HERE} is not there: ${why}. It is for Linux, on x64 and arm64. There, install backstop-sqs without --omit=optional or --no-optional.`);
}

/** Where the command `backstop` is, which compiles policies in child processes with limits. */
function program(): string | undefined {
  const named = process.env.BACKSTOP_COMMAND;
  if (named) return named;
  try {
    return require.resolve(`${SCOPE}/${HERE}/bin/backstop`);
  } catch {
    return undefined;
  }
}
