// The module of the rules, in WebAssembly. It is loaded once, from a text of this package: no file and no address is read.

import { MODULE } from './module.js';
import { Reader, Writer } from './wire.js';

interface Exports {
  memory: WebAssembly.Memory;
  input(length: number): number;
  output(): number;
  duration(): number;
  retrier_new(): number;
  retrier_drop(retrier: number): void;
  call_new(retrier: number): number;
  call_go_on(call: number, monotonic: number, wall: number): number;
  call_cut(call: number, monotonic: number, wall: number): number;
  call_succeeded(call: number, isNotReady: number, monotonic: number, wall: number): number;
  call_failed(call: number, isRefused: number, monotonic: number, wall: number): number;
  call_evaluated(call: number, monotonic: number, wall: number): number;
  call_drop(call: number): void;
  call_woken(): number;
  budget_new(): number;
  budget_left(budget: number): number;
  breaker_new(): number;
  breaker_status(breaker: number): number;
  bulkhead_new(most: number): number;
  bulkhead_free(bulkhead: number): number;
  guard_drop(kind: number, guard: number): void;
  envelope(attempt: number, initialTimestamp: number): number;
}

export class Core {
  constructor(readonly exports: Exports) {}

  /** Passes values to the next function. */
  pass(writer: Writer): void {
    const bytes = writer.done();
    const at = this.exports.input(bytes.length);
    new Uint8Array(this.exports.memory.buffer).set(bytes, at);
  }

  /** Passes a text without its length. */
  passText(text: string): void {
    const bytes = new TextEncoder().encode(text);
    const at = this.exports.input(bytes.length);
    new Uint8Array(this.exports.memory.buffer).set(bytes, at);
  }

  /** What the last function has answered. */
  read(length: number): Reader {
    const at = this.exports.output();
    return new Reader(new Uint8Array(this.exports.memory.buffer).slice(at, at + length));
  }

  /** A duration in milliseconds: a number of them, or a text such as `50ms`, `2s` or `1h30m`. */
  duration(name: string, value: Duration | undefined): number | undefined {
    if (value === undefined || (typeof value === 'number' && value >= 0)) return value;
    if (typeof value === 'string') {
      this.passText(value);
      const milliseconds = this.exports.duration();
      if (milliseconds >= 0) return milliseconds;
    }
    const expected = 'a duration such as `50ms`, `2s` or `1h30m`, or a number of milliseconds';
    throw new TypeError(`${name}: expected ${expected}, not ${shown(value)}`);
  }
}

/** Milliseconds, or a text with units: `50ms`, `2s`, `15m`, `12h`, `7d`, `1h30m`. */
export type Duration = number | string;

/** A wrong value, in the text of an error. */
export const shown = (value: unknown): string =>
  typeof value === 'string' ? `\`${value}\`` : Array.isArray(value) ? 'an array' : value === null || typeof value !== 'object' ? String(value) : 'an object';

async function compiled(): Promise<WebAssembly.Module> {
  // Node's own decoders and compiler answer at once, which a cold start notices.
  const zlib = globalThis.process?.getBuiltinModule?.('node:zlib');
  if (zlib) return new WebAssembly.Module(zlib.inflateRawSync(Buffer.from(MODULE, 'base64')) as BufferSource);
  const packed = Uint8Array.from(atob(MODULE), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return WebAssembly.compile(await new Response(stream).arrayBuffer());
}

let loading: Promise<Core> | undefined;

export const core = (): Promise<Core> =>
  (loading ??= compiled().then((module) => new Core(new WebAssembly.Instance(module).exports as unknown as Exports)));
