// Builds the package into dist: the module of the rules with cargo, the built-in policies with the `backstop` command, and the sources with tsc and esbuild.
//
// BACKSTOP names the command, which is target/debug/backstop otherwise.
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import zopfli from '@gfx/zopfli';
import { build, transform } from 'esbuild';

const here = import.meta.dirname;
const top = join(here, '../..');
const dist = join(here, 'dist');
const work = join(dist, 'build');
const target = process.env.CARGO_TARGET_DIR ?? join(top, 'target');
const backstop = process.env.BACKSTOP ?? join(target, 'debug/backstop');
const run = (command, ...words) => execFileSync(command, words, { cwd: here, stdio: ['ignore', 'ignore', 'inherit'] });

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, 'policies'), { recursive: true });

// A text in the JavaScript: there is no file to find for a bundler, and none to read at a cold start.
run(join(here, 'build.sh'), work);
const packed = Buffer.from(await zopfli.deflateAsync(readFileSync(join(work, 'retrier.wasm')), { numiterations: 30 }));
writeFileSync(join(here, 'ts/module.ts'), `// Made by build.mjs: the retrier in WebAssembly, packed.\nexport const MODULE = '${packed.toString('base64')}';\n`);

run(process.execPath, join(here, 'node_modules/typescript/bin/tsc'), '--project', here, '--outDir', join(dist, 'types'));

const common = { platform: 'neutral', target: 'es2022', minify: true, keepNames: false, logLevel: 'warning' };
const entries = ['index', 'lambda', 'test'];
// One file for the retrier: a cold start reads no second one.
const shared = {
  name: 'shared',
  setup: ({ onResolve }) => onResolve({ filter: /^\.\/(core|errors)\.js$/ }, ({ importer }) => (importer.endsWith('lambda.ts') ? { path: './index.js', external: true } : undefined)),
};
await build({
  ...common,
  entryPoints: entries.map((name) => join(here, `ts/${name}.ts`)),
  outdir: join(dist, 'esm'),
  bundle: true,
  splitting: true,
  format: 'esm',
  external: ['node:*'],
  plugins: [shared],
});

// CommonJS has no shared parts of bundles: each file by itself, so that `RetryError` is one class.
mkdirSync(join(dist, 'cjs'));
for (const file of readdirSync(join(here, 'ts'))) {
  const source = readFileSync(join(here, 'ts', file), 'utf8');
  const { code } = await transform(source, { loader: 'ts', format: 'cjs', target: 'es2022', minify: true });
  writeFileSync(join(dist, 'cjs', file.replace('.ts', '.cjs')), code.replaceAll(/(["'`]\.\/[a-z]+)\.js/g, '$1.cjs').replaceAll(/import\(("\.[^)]*)\)/g, 'Promise.resolve(require($1))'));
}

const POLICIES = ['aws-sdk-2.0', 'aws-sdk-2.1', 'decorrelated-jitter', 'equal-jitter', 'full-jitter', 'linear'];
for (const name of POLICIES) {
  const folder = join(work, name);
  run(backstop, 'policy', 'export', name, '--javascript', '--inline', '--out', folder);
  // full-jitter is fullJitter, and aws-sdk-2.1 is awsSdk21
  const identifier = name.replaceAll('.', '').replaceAll(/-(.)/g, (_, letter) => letter.toUpperCase());
  for (const [format, extension] of [['esm', 'js'], ['cjs', 'cjs']]) {
    await build({
      ...common,
      stdin: { contents: `import policy from './index.js'; export { policy as ${identifier}, policy as default };`, resolveDir: folder },
      outfile: join(dist, 'policies', `${name}.${extension}`),
      bundle: true,
      format,
      external: ['node:*'],
      ...(format === 'cjs' && { define: { 'import.meta.url': '__address' }, banner: { js: 'const __address = require("node:url").pathToFileURL(__filename).href;' } }),
    });
  }
  for (const [types, extension] of [['d.ts', 'js'], ['d.cts', 'cjs']]) {
    writeFileSync(join(dist, 'policies', `${name}.${types}`), `import type { Policy } from '../types/index.${extension}';\nexport declare const ${identifier}: Policy;\nexport default ${identifier};\n`);
  }
}

for (const file of readdirSync(join(dist, 'types'))) {
  const source = readFileSync(join(dist, 'types', file), 'utf8');
  writeFileSync(join(dist, 'types', file.replace('.d.ts', '.d.cts')), source.replaceAll(/(['"]\.\/[a-z]+)\.js/g, '$1.cjs'));
}
cpSync(join(top, 'LICENSE'), join(here, 'dist/LICENSE'));
rmSync(work, { recursive: true });
