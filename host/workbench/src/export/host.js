// What a policy gets of its surroundings, as in a host of Backstop: its log, no payload unless it is given one, the default classification, and a WASI that grants nothing. No clock, no file, no network, no randomness but what derives from the failure.

/** What is kept of a decision's log, as in a host. */
const LOG_BYTES = 4096;
const LOG_LINES = 256;

/** How many answers an instance gives that lives on: some languages free no memory. */
const ANSWERS = 100;

/** What a call to anything else does. */
class NotGranted extends Error {
  constructor(what) {
    super(`it calls ${what}, which grants nothing`);
    this.name = 'NotGranted';
  }
}

/** The state of one instance: what its functions read and write. */
class Surroundings {
  constructor(rules) {
    this.rules = rules;
    this.begin(0, undefined);
  }

  /** Begins a decision: everything that is counted for one starts again. */
  begin(random, payload) {
    this.random = random;
    this.payload = payload;
    this.blocks = 0;
    this.log = [];
    this.logged = 0;
    this.printed = [];
  }

  write(level, message) {
    const text = cut(message, LOG_BYTES - this.logged);
    if (text === '' || this.log.length >= LOG_LINES) return;
    this.logged += encoder.encode(text).length;
    this.log.push({ level, message: text });
  }

  print(bytes) {
    const kept = bytes.subarray(0, Math.max(0, LOG_BYTES - this.logged));
    this.logged += kept.length;
    this.printed.push(...kept);
  }

  /** The lines of the decision: what it logged, then what it printed. */
  lines() {
    const printed = decoder.decode(new Uint8Array(this.printed)).split(/\r?\n/);
    const lines = printed.filter((line) => line.trim() !== '');
    return [...this.log, ...lines.map((message) => ({ level: 'stderr', message }))].slice(0, LOG_LINES);
  }

  bytes(length) {
    const bytes = new Uint8Array(Number(length));
    for (let at = 0; at < bytes.length; at += 32) {
      this.blocks += 1;
      bytes.set(this.rules.randomBlock(this.random, this.blocks).subarray(0, bytes.length - at), at);
    }
    return bytes;
  }

