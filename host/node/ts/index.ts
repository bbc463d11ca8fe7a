/** Workers on SQS queues, whose retries a policy decides. See the README. */
export { HttpError, PermanentError, permanent, success } from '../../node-retry/ts/failures.js';
export type { Attempt } from './attempts.js';
export { RetryAfterError, UnavailableError, retryAfter, unavailable } from './failures.js';
export { type Level, type LogLine, logTo } from './log.js';
export { Message } from './message.js';
export { type Decision, type DecideOptions, Policy } from './policy.js';
export { type Setting, type Settings } from './texts.js';
export { type BatchFailures, type BatchWorkerOptions, type Counts, type QueueOptions, type RunOptions, Worker, type WorkerOptions, run, worker } from './workers.js';
