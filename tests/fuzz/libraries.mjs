// The keys of the real Powertools for AWS Lambda (TypeScript): a request on each line of standard input, an answer on each line of standard output.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(`${process.argv[2]}/`);
const { DynamoDBClient } = require("@aws-sdk/client-dynamodb");
const { IdempotencyConfig } = require("@aws-lambda-powertools/idempotency");
const { DynamoDBPersistenceLayer } = require("@aws-lambda-powertools/idempotency/dynamodb");
const { search } = require("@aws-lambda-powertools/jmespath");
const { PowertoolsFunctions } = require("@aws-lambda-powertools/jmespath/functions");
console.warn = () => {};
const client = new DynamoDBClient({ region: "eu-west-1", endpoint: "http://127.0.0.1:1" });

function answer({ path, event }) {
  const jmesPathOptions = new PowertoolsFunctions();
  const config = new IdempotencyConfig({ eventKeyJmesPath: path, jmesPathOptions });
  const store = new DynamoDBPersistenceLayer({ tableName: "none", awsSdkV3Client: client });
  store.configure({ config, keyPrefix: "orders" });
  try {
    return { key: store.getHashedIdempotencyKey(JSON.parse(event)) };
  } catch (error) {
    // An expression that is none is found only when it is used.
    return /Parse|Lexer|EmptyExpression/.test(error.name) ? { path: error.message } : { error: `${error.name}: ${error.message}` };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(answer(JSON.parse(line))));
}
