// What the tests share.
import { createServer } from 'node:http';
import { once } from 'node:events';

/** An error as the policies see it, with a code and a status. */
export const failing = (code, more = {}) => Object.assign(new Error('text'), { code, ...more });

/** A server that answers with these statuses and headers, one after another, and then always with the last. */
export async function server(t, ...answers) {
  const seen = [];
  const http = createServer((request, response) => {
    seen.push(request.url);
    const [status, headers = {}] = answers.length > 1 ? answers.shift() : answers[0];
    response.writeHead(status, headers).end('body');
  });
  await once(http.listen(0, '127.0.0.1'), 'listening');
  t.after(() => http.close().closeAllConnections());
  return { url: `http://127.0.0.1:${http.address().port}/`, seen };
}
