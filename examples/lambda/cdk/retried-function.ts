import { Duration, Names, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as iam from "aws-cdk-lib/aws-iam";
import * as lambda from "aws-cdk-lib/aws-lambda";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";

const TIMEOUT = Duration.seconds(60);
const RETENTION = Duration.days(14);
const MAX_MESSAGE_BYTES = 1024 * 1024;

export interface RetriedFunctionProps {
  /** The function whose failed asynchronous invocations are tried again. */
  readonly function: lambda.Function;
  /** The path of the handler's package, as `make lambda` makes it. */
  readonly handlerZip: string;
  /** The processor that the package is for; ARM_64 by default. */
  readonly architecture?: lambda.Architecture;
  /** The name of a policy, or its path in the package; full-jitter by default. */
  readonly policy?: string;
  /** The settings of the policy, separated by commas; base=30s,cap=6h by default. */
  readonly policySettings?: string;
  /** No event has more attempts, the first included, whatever the policy says; 12 by default. */
  readonly maxAttempts?: number;
  /** No event is tried again from this age, such as 6h or 3d; 14d by default, and at most. */
  readonly maxAge?: string;
  /** For how long Lambda itself goes on with one attempt that it throttles, before the policy decides; an hour by default. */
  readonly maxEventAge?: Duration;
  /** An alarm is raised when so many attempts fail within five minutes; 100 by default. */
  readonly manyFailures?: number;
  /** A topic that hears of every alarm. Without one, alarms show in CloudWatch alone. */
  readonly alarmTopic?: sns.ITopic;
}

/** Tries the failed asynchronous invocations of a function again under a Backstop policy. */
export class RetriedFunction extends Construct {
  /** A record lies here, hidden, until its retry is due. */
  readonly retryQueue: sqs.Queue;
  readonly deadLetterQueue: sqs.Queue;
  readonly handler: lambda.Function;

  constructor(scope: Construct, id: string, private readonly props: RetriedFunctionProps) {
    super(scope, id);
    // Named, since each of the queues names the other.
    const name = Names.uniqueResourceName(this, { maxLength: 60, separator: "-" });
    const retries = `${name}-retries`;
    const retriesArn = Stack.of(this).formatArn({ service: "sqs", resource: retries });
    this.deadLetterQueue = new sqs.Queue(this, "DeadLetterQueue", {
      queueName: `${name}-dead-letters`,
      retentionPeriod: RETENTION,
      maxMessageSizeBytes: MAX_MESSAGE_BYTES,
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      redriveAllowPolicy: {
        redrivePermission: sqs.RedrivePermission.BY_QUEUE,
        sourceQueues: [sqs.Queue.fromQueueArn(this, "RetryQueueByName", retriesArn)],
      },
    });
    this.retryQueue = new sqs.Queue(this, "RetryQueue", {
      queueName: retries,
      // At least six times the handler's timeout plus the mapping's batching window (none here).
      visibilityTimeout: Duration.seconds(6 * TIMEOUT.toSeconds()),
      retentionPeriod: RETENTION,
      maxMessageSizeBytes: MAX_MESSAGE_BYTES,
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      // Receives are not attempts: a record is received again and again while it waits, and each failed attempt is a new
      // message. The handler ends retries. This is for a record that the handler can't handle at all.
      deadLetterQueue: { queue: this.deadLetterQueue, maxReceiveCount: 1000 },
    });
    this.retry(props.function);
    this.handler = this.makeHandler();
    this.alarms();
    this.dashboard();
  }

  /** Has the failed events of the function written to the retry queue. */
  private retry(target: lambda.Function): void {
    // Not SqsDestination: it grants more than this.
    target.addToRolePolicy(allow(["sqs:SendMessage"], [this.retryQueue.queueArn]));
    target.configureAsyncInvoke({
      // The policy decides on retries, not Lambda.
      retryAttempts: 0,
      // Zero retries do not bound throttles and errors of Lambda itself: it goes on with those until this age.
      maxEventAge: this.props.maxEventAge ?? Duration.hours(1),
      onFailure: { bind: () => ({ destination: this.retryQueue.queueArn }) },
    });
    // Lambda would cut the loop from function to queue to handler to function after about 16 rounds.
    // The handler bounds attempts and age in its place.
    (target.node.defaultChild as lambda.CfnFunction).recursiveLoop = lambda.RecursiveLoop.ALLOW;
  }

  private makeHandler(): lambda.Function {
    const target = this.props.function.functionArn;
    const handler = loggedFunction(this, "Handler", {
      code: lambda.Code.fromAsset(this.props.handlerZip),
      handler: "bootstrap",
      runtime: lambda.Runtime.PROVIDED_AL2023,
      architecture: this.props.architecture ?? lambda.Architecture.ARM_64,
      memorySize: 256,
      timeout: TIMEOUT,
      recursiveLoop: lambda.RecursiveLoop.ALLOW,
      environment: {
        BACKSTOP_RETRY_QUEUE_URL: this.retryQueue.queueUrl,
        BACKSTOP_DEAD_LETTER_QUEUE_URL: this.deadLetterQueue.queueUrl,
        BACKSTOP_POLICY: this.props.policy ?? "full-jitter",
        BACKSTOP_SETTINGS: this.props.policySettings ?? "base=30s,cap=6h",
        BACKSTOP_MAX_ATTEMPTS: String(this.props.maxAttempts ?? 12),
        BACKSTOP_MAX_AGE: this.props.maxAge ?? "14d",
        // No other function is invoked, whatever a record says.
        BACKSTOP_FUNCTIONS: this.props.function.functionName,
        // Metrics of each batch, in the handler's log. The dashboard shows them.
        BACKSTOP_METRICS: "true",
      },
    });
    // Records that can't wait by visibility are sent again.
    const retries = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility", "sqs:SendMessage"];
    handler.addToRolePolicy(allow(retries, [this.retryQueue.queueArn]));
    handler.addToRolePolicy(allow(["sqs:SendMessage", "sqs:GetQueueAttributes"], [this.deadLetterQueue.queueArn]));
    // Whether the mapping has ReportBatchItemFailures. Lambda knows no resource for it.
    handler.addToRolePolicy(allow(["lambda:ListEventSourceMappings"], ["*"]));
    // A record names the version or alias that failed, and that one is invoked again.
    handler.addToRolePolicy(allow(["lambda:InvokeFunction"], [target, `${target}:*`]));
    // Apart from the role: it names the handler, which needs the role first.
    const recursion = new iam.Policy(this, "Recursion", {
      statements: [allow(["lambda:GetFunctionRecursionConfig"], [target, handler.functionArn])],
      roles: [handler.role!],
    });
    // Not SqsEventSource: it grants more than this.
    const mapping = new lambda.EventSourceMapping(this, "Mapping", {
      target: handler,
      eventSourceArn: this.retryQueue.queueArn,
      batchSize: 10,
      // Only what the handler reports goes back to the queue; the rest of its batch is done.
      reportBatchItemFailures: true,
      maxConcurrency: 10,
    });
    mapping.node.addDependency(recursion);
    return handler;
  }

  private alarms(): void {
    const target = this.props.function;
    this.alarm("TooManyHidden", {
      alarmDescription:
        "SQS hides at most 120000 messages of a queue, and hands out no more beyond that. Use a shorter cap, or another retry queue for some of the functions.",
      metric: this.retryQueue.metricApproximateNumberOfMessagesNotVisible({ statistic: cloudwatch.Stats.MAXIMUM }),
      threshold: 100_000,
    });
    this.alarm("Backlog", {
      alarmDescription:
        "Records wait for the handler. See whether its event source mapping is enabled, and whether the handler is throttled.",
      metric: this.retryQueue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.MINIMUM }),
      threshold: 100,
      evaluationPeriods: 3,
    });
    // On new letters, not on any: one that nobody has moved yet would keep an alarm on, which then says nothing of the next.
    this.alarm("DeadLetter", {
      alarmDescription: "An event was given up. The attributes of its dead letter say why.",
      // The handler's letters are counted when it sends them. Those that SQS moves are in no count of sends, so the number
      // of letters tells, whether somebody is reading them (hidden) or not. A queue that was idle has no metrics: that is 0.
      metric: new cloudwatch.MathExpression({
        label: "dead letters have arrived",
        expression: "IF(FILL(sent, 0) > 0 OR DIFF(FILL(visible, 0) + FILL(hidden, 0)) > 0, 1, 0)",
        usingMetrics: {
          sent: this.deadLetterQueue.metricNumberOfMessagesSent({ statistic: cloudwatch.Stats.SUM }),
          // Averages, since the average of a sum is the sum of the averages: a letter that becomes hidden is counted once.
          visible: this.deadLetterQueue.metricApproximateNumberOfMessagesVisible({ statistic: cloudwatch.Stats.AVERAGE }),
          hidden: this.deadLetterQueue.metricApproximateNumberOfMessagesNotVisible({ statistic: cloudwatch.Stats.AVERAGE }),
        },
      }),
    });
    this.alarm("OldDeadLetter", {
      alarmDescription:
        "A dead letter has waited for a week. The queue drops it two weeks after it was sent; one that SQS moved, two weeks after its record was. Redrive it or archive it.",
      metric: this.deadLetterQueue.metricApproximateAgeOfOldestMessage({ statistic: cloudwatch.Stats.MAXIMUM }),
      threshold: RETENTION.toSeconds() / 2,
    });
    this.alarm("HandlerError", {
      alarmDescription:
        "The handler itself failed or ran out of time. Its logs say why. The records of that batch come again.",
      metric: this.handler.metricErrors(),
    });
    this.alarm("HandlerThrottle", {
      alarmDescription:
        "Lambda has refused to run the handler for 15 minutes, so retries are late. See to the account's concurrency, and to a reserved concurrency below the mapping's MaximumConcurrency.",
      metric: this.handler.metricThrottles({ statistic: cloudwatch.Stats.SUM }),
      evaluationPeriods: 3,
    });
    this.alarm("HandlerDuration", {
      alarmDescription:
        "For 15 minutes, the handler has needed most of its time, and may soon leave records for the next batch or run out of it. See its logs for slow requests; give it more time or memory, or smaller batches.",
      metric: this.handler.metricDuration({ statistic: cloudwatch.Stats.MAXIMUM }),
      // Of its timeout, it reserves the last five seconds.
      threshold: 0.8 * TIMEOUT.toMilliseconds(),
      evaluationPeriods: 3,
    });
    // What the handler reports and goes on with.
    const errorLines = new logs.MetricFilter(this, "HandlerErrorLines", {
      logGroup: this.handler.logGroup,
      filterPattern: logs.FilterPattern.stringValue("$.level", "=", "ERROR"),
      metricNamespace: "Backstop",
      metricName: `${this.retryQueue.queueName}-error-lines`,
      defaultValue: 0,
    });
    this.alarm("HandlerLog", {
      alarmDescription:
        "The handler logged an ERROR line. Its policy could not be loaded and the fallback decides, the dead-letter queue does not accept a message, or a function may not be invoked. Nothing is lost meanwhile.",
      metric: errorLines.metric({ statistic: cloudwatch.Stats.SUM }),
    });
    this.alarm("LostEvent", {
      alarmDescription:
        "Lambda could not write the record of a failed event to the retry queue, and the event is lost. See to the function's sqs:SendMessage, and to the size of its events and answers.",
      metric: target.metric("DestinationDeliveryFailures", { statistic: cloudwatch.Stats.SUM }),
    });
    // Lambda counts an event as dropped after it has written its record to the retry queue, too: each failed attempt is one.
    this.alarm("ManyFailures", {
      alarmDescription: "Many attempts fail. What the function depends on may be down.",
      metric: target.metric("AsyncEventsDropped", { statistic: cloudwatch.Stats.SUM }),
      threshold: this.props.manyFailures ?? 100,
    });
  }

  private dashboard(): void {
    const [queue, letters] = [this.retryQueue.queueName, this.deadLetterQueue.queueName];
    const own = (name: string, more: object[] = []) => ["Backstop", name, "Queue", queue, ...more];
    const by = (dimension: string) => [
      [{ expression: `SEARCH('{Backstop,Queue,${dimension}} Queue="${queue}" MetricName="DeadLettered"', 'Sum')`, id: "e1" }],
    ];
    const ofQueue = (name: string, of: string) => ["AWS/SQS", name, "QueueName", of];
    const [visible, hidden] = ["ApproximateNumberOfMessagesVisible", "ApproximateNumberOfMessagesNotVisible"];
    const charts: [string, unknown[], string][] = [
      ["Failed events: invoked again, waiting, given up", ["Invoked", "Waiting", "DeadLettered", "Discarded"].map((it) => own(it)), "Sum"],
      ["Dead letters by class", by("Class"), "Sum"],
      ["Dead letters by version of the policy", by("Version"), "Sum"],
      ["Delays of retries, in seconds", ["p50", "p95"].map((stat) => own("Delay", [{ stat }])), "Average"],
      ["Attempts, and age in seconds", [own("Attempts", [{ stat: "Average" }]), own("Age", [{ stat: "Maximum", yAxis: "right" }])], "Average"],
      ["Decisions of the fallback", [own("Fallbacks")], "Sum"],
      ["The retry queue", [visible, hidden].map((it) => ofQueue(it, queue)), "Maximum"],
      ["The dead-letter queue", [ofQueue(visible, letters)], "Maximum"],
      ["The handler", ["Errors", "Throttles"].map((it) => ["AWS/Lambda", it, "FunctionName", this.handler.functionName]), "Sum"],
    ];
    const stack = Stack.of(this);
    const widgets = charts.map(([title, metrics, stat], index) => ({
      type: "metric",
      x: 8 * (index % 3),
      y: 6 * Math.floor(index / 3),
      width: 8,
      height: 6,
      properties: { title, region: stack.region, view: "timeSeries", stat, period: 300, metrics },
    }));
    new cloudwatch.CfnDashboard(this, "Dashboard", { dashboardBody: stack.toJsonString({ widgets }) });
  }

  private alarm(
    id: string,
    about: Pick<cloudwatch.AlarmProps, "alarmDescription" | "metric"> & Partial<cloudwatch.AlarmProps>,
  ): void {
    const alarm = new cloudwatch.Alarm(this, `${id}Alarm`, {
      threshold: 1,
      evaluationPeriods: 1,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      ...about,
    });
    if (this.props.alarmTopic) alarm.addAlarmAction(new SnsAction(this.props.alarmTopic));
  }
}

/** A function that may write its own logs, and nothing else: the role that CDK makes may write to any log group. */
export function loggedFunction(
  scope: Construct,
  id: string,
  props: Omit<lambda.FunctionProps, "role" | "logGroup" | "loggingFormat">,
): lambda.Function {
  const logGroup = new logs.LogGroup(scope, `${id}Logs`, {
    retention: logs.RetentionDays.ONE_MONTH,
    removalPolicy: RemovalPolicy.DESTROY,
  });
  const role = new iam.Role(scope, `${id}Role`, { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
  logGroup.grantWrite(role);
  return new lambda.Function(scope, id, { ...props, role, logGroup, loggingFormat: lambda.LoggingFormat.JSON });
}

function allow(actions: string[], resources: string[]): iam.PolicyStatement {
  return new iam.PolicyStatement({ actions, resources });
}
