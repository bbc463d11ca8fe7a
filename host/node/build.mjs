// Builds the package into dist: one file of JavaScript, an entry for ES modules, and the types. With `--addon`, also the addon of this machine, with cargo.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { build } from 'esbuild';

const here = import.meta.dirname;
const dist = join(here, 'dist');

rmSync(dist, { recursive: true, force: true });
mkdirSync(join(dist, 'types'), { recursive: true });

// CommonJS, since an addon is required; and one file, so that each class is one class for both kinds of modules.
await build({ entryPoints: [join(here, 'ts/index.ts')], outfile: join(dist, 'index.js'), bundle: true, platform: 'node', target: 'node20', format: 'cjs', keepNames: true, logLevel: 'warning' });

const names = Object.keys(createRequire(import.meta.url)('./dist/index.js'));
writeFileSync(join(dist, 'index.mjs'), `import all from './index.js';\nexport const { ${names.join(', ')} } = all;\n`);

execFileSync(process.execPath, [join(here, 'node_modules/typescript/bin/tsc'), '--project', here, '--outDir', join(dist, 'types')], { stdio: 'inherit' });
writeFileSync(join(dist, 'types/index.d.mts'), "export * from './node/ts/index.js';\n");

if (process.argv.includes('--addon')) {
  const top = join(here, '../..');
  execFileSync('cargo', ['build', '--locked', '--release', '--package', 'backstop-node'], { cwd: top, stdio: 'inherit' });
  copyFileSync(join(process.env.CARGO_TARGET_DIR ?? join(top, 'target'), 'release/libbackstop_node.so'), join(dist, 'backstop.node'));
}
