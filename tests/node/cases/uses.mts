// What TypeScript in strict mode accepts and rejects of the package.
import { type BatchFailures, type Counts, type Decision, Message, Policy, Worker, logTo, permanent, retryAfter, run, success, unavailable, worker } from 'backstop-sqs';

const orders: Worker = worker({
  queueUrl: 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders',
  policy: 'orders.wasm',
  settings: { base: '2s', maxAttempts: 5, permanent: ['CardDeclined'] },
  maxInFlight: 100,
  attemptTimeout: '30s',
  handle: async (message, { signal }) => {
    const order: { article: string } = message.json<{ article: string }>();
    success(await fetch(`https://example.com/${order.article}`, { signal }));
    const tenant: string | Uint8Array | undefined = message.attributes.tenant;
    if (message.receiveCount > 3) throw permanent('NoSuchArticle', String(tenant));
    if (message.groupId === undefined) throw retryAfter('30s', 'Busy');
    throw unavailable();
  },
});

const batches = worker({
  queueUrl: new URL('https://sqs.eu-west-1.amazonaws.com/123456789012/bills'),
  batch: 10,
  handle: (messages) => {
    const failed: BatchFailures = new Map(messages.map((it: Message) => [it.id, new Error(it.body)]));
    return failed;
  },
});

const counts: Counts = await orders.run({ signal: AbortSignal.timeout(1000) });
const all: Record<string, Counts> = await run([orders, batches], { signals: false });
const total: number = counts.succeeded + (all.orders?.deadLettered ?? 0);

const policy: Policy = await Policy.load('full-jitter', { settings: { base: '2s' } });
const decision: Decision = policy.decide({ code: 'HTTP 503', attempt: 3 });
const delay: number = decision.verdict === 'retry' ? (decision.delay ?? 0) : total;
logTo((line) => console.log(line.level, line.text, delay), 'warn');

// @ts-expect-error the option has another name
worker({ queueUrl: 'local:q', maxInflight: 5, handle: () => {} });
// @ts-expect-error a worker has a handler
worker({ queueUrl: 'local:q' });
// @ts-expect-error without `batch`, a handler gets one message
worker({ queueUrl: 'local:q', handle: (messages: Message[]) => messages.length });
// @ts-expect-error a number
worker({ queueUrl: 'local:q', maxInFlight: '5', handle: () => {} });
// @ts-expect-error a class of errors is no message
new Message(5, 6);
