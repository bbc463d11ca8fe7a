// sqs-consumer as its documentation shows it: several consumers that share a client, batches of ten, `handleMessageBatch`. Messages that fail are hidden with one more request, and not acknowledged.
// Usage: node sqs_consumer.mjs FOLDER_OF_NODE_MODULES URL ENDPOINT MESSAGES FAILING CONSUMERS … LOAD
import { createRequire } from "node:module";

const [folder, queueUrl, endpoint, messages, failing, consumers] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const begun = performance.now();
const { Consumer } = require("sqs-consumer");
const { ChangeMessageVisibilityBatchCommand, SQSClient } = require("@aws-sdk/client-sqs");
console.log(`import ${(performance.now() - begun) / 1000}`);
const { fails, WORK } = await import("./work.mjs");
const work = WORK[process.argv.at(-1)];

// Longer than a run.
const HIDDEN = 60;
const sqs = new SQSClient({ endpoint });
let left = Number(messages);
let started;

const handleMessageBatch = async (batch) => {
  await Promise.all(batch.map(work));
  const failed = batch.filter(({ Body }) => fails(Body, failing));
  if (failed.length === 0) return batch;
  await sqs.send(
    new ChangeMessageVisibilityBatchCommand({
      QueueUrl: queueUrl,
      Entries: failed.map(({ ReceiptHandle }, id) => ({ Id: String(id), ReceiptHandle, VisibilityTimeout: HIDDEN })),
    }),
  );
  settled(failed.length);
  return batch.filter((message) => !failed.includes(message));
};

const settled = (count) => {
  left -= count;
  if (left === 0) console.log(`end ${(performance.now() - started) / 1000}`);
};

const all = Array.from({ length: Number(consumers) }, () =>
  Consumer.create({ queueUrl, sqs, batchSize: 10, waitTimeSeconds: 20, suppressFifoWarning: true, handleMessageBatch }),
);
for (const consumer of all) {
  // Emitted for each message of a batch that was deleted.
  consumer.on("message_processed", () => settled(1));
  consumer.on("error", (error) => console.error(error));
  consumer.on("processing_error", (error) => console.error(error));
}
console.log("start");
started = performance.now();
all.forEach((consumer) => consumer.start());
process.stdin.on("end", () => process.exit()).resume();
