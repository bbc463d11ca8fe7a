// The options of a worker, made from the list of keys of the configuration.

import type { Settings } from './texts.js';

/** The keys of a queue and of the host in `backstop.toml`, with capitals for dashes. Times are texts such as `'1m30s'`. */
export interface QueueOptions {
  /** The name by which metrics, logs and commands know the queue: that of its URL. */
  name?: string;
  /** The dead-letter queue. The default is the one of the queue's redrive policy. */
  deadLetterQueue?: string | Readonly<Record<string, string | number | boolean>>;
  /** The policy: the name of a built-in one, the path of a file or a directory, `s3://BUCKET/KEY` or `oci://REGISTRY/REPOSITORY:TAG`. New versions are fetched and activated while the host runs. Default: `full-jitter`. */
  policy?: string | Readonly<Record<string, string | number | boolean>>;
  /** A setting of the policy. */
  settings?: Settings;
  /** Scenarios that every version of the policy has to pass before it is activated (`host/docs/policies/scenarios.md`). */
  scenarios?: string;
  /** The name of the policy that every version has to be signed for, with a time that is not before that of a version that was active. It requires `requireSignature`. */
  signedFor?: string;
  /** A shadow: a second policy that is evaluated for every failure and compared with the first one. It has no effect on messages. */
  shadow?: string | Readonly<Record<string, string | number | boolean>>;
  /** A setting of the shadow. Without any, it has those of the policy. */
  shadowSettings?: Settings;
  /** The most attempts of a message, whatever the policy decides. */
  maxAttempts?: number;
  /** The age from which a message is not retried, whatever the policy decides. */
  maxAge?: string;
  /** Whether the policy may discard messages. If not, they are dead-lettered. Default: `true`. */
  allowDiscard?: boolean;
  /** How many messages are in flight at once. Default: `100`. */
  maxInFlight?: number;
  /** The most polls at the same time: there are as many as the queue has work for. Default: `10`. */
  maxPolls?: number;
  /** How long the poll of an idle queue waits for a message. A stop waits for the poll. Default: `2s`. */
  idlePoll?: string;
  /** How often the depth of the queue and of its dead-letter queues is read while metrics are served, a request for each; `0s` for never. Default: `30s`. */
  depthPoll?: string;
  /** The most messages that are received: `200/s`, `50/m` or `10/h`. */
  rate?: string;
  /** What messages that wait are grouped by, such as their tenant: the text at a JSON pointer or in an attribute, which is kept while they wait. */
  groupBy?: string;
  /** The bytes of messages in flight at which no more are received. Default: `256MiB`. */
  maxBytesInFlight?: string | number;
  /** How failed messages are held until their next attempt. Default: `auto`. */
  hold?: string;
  /** A file with the secret keys by which the hosts of a fleet know the envelopes of messages that were sent again, one in each line (`host/docs/deploy/holding.md`). Without it, each host knows those that it made itself since its start. */
  envelopeKeyFile?: string;
  /** How long a received message stays invisible; a heartbeat renews it. The default is the queue's. */
  visibilityTimeout?: string;
  /** The longest duration of one attempt. Default: `15m`. */
  attemptTimeout?: string;
  /** How long a request to SQS waits for others to be batched with it. Default: `100ms`. */
  linger?: string;
  /** How long attempts may go on after the host was stopped. Default: `25s`. */
  grace?: string;
  /** The table whose records say which messages are done. A repeated message is deleted without its work. */
  idempotency?: string;
  /** Where the key is in the body: a JSON pointer or JMESPath. The default is the message's original id. */
  idempotencyKey?: string;
  /** What of the body has to be the same in a repeat: a JSON pointer or JMESPath. */
  idempotencyValidate?: string;
  /** What keys begin with. The default is the queue's name in SQS. */
  idempotencyPrefix?: string;
  /** Whose records the table holds. Default: `python`. */
  idempotencyFormat?: string;
  /** How long the lease of work in progress lasts. It is renewed while the work runs. Default: `20s`. */
  idempotencyLease?: string;
  /** How long completed work is remembered: SQS keeps a message for 14 days at most, and a policy delays it for 14 days at most. Default: `30d`. */
  idempotencyExpiresAfter?: string;
  /** What happens to work that may have been done, because its host crashed. Default: `retry`. */
  onUnknown?: string;
  /** What happens to a message without a key. Default: `error`. */
  onMissingKey?: string;
  /** The names of a record's attributes, and the table's sort key. The default is those of Powertools, without a sort key. */
  idempotencyAttributes?: string | Readonly<Record<string, string | number | boolean>>;
  /** What is down together: the whole queue, or the messages with the same value at a JSON pointer or in an attribute. */
  breaker?: string;
  /** The fewest failures without a success between them that open it. Default: `20`. */
  breakerMinimum?: number;
  /** How long nothing may have succeeded before it opens. Default: `5s`. */
  breakerAfter?: string;
  /** The longest pause between two probes. Default: `1m`. */
  breakerLongestPause?: string;
  /** What the messages of a key have in common: the text at a JSON pointer or in an attribute. */
  limitEach?: string;
  /** The most attempts of each key that begin in a time: `20/s`, `50/m` or `10/h`. */
  limitEachRate?: string;
  /** The most attempts of each key at once. */
  limitEachMaxInFlight?: number;
  /** The directory in which good versions and compiled code are stored, or `off`. The default is in the user's cache directory. */
  cache?: string;
  /** How often S3 and registries are checked for a new version. Default: `1m`. */
  refresh?: string;
  /** How often files are checked for a new version, in place of watching their directories. */
  poll?: string;
  /** Accepts only policies that are signed with one of these minisign keys, each given as text or as the path of a `.pub` file. */
  requireSignature?: string | readonly string[];
  /** The registries that are reached without TLS, such as `registry.internal:5000`. */
  plainHttp?: string | readonly string[];
  /** The servers that may get a registry's credentials for a token, such as `auth.internal`, in addition to the registry's own host. */
  tokenServers?: string | readonly string[];
  /** The endpoint for SQS, Lambda and S3, in place of the region's own. */
  endpointUrl?: string;
  /** Appends a record of every decision to this file; `-` is standard output (`host/docs/operate/decision-record.md`). */
  decisions?: string | Readonly<Record<string, string | number | boolean>>;
  /** Serves metrics for Prometheus at `http://ADDRESS/metrics`, such as `127.0.0.1:9464` (`host/docs/operate/metrics.md`). */
  metrics?: string;
  /** Sends spans over OTLP (`otlp`), or none (`none`), as the standard variables `OTEL_*` say (`host/docs/operate/traces.md`). Without it, `OTEL_TRACES_EXPORTER` decides. */
  traces?: string;
  /** Serves the admin interface at this address, such as `127.0.0.1:9465` (`host/docs/operate/admin.md`). An address that other machines reach needs a token: see `adminTokenFile`. */
  admin?: string;
  /** The file with the token of the admin interface. Without one, the token is that of the environment variable `BACKSTOP_ADMIN_TOKEN`, if it is set. */
  adminTokenFile?: string;
  /** The file with a token of the admin interface for those who look, see the bodies of messages, and change nothing. */
  adminBodiesTokenFile?: string;
  /** The file with a token of the admin interface for those who look at the page, see no bodies of messages, and change nothing. */
  adminViewTokenFile?: string;
  /** The names by which the admin interface is reached, such as `backstop.internal`, besides `localhost` and addresses. Requests for other names are refused. */
  adminHosts?: string | readonly string[];
  /** Which lines the records have besides decisions: none, what becomes of messages that have failed, or all, also the success of a first attempt and each copy of a message that is sent again. Default: `outcomes`. */
  decisionsRecords?: string;
  /** The size at which the file of the decision records is put aside and another one is begun. */
  decisionsRotateSize?: string | number;
  /** The age at which the file of the decision records is put aside and another one is begun. */
  decisionsRotateAfter?: string;
  /** The most bytes of the files that were put aside: the oldest are deleted. */
  decisionsKeep?: string | number;
  /** WebAssembly instructions, approximately; slow ones, such as those on tables and divisions, cost up to 255; deterministic. Default: `50000000`. */
  limitsFuel?: number;
  /** Elapsed time. Default: `2s`. */
  limitsTime?: string;
  /** Linear memory, all memories together; at most 4GiB. Default: `64MiB`. */
  limitsMemory?: string | number;
  /** Elements of one table. Default: `20000`. */
  limitsTableElements?: number;
  /** Core instances. Default: `64`. */
  limitsInstances?: number;
  /** Log lines, 256 at most; the rest is dropped. Default: `4KiB`. */
  limitsLog?: string | number;
  /** Strings in one answer. Default: `1MiB`. */
  limitsStrings?: string | number;
  /** Bytes moved by calls to the host. Default: `16MiB`. */
  limitsPayload?: string | number;
  /** Size of the file. Default: `64MiB`. */
  limitsComponent?: string | number;
  /** Elapsed time; a version that takes longer is tried again. Default: `5m`. */
  limitsCompileTime?: string;
  /** Processor time of all threads, in whole seconds. Default: `2m`. */
  limitsCompileCpu?: string;
  /** Memory; never more than three quarters of the container's limit (cgroup v1 or v2). Default: `2GiB`. */
  limitsCompileMemory?: string | number;
}
