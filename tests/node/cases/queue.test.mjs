// Workers as processes on a queue of an emulator: killed, frozen and stopped, and nothing is lost.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { CreateQueueCommand, GetQueueAttributesCommand, ReceiveMessageCommand, SQSClient, SendMessageBatchCommand, SendMessageCommand } from '@aws-sdk/client-sqs';
import { worker } from 'backstop-sqs';

import { program, sleep } from './queues.mjs';

const endpoint = readFileSync('endpoint', 'utf8');
const sqs = new SQSClient({ endpoint });

const WORKER = `
  import { appendFileSync } from 'node:fs';
  import { worker, permanent } from 'backstop-sqs';
  const [queueUrl, log, endpointUrl] = process.argv.slice(-3);
  const handle = async (message) => {
    await new Promise((resolve) => setTimeout(resolve, 10));
    appendFileSync(log, message.body + '\\n');
    if (message.body % 7 === 0 && message.receiveCount === 1) throw Object.assign(new Error('busy'), { status: 503 });
    if (message.body % 50 === 49) throw permanent('NoSuchArticle');
  };
  await worker({ queueUrl, endpointUrl, handle, settings: { base: '10ms', cap: '20ms' }, visibilityTimeout: '5s', maxInFlight: 20, cache: 'off' }).run();
`;

async function queue() {
  const name = `node-${randomUUID()}`;
  const { QueueUrl: dead } = await sqs.send(new CreateQueueCommand({ QueueName: `${name}-dead` }));
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl: dead, AttributeNames: ['QueueArn'] }));
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: '1000' });
  const { QueueUrl: url } = await sqs.send(new CreateQueueCommand({ QueueName: name, Attributes: { RedrivePolicy, VisibilityTimeout: '5' } }));
  return { url, dead };
}

async function waiting(QueueUrl) {
  const AttributeNames = ['ApproximateNumberOfMessages', 'ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesDelayed'];
  const { Attributes } = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames }));
  return AttributeNames.reduce((sum, name) => sum + Number(Attributes[name]), 0);
}

/** The bodies of all messages, without copies: a worker that is killed may have sent a dead letter that it has not counted. */
async function bodies(QueueUrl) {
  const found = new Set();
  for (;;) {
    const { Messages } = await sqs.send(new ReceiveMessageCommand({ QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 600 }));
    if (!Messages?.length) return found;
    for (const { Body } of Messages) found.add(Body);
  }
}

async function send(QueueUrl, count) {
  for (let first = 0; first < count; first += 10) {
    const Entries = Array.from({ length: 10 }, (_, it) => ({ Id: String(it), MessageBody: String(first + it) }));
    const { Failed } = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
    assert(!Failed?.length);
  }
}

test('nothing is lost to workers that are killed, frozen and stopped', async () => {
  const { url, dead } = await queue();
  const count = 600;
  await send(url, count);
  writeFileSync('log', '');
  const start = () => program(WORKER, url, 'log', endpoint);
  const workers = [start(), start()];
  const until = Date.now() + 90_000;
  for (let disturbed = 0; (await waiting(url)) > 0 && Date.now() < until; ) {
    await sleep(700);
    if (disturbed >= 6) continue;
    disturbed += 1;
    const chosen = disturbed % 2;
    const { child, ended } = workers[chosen];
    if (disturbed % 3 === 1) {
      child.kill('SIGSTOP');
      await sleep(500);
      child.kill('SIGCONT');
      continue;
    }
    child.kill(disturbed % 3 === 0 ? 'SIGKILL' : 'SIGTERM');
    await ended;
    workers[chosen] = start();
  }
  assert.equal(await waiting(url), 0);
  for (const { child } of workers) child.kill('SIGTERM');
  for (const { ended } of workers) {
    const { code, signal, err } = await ended;
    // One that has just begun has no handler of the signal yet.
    assert(code === 0 || signal === 'SIGTERM', err);
  }
  const done = new Set(readFileSync('log', 'utf8').trim().split('\n').map(Number));
  assert.equal(done.size, count, 'each message came to a worker');
  assert.deepEqual(await bodies(dead), new Set(Array.from({ length: 12 }, (_, it) => String(50 * it + 49))));
});

test('attributes and times come from the queue', async () => {
  const { url } = await queue();
  const MessageAttributes = {
    tenant: { DataType: 'String', StringValue: 't-1' },
    key: { DataType: 'Binary', BinaryValue: Uint8Array.of(0, 255) },
    __proto__2: { DataType: 'Number', StringValue: '5' },
  };
  await sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'é', MessageAttributes }));
  const seen = [];
  const orders = worker({
    queueUrl: url,
    endpointUrl: endpoint,
    cache: 'off',
    handle: (message) => {
      seen.push(message);
      orders.stop();
    },
  });
  assert.equal((await orders.run()).succeeded, 1);
  const [{ body, attributes, sent }] = seen;
  assert.equal(body, 'é');
  assert.equal(attributes.tenant, 't-1');
  assert.deepEqual([...attributes.key], [0, 255]);
  assert.equal(attributes.__proto__2, '5');
  assert(Math.abs(sent.getTime() - Date.now()) < 60_000);
});

test('a queue that is not there is named', async () => {
  const orders = worker({ queueUrl: `${endpoint}/000000000000/nobody-has-made-it`, endpointUrl: endpoint, cache: 'off', handle() {} });
  await assert.rejects(orders.run(), /nobody-has-made-it/);
});

test('metrics, and the admin interface with its page, are those of the command', async () => {
  const { url } = await queue();
  let checked;
  const free = () => 20_000 + Math.floor(Math.random() * 20_000);
  const [metrics, admin] = [free(), free()].map((port) => `127.0.0.1:${port}`);
  const orders = worker({
    queueUrl: url,
    endpointUrl: endpoint,
    cache: 'off',
    metrics,
    admin,
    handle: async () => {
      const text = async (address) => (await fetch(`http://${address}`)).text();
      checked = [await text(`${metrics}/metrics`), await text(`${admin}/`), await text(`${admin}/v1/status`)];
      orders.stop();
    },
  });
  await sqs.send(new SendMessageCommand({ QueueUrl: url, MessageBody: 'a' }));
  await orders.run();
  assert.match(checked[0], /backstop_messages_received_total|backstop_/);
  assert.match(checked[1], /<!doctype html>/i);
  assert.match(checked[2], /full-jitter/);
});
