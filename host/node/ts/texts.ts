// Options and settings as the texts that the crates read.

/** The value of a policy's setting: durations are texts such as `'2s'`. */
export type Setting = string | number | boolean | readonly string[];

/** The settings of a policy by name: the names that the policy documents, or with capitals for dashes. */
export type Settings = Readonly<Record<string, Setting>>;

/** A wrong value, in the text of an error. */
export const shown = (value: unknown): string =>
  typeof value === 'string' ? `\`${value}\`` : Array.isArray(value) ? 'an array' : typeof value === 'function' ? 'a function' : value === null || typeof value !== 'object' ? String(value) : 'an object';

/** maxInFlight is max_in_flight, as the crates name it. */
export const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

/** An error of the crates, with the names that options have here. */
export const camel = (text: string): string => {
  const named = (name: string) => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return text.replace(/^[a-z_]+(?=[: ])/, named).replaceAll(/`([a-z]+(?:_[a-z]+)+)`/g, (_, name: string) => `\`${named(name)}\``);
};

/** An option as texts, as the command line would have it. */
export function texts(name: string, value: unknown): string[] {
  if (name === 'settings' || name === 'shadowSettings') return settings(name, value).map(({ name: key, text }) => `${key}=${text}`);
  if (Array.isArray(value)) return value.map((it) => scalar(name, it));
  if (typeof value === 'object' && value !== null) return Object.entries(value).map(([key, it]) => `${key}=${scalar(name, it)}`);
  return [scalar(name, value)];
}

/** Settings as texts, by the names that the policy documents. */
export function settings(name: string, value: unknown): { name: string; text: string }[] {
  if (value === undefined) return [];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new TypeError(`${name}: expected an object such as { base: '2s' }, not ${shown(value)}`);
  return Object.entries(value).map(([key, it]) => ({
    name: key.replaceAll('_', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    text: Array.isArray(it) ? it.map((part) => scalar(`${name}.${key}`, part)).join(',') : scalar(`${name}.${key}`, it),
  }));
}

function scalar(name: string, value: unknown): string {
  if (typeof value === 'string' || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)) || typeof value === 'bigint') return String(value);
  if (value instanceof URL) return value.protocol === 'file:' ? path(value) : value.href;
  throw new TypeError(`${name}: expected a text, a number or a boolean, not ${shown(value)}`);
}

const path = (url: URL): string => (require('node:url') as typeof import('node:url')).fileURLToPath(url);
