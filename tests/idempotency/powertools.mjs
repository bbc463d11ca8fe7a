// Calls the real Powertools for AWS Lambda (TypeScript): a request on each line of standard input, an answer on each line of standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout } from "node:timers/promises";

const require = createRequire(`${process.argv[2]}/`);
const { DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { IdempotencyConfig, makeIdempotent } = require("@aws-lambda-powertools/idempotency");
const { DynamoDBPersistenceLayer } = require("@aws-lambda-powertools/idempotency/dynamodb");
const { PowertoolsFunctions } = require("@aws-lambda-powertools/jmespath/functions");
console.warn = () => {};
const client = new DynamoDBClient({ endpoint: process.env.ENDPOINT });

function keyOf(store, event) {
  try {
    return store.getHashedIdempotencyKey(JSON.parse(event));
  } catch {
    return null;
  }
}

function keys(request) {
  const config = new IdempotencyConfig({
    eventKeyJmesPath: request.path,
    throwOnNoIdempotencyKey: true,
    jmesPathOptions: new PowertoolsFunctions(),
  });
  const store = new DynamoDBPersistenceLayer({ tableName: "none", awsSdkV3Client: client });
  store.configure({ config, keyPrefix: request.prefix });
  return { keys: request.events.map((event) => keyOf(store, event)) };
}

async function answer(request) {
  if (request.do === "keys") return keys(request);
  const event = JSON.parse(request.event);
  const config = new IdempotencyConfig({
    eventKeyJmesPath: request.path,
    ...(request.validate ? { payloadValidationJmesPath: request.validate } : {}),
    throwOnNoIdempotencyKey: true,
    jmesPathOptions: new PowertoolsFunctions(),
  });
  const persistenceStore = new DynamoDBPersistenceLayer({
    tableName: request.table,
    ...(request.sort_key ? { sortKeyAttr: request.sort_key } : {}),
    awsSdkV3Client: client,
  });
  if (request.do === "key") {
    persistenceStore.configure({ config, keyPrefix: request.prefix });
    return { key: persistenceStore.getHashedIdempotencyKey(event) };
  }
  if (request.remaining !== null) config.registerLambdaContext({ getRemainingTimeInMillis: () => request.remaining });
  let ran = false;
  const work = async () => {
    ran = true;
    await setTimeout(request.takes);
    if (request.do === "fail") throw new Error("on purpose");
    return JSON.parse(request.result);
  };
  const once = makeIdempotent(work, { persistenceStore, config, keyPrefix: request.prefix });
  try {
    const result = await once(event);
    return { result: JSON.stringify(result, (_, value) => (typeof value === "bigint" ? Number(value) : value)), ran };
  } catch (error) {
    return { error: error.name, ran };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await answer(JSON.parse(line))));
}