  number() {
    return this.bytes(8n).reduce((number, byte) => (number << 8n) | BigInt(byte), 0n);
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The start of a text, in at most so many bytes, cut between two characters. */
function cut(text, most) {
  if (text.length * 3 <= most) return text;
  const { read } = encoder.encodeInto(text, new Uint8Array(Math.max(0, most)));
  return text.slice(0, read);
}

class InputStream {
  read() {
    throw { tag: 'closed' };
  }
  blockingRead() {
    throw { tag: 'closed' };
  }
}

class Pollable {
  ready() {
    return true;
  }
  block() {}
}

class IoError {}

/** The interfaces that answer, without their versions. Those of a resource's class are the same for all of them. */
function known(around) {
  class OutputStream {
    checkWrite() {
      return 4096n;
    }
    write(bytes) {
      around.print(bytes);
    }
    blockingWriteAndFlush(bytes) {
      around.print(bytes);
    }
    flush() {}
    blockingFlush() {}
  }
  const none = () => undefined;
  const randomness = { bytes: (length) => around.bytes(length), number: () => around.number() };
  return {
    'backstop:policy/log': { log: (level, message) => around.write(level, message) },
    'backstop:policy/payload': { get: (pointer) => around.payload?.(pointer) },
    'backstop:policy/default-classifier': { classify: (error) => ({ tag: around.rules.classify(error) }) },
    'wasi:cli/environment': { getEnvironment: () => [], getArguments: () => [], initialCwd: none },
    'wasi:cli/stdin': { getStdin: () => new InputStream() },
    'wasi:cli/stdout': { getStdout: () => new OutputStream() },
    'wasi:cli/stderr': { getStderr: () => new OutputStream() },
    'wasi:cli/terminal-stdin': { getTerminalStdin: none },
    'wasi:cli/terminal-stdout': { getTerminalStdout: none },
    'wasi:cli/terminal-stderr': { getTerminalStderr: none },
    'wasi:clocks/monotonic-clock': {
      now: () => 1n,
      resolution: () => 1n,
      subscribeDuration: () => new Pollable(),
      subscribeInstant: () => new Pollable(),
    },
    'wasi:clocks/wall-clock': {
      now: () => ({ seconds: 0n, nanoseconds: 0 }),
      resolution: () => ({ seconds: 1n, nanoseconds: 0 }),
    },
    'wasi:filesystem/preopens': { getDirectories: () => [] },
    'wasi:io/error': { Error: IoError },
    'wasi:io/poll': { Pollable, poll: (waiting) => Uint32Array.from(waiting, (_, index) => index) },
    'wasi:io/streams': { InputStream, OutputStream },
    'wasi:random/random': { getRandomBytes: randomness.bytes, getRandomU64: randomness.number },
    'wasi:random/insecure': { getInsecureRandomBytes: randomness.bytes, getInsecureRandomU64: randomness.number },
    'wasi:random/insecure-seed': { insecureSeed: () => [randomness.number(), randomness.number()] },
  };
}

/** The functions for one instance: what is not known can be imported, and throws when it is called. */
function imports(around) {
  const interfaces = known(around);
  const nothing = (what) =>
    class {
      constructor() {
        throw new NotGranted(what);
      }
    };
  return new Proxy(interfaces, {
    get: (all, name) => {
      const [unversioned] = String(name).split('@');
      const members = all[unversioned] ?? {};
      return new Proxy(members, {
        get: (its, member) => its[member] ?? refusing(`${unversioned}#${String(member)}`, nothing),
      });
    },
  });
}

/** A function that refuses to be called, or a class that has no instance: the generated code distinguishes them by their name. */
function refusing(what, nothing) {
  const member = what.slice(what.indexOf('#') + 1);
  if (/^[A-Z]/.test(member)) return nothing(what);
  return () => {
    throw new NotGranted(what);
  };
}

/** The rules of the host that a policy may need: the default classification, the defaults of questions that it does not answer, and the derivation of random bytes. They are the host's own, in WebAssembly. */
export function rulesOf(module) {
  const { exports } = new WebAssembly.Instance(module, {});
  const given = (text) => {
    const bytes = encoder.encode(text);
    const at = exports.input(bytes.length);
    new Uint8Array(exports.memory.buffer).set(bytes, at);
  };
  const answered = (length) => new Uint8Array(exports.memory.buffer).slice(exports.output(), exports.output() + length);
  const CLASSES = ['transient', 'throttled', 'permanent', 'other'];
  return {
    classify: (error) => (given(error.code), CLASSES[exports.classify(error.status ?? -1)]),
    /** Why the message is given up; undefined if it is retried. */
    reason: (failure, errorClass) => {
      given(failure.error.code);
      const length = exports.reason(CLASSES.indexOf(errorClass.tag));
      return length < 0 ? undefined : decoder.decode(answered(length));
    },
    delay: (failure) => exports.delay(failure.attempt, failure.random, failure.error.retryAfter ?? -1) >>> 0,
    randomBlock: (random, block) => answered(exports.random_block(random, block)),
  };
}

/** Why a policy gave no answer. */
class Broken extends Error {
  constructor(kind, text) {
    super(text);
    this.kind = kind;
  }
}

const QUESTIONS = {
  settings: ['configure', 'settings'],
  classifier: ['classify', 'classifier'],
  deadLettering: ['judge', 'dead-lettering'],
  backoff: ['delay', 'backoff'],
  outage: ['downFor', 'outage'],
};

/** One instance with its settings. */
class Instance {
  constructor(definition, modules, rules, settings) {
    this.rules = rules;
    this.around = new Surroundings(rules);
    this.settings = settings;
    this.answers = 0;
    this.start = () => {
      const found = definition.instantiate((name) => modules[name], imports(this.around));
      this.exports = Object.fromEntries(
        Object.entries(QUESTIONS).map(([key, [, name]]) => [key, found[`backstop:policy/${name}@0.1.0`]]),
      );
    };
  }

  call(phase, work) {
    try {
      return work();
    } catch (error) {
      throw new Broken('trapped', `failed in ${phase}: ${error?.message ?? error}`);
    }
  }

  configure() {
    this.call('its start', this.start);
    const pairs = Object.entries(this.settings);
    if (!this.exports.settings) {
      if (pairs.length === 0) return;
      const names = pairs.map(([name]) => `\`${name}\``).join(', ');
      throw new Broken('no-settings', `takes no settings, but has ${names}: it does not export backstop:policy/settings`);
    }
    try {
      this.exports.settings.configure(pairs);
    } catch (error) {
      if (typeof error?.payload !== 'string') throw new Broken('trapped', `failed in configure: ${error?.message ?? error}`);
      throw new Broken('rejected-settings', `refuses its settings: ${error.payload}`);
    }
  }

  /** Classify and judge; then, on `retry`, delay; at last, whether there is an outage. */
  answer(failure) {
    const { classifier, deadLettering, backoff, outage } = this.exports;
    const errorClass = classifier
      ? this.call('classify', () => classifier.classify(failure.error))
      : { tag: this.rules.classify(failure.error) };
    const verdict = deadLettering
      ? this.call('judge', () => deadLettering.judge(failure, errorClass))
      : byDefault(this.rules.reason(failure, errorClass));
    const answer = { class: errorClass, verdict };
    if (verdict.tag === 'retry') {
      answer.delay = backoff ? this.call('delay', () => backoff.delay(failure, errorClass)) : this.rules.delay(failure);
    }
    if (outage) answer.downFor = this.call('down-for', () => outage.downFor(failure, errorClass));
    return answer;
  }
}

const byDefault = (reason) => (reason === undefined ? { tag: 'retry' } : { tag: 'dead-letter', val: reason });

/** A loaded policy: its modules are compiled. */
class Loaded {
  #definition;
  #modules;
  #rules;
  #live;

  constructor(definition, modules, rules) {
    this.#definition = definition;
    this.#modules = modules;
    this.#rules = rules;
  }

  /** Evaluates the policy for one failure: in a fresh instance, or in one that lives on with these settings. Never throws because of the policy. */
  evaluate(failure, { settings = {}, payload, live = false } = {}) {
    let instance = live ? this.#live : undefined;
    const isNew = instance?.settings !== settings || instance.answers >= ANSWERS;
    if (isNew) instance = new Instance(this.#definition, this.#modules, this.#rules, settings);
    instance.around.begin(failure.random, payload);
    try {
      if (isNew) instance.configure();
      const answer = instance.answer(failure);
      instance.answers += 1;
      if (live) this.#live = instance;
      return { answer, log: instance.around.lines() };
    } catch (error) {
      // An instance that has failed is not used again.
      this.#live = undefined;
      if (!(error instanceof Broken)) throw error;
      return { broken: { kind: error.kind, text: `the policy ${error.message}` }, log: instance.around.lines() };
    }
  }
}

/** The bytes of a file next to this module. Node's fetch reads no files. */
async function read(url) {
  if (url.protocol !== 'file:') {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`can't load ${url}: HTTP ${response.status}`);
    return response.arrayBuffer();
  }
  const { readFile } = await import(/* webpackIgnore: true */ /* @vite-ignore */ 'node:fs/promises');
  return readFile(url);
}

function decoded(base64) {
  if (globalThis.Buffer) return Buffer.from(base64, 'base64');
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Node.js 20 does not know sums in constants, which the runtimes of Python and JavaScript have. */
async function compiled(source, { name, node }) {
  const bytes = typeof source === 'string' ? decoded(source) : await read(source);
  try {
    return await WebAssembly.compile(bytes);
  } catch (error) {
    if (node === undefined) throw error;
    const flag = 'or 20 with the flag --experimental-wasm-extended-const';
    throw new Error(`the policy ${name} needs Node.js ${node} or later, ${flag}: ${error.message}`, { cause: error });
  }
}

/** A policy of these parts. Its modules are compiled when it is loaded, once. */
export function policy(definition) {
  let loading;
  const load = async () => {
    const names = Object.keys(definition.modules);
    const modules = await Promise.all(names.map((name) => compiled(definition.modules[name], definition)));
    const rules = definition.rules && rulesOf(await compiled(definition.rules, definition));
    return new Loaded(definition, Object.fromEntries(names.map((name, index) => [name, modules[index]])), rules);
  };
  const { name, version, digest, url } = definition;
  return { name, version, digest, url, pure: definition.pure ?? false, load: () => (loading ??= load()) };
}
