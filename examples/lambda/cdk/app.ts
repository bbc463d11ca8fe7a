import { existsSync } from "node:fs";
import * as path from "node:path";
import { App, CfnOutput, Duration, Stack } from "aws-cdk-lib";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as sns from "aws-cdk-lib/aws-sns";
import { RetriedFunction, loggedFunction } from "./retried-function.js";

// The compiled file is in build/.
const here = path.join(__dirname, "..");

const app = new App();
const stack = new Stack(app, "backstop-lambda", {
  description: "An asynchronous function whose failed events are tried again under a Backstop policy.",
});

/** What `--context NAME=VALUE` says. */
const context = (name: string): string | undefined => app.node.tryGetContext(name);

const made = path.join(here, "..", "..", "..", "target", "lambda", "backstop-lambda-arm64.zip");
const handlerZip = context("handlerZip") ?? made;
if (!existsSync(handlerZip)) {
  console.error(`${handlerZip} is not there: \`make lambda\` makes it`);
  process.exit(1);
}
const alarmTopicArn = context("alarmTopicArn");

// Your function in its place.
const fn = loggedFunction(stack, "Function", {
  code: lambda.Code.fromAsset(path.join(here, "..", "function")),
  handler: "app.handler",
  runtime: lambda.Runtime.PYTHON_3_13,
  architecture: lambda.Architecture.ARM_64,
  memorySize: 128,
  timeout: Duration.seconds(30),
});

const retried = new RetriedFunction(stack, "Retries", {
  function: fn,
  handlerZip,
  policy: context("policy"),
  policySettings: context("policySettings"),
  alarmTopic: alarmTopicArn === undefined ? undefined : sns.Topic.fromTopicArn(stack, "AlarmTopic", alarmTopicArn),
});

const outputs = {
  FunctionName: fn.functionName,
  FunctionLogs: fn.logGroup.logGroupName,
  RetryHandlerLogs: retried.handler.logGroup.logGroupName,
  RetryQueueArn: retried.retryQueue.queueArn,
  DeadLetterQueueArn: retried.deadLetterQueue.queueArn,
};
for (const [name, value] of Object.entries(outputs)) {
  // FunctionLogs is taken as a construct's id, and is free as an output's name.
  new CfnOutput(stack, `${name}Output`, { value }).overrideLogicalId(name);
}
