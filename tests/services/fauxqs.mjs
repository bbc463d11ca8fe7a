// Starts fauxqs on the loopback address only: by itself it would listen on all. `/requests` tells benchmarks how many receives, deletes and changes of visibility it got. With a folder for its data, each change is there before it is answered. Usage: node fauxqs.mjs FOLDER_OF_FAUXQS PORT [DATA]
const [folder, port, data] = process.argv.slice(2);
const { buildApp } = await import(`${folder}/dist/app.js`);
const app = buildApp({ logger: false, ...(data && { stores: await kept(data) }) });
let requests = 0;
app.server.on("request", ({ headers }) => {
  if (/ReceiveMessage|DeleteMessage|ChangeMessageVisibility/.test(headers["x-amz-target"])) requests++;
});
app.get("/requests", () => String(requests));
await app.listen({ port: Number(port), host: "127.0.0.1" });

// Queues as they were when the last process with this folder ended, however it did.
async function kept(data) {
  const { PersistenceManager } = await import(`${folder}/dist/persistence.js`);
  const { SqsStore } = await import(`${folder}/dist/sqs/sqsStore.js`);
  const { SnsStore } = await import(`${folder}/dist/sns/snsStore.js`);
  const { S3Store } = await import(`${folder}/dist/s3/s3Store.js`);
  const [sqsStore, snsStore, s3Store] = [new SqsStore(), new SnsStore(), new S3Store()];
  const persistence = new PersistenceManager(data);
  // What is written is there for the next process; only a power cut could lose it.
  persistence.db.exec("PRAGMA synchronous = OFF");
  // Its own replaces the row of a queue that gets a tag, and the messages of the old one are deleted with it.
  const columns = ["name", "url", "arn", "attributes", "tags", "created_timestamp", "last_modified_timestamp", "sequence_counter"];
  const renewed = columns.slice(1).map((column) => `${column} = excluded.${column}`);
  const queue = persistence.db.prepare(`INSERT INTO sqs_queues (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET ${renewed}`);
  persistence.insertQueue = (it) =>
    queue.run(it.name, it.url, it.arn, JSON.stringify(it.attributes), JSON.stringify(Object.fromEntries(it.tags)), it.createdTimestamp, it.lastModifiedTimestamp, it.sequenceCounter);
  // Its own sets the receive count to NULL, which the table refuses, so a message that is made visible at once would be lost.
  const visible = persistence.db.prepare("UPDATE sqs_messages SET receipt_handle = NULL, visibility_deadline = NULL WHERE message_id = ?");
  persistence.updateMessageReady = (id) => visible.run(id);
  persistence.load(sqsStore, snsStore, s3Store);
  sqsStore.persistence = persistence;
  for (const queue of sqsStore.allQueues()) queue.persistence = persistence;
  return { sqsStore, snsStore, s3Store };
}
