#!NODE
// What AWS's runtime for Node.js does around `main` of handler.mjs, with the Runtime API. MEASURES makes the answer its times instead: how long the import and the first event took, in milliseconds.
const { existsSync, symlinkSync } = require('node:fs');
const { request } = require('node:http');
const { join } = require('node:path');

// The packages, which the function's own would have in its folder.
const modules = join(__dirname, 'node_modules');
if (process.env.NODE_MODULES && !existsSync(modules)) symlinkSync(process.env.NODE_MODULES, modules);

const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation/`;

/** The headers and the body of an answer. */
const ask = (method, path, headers = {}, body = '') =>
  new Promise((resolve, reject) => {
    const asked = request(api + path, { method, headers: { ...headers, 'Content-Length': Buffer.byteLength(body) } }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part) => { text += part; }).on('end', () => resolve([answer.headers, text])).on('error', reject);
    });
    asked.on('error', reject).end(body);
  });

async function run() {
  const began = performance.now();
  const { main } = await import(join(__dirname, 'handler.mjs'));
  const imported = performance.now() - began;
  for (;;) {
    const [headers, event] = await ask('GET', 'next');
    const awsRequestId = headers['lambda-runtime-aws-request-id'];
    const ends = Number(headers['lambda-runtime-deadline-ms'] ?? Date.now() + 30_000);
    const context = { awsRequestId, functionName: process.env.AWS_LAMBDA_FUNCTION_NAME, getRemainingTimeInMillis: () => Math.max(0, ends - Date.now()) };
    const started = performance.now();
    let ended = 'response';
    let body = await Promise.resolve().then(() => main(JSON.parse(event), context)).catch((error) => {
      ended = 'error';
      return { errorType: error.name, errorMessage: error.message };
    });
    if (process.env.MEASURES) body = { imported, handled: performance.now() - started, answer: body };
    console.log('handled', awsRequestId);
    await ask('POST', `${awsRequestId}/${ended}`, ended === 'error' ? { 'Lambda-Runtime-Function-Error-Type': body.errorType } : {}, JSON.stringify(body) ?? 'null');
  }
}

run();
