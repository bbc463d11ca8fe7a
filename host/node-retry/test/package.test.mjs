// The package as npm has it: its size, its parts for other module systems and bundlers, and its types.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync, mkdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';

const here = join(import.meta.dirname, '..');
const manifest = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));

/** The most bytes that it may add to a program. */
const MOST = 40 * 1024;

test('without a policy, it has less than 40 KB gzipped, and no dependencies', () => {
  const read = (file) => readFileSync(join(here, 'dist/esm', file));
  // The other files are those of a worker, and of entry points of their own.
  assert.doesNotMatch(read('index.js').toString(), /from"\.\/chunk/);
  const size = gzipSync(read('index.js'), { level: 9 }).length;
  assert.ok(size < MOST, `${size} bytes`);
  assert.equal(manifest.dependencies, undefined);
});

test('CommonJS has the same parts', async () => {
  const require = createRequire(import.meta.url);
  const { RetryError, retrier, permanent } = require('backstop-retry');
  const { fullJitter } = require('backstop-retry/policies/full-jitter');
  const { TestClock } = require('backstop-retry/test');
  const { handler } = require('backstop-retry/lambda');
  const clock = new TestClock();
  const retry = await retrier({ policy: fullJitter, settings: { 'max-attempts': '2' }, clock });
  const error = await clock.run(() => retry(async () => { throw new Error('odd'); }).catch((thrown) => thrown));
  assert.ok(error instanceof RetryError && error.attempts === 2);
  const main = handler(() => retry(() => { throw permanent('CardDeclined'); }));
  await assert.rejects(main({}, { awsRequestId: 'r', getRemainingTimeInMillis: () => 9999 }), { name: 'CardDeclined' });
  const worker = await retrier({ policy: fullJitter, settings: { 'max-attempts': '1' }, timeLimit: '5s' });
  await assert.rejects(worker(async () => { throw new Error('odd'); }), { name: 'GaveUp' });
});

/** An empty folder that has the packed package installed, and is removed afterwards. */
function installed(t) {
  const folder = mkdtempSync(join(tmpdir(), 'backstop-retry-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const npm = (...words) => execFileSync('npm', words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
  const [{ filename }] = JSON.parse(npm('pack', here, '--json', '--silent', '--ignore-scripts'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  npm('install', '--silent', '--offline', '--no-audit', '--no-fund', `./${filename}`);
  return folder;
}

const PROGRAM = `
import { type Retrier, RetryError, retrier, success } from 'backstop-retry';
import { fullJitter } from 'backstop-retry/policies/full-jitter';
import { handler } from 'backstop-retry/lambda';
import { TestClock } from 'backstop-retry/test';

const clock = new TestClock();
const retry: Retrier = await retrier({ policy: fullJitter, settings: { 'max-attempts': '2' }, clock, observe: (event) => { if (event.type === 'retrying') event.delay.toFixed(); } });
const length: number = await retry(async ({ signal, number }) => { signal.throwIfAborted(); return number; }, { deadline: '2s', retryIfOk: (value) => value < 0 });
export const main = handler<{ id: string }, number>(async ({ id }, { deadline }) => retry(() => id.length, { deadline }));
try {
  await clock.run(() => retry(async () => success(new Response('', { status: 503 }))));
} catch (error) {
  if (error instanceof RetryError) console.log(length, error.name, error.attempts, error.code);
}
`;

test('packed and installed in an empty folder, it runs, its types hold, and bundlers take it', (t) => {
  const folder = installed(t);
  writeFileSync(join(folder, 'program.ts'), PROGRAM);
  mkdirSync(join(folder, 'node_modules/@types'), { recursive: true });
  symlinkSync(join(here, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  const tsc = join(here, 'node_modules/typescript/bin/tsc');
  const run = (...words) => execFileSync(process.execPath, words, { cwd: folder, encoding: 'utf8' });
  run(tsc, '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--noEmitOnError', 'program.ts');
  assert.equal(run('program.js'), '1 GaveUp 2 HTTP 503\n');
  // As for a Lambda function, in one file.
  const esbuild = join(here, 'node_modules/esbuild/bin/esbuild');
  execFileSync(esbuild, ['program.js', '--bundle', '--platform=node', '--format=esm', '--outfile=bundle.mjs', '--log-level=error'], { cwd: folder });
  assert.equal(run('bundle.mjs'), '1 GaveUp 2 HTTP 503\n');
  // The types of an exported policy and those of the package are written twice.
  mkdirSync(join(folder, 'card-payments'));
  copyFileSync(join(here, '../workbench/src/export/index.d.ts'), join(folder, 'card-payments/index.d.ts'));
  writeFileSync(join(folder, 'exported.ts'), "import { retrier } from 'backstop-retry';\nimport cardPayments from './card-payments/index.js';\nawait retrier({ policy: cardPayments });\n");
  run(tsc, '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--noEmit', 'exported.ts');
  writeFileSync(join(folder, 'common.cts'), "import { retrier } from 'backstop-retry';\nimport { linear } from 'backstop-retry/policies/linear';\nretrier({ policy: linear });\n");
  run(tsc, '--strict', '--target', 'es2022', '--module', 'nodenext', '--types', 'node', '--noEmitOnError', 'common.cts');
  run('common.cjs');
  const files = readdirSync(join(folder, 'node_modules/backstop-retry'));
  assert.deepEqual(files.sort(), ['README.md', 'dist', 'package.json']);
});
