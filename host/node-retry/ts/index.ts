/** Retries calls as a policy of Backstop decides. See the README. */
export type { Clock } from './clock.js';
/** For `backstop-retry/lambda`. @internal */
export { core, shown } from './core.js';
export type { Duration } from './core.js';
export type { Decision } from './decision.js';
export { type End, RetryError } from './errors.js';
export { HttpError, PermanentError, permanent, success } from './failures.js';
export { Breaker, type BreakerNumbers, Budget, type BudgetName, type BudgetNumbers, Bulkhead } from './guards.js';
export type { Failure, FailureError, Policy } from './policy.js';
export { type Attempt, type CallOptions, type Limits, type LogLine, type Retrier, type RetrierOptions, type RetryEvent, retrier } from './retrier.js';
