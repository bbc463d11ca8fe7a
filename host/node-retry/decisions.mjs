// Compares the decisions of an exported policy with those of the engine: node decisions.mjs FOLDER DECISIONS SETTINGS. DECISIONS has a failure and the engine's answer in each line; SETTINGS is a JSON object.
import { deepStrictEqual } from 'node:assert';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, decisions, given] = process.argv.slice(2);
const { default: policy } = await import(pathToFileURL(join(folder, 'index.js')));
const loaded = await policy.load();
const settings = JSON.parse(given);

/** message-id is messageId. */
const camel = (value) =>
  Object.fromEntries(Object.entries(value).map(([name, it]) => [name.replace(/-(.)/g, (_, letter) => letter.toUpperCase()), it]));

/** Who applies an answer cuts its reason, as the engine has: at 1024 bytes, between two characters. */
const cut = (reason) => reason?.slice(0, new TextEncoder().encodeInto(reason, new Uint8Array(1024)).read);

const shown = ({ answer, broken }) =>
  broken ?? {
    class: answer.class.tag === 'other' ? `other:${answer.class.val}` : answer.class.tag,
    verdict: answer.verdict.tag,
    reason: cut(answer.verdict.val) ?? null,
    delay: answer.delay ?? null,
    'down-for': answer.downFor ?? null,
  };

let count = 0;
for (const line of readFileSync(decisions, 'utf8').split('\n').filter(Boolean)) {
  const { failure: recorded, answer } = JSON.parse(line);
  const failure = { attributes: [], ...camel(recorded), error: { message: '', details: [], ...camel(recorded.error) } };
  // A fresh instance is what a host has. It takes milliseconds, so most failures are decided by one that lives on.
  const live = count % 500 !== 0;
  deepStrictEqual(shown(loaded.evaluate(failure, { settings, live })), answer, line);
  count += 1;
}
console.log(`${count} decisions are the same`);
