// What was decided. The package `backstop-sqs` is built with this file too.

/** What was decided about a failed attempt. */
export interface Decision {
  /** `transient`, `throttled`, `permanent`, or the policy's own name after `other:`. */
  class: string;
  verdict: 'retry' | 'dead-letter' | 'discard';
  /** Milliseconds, with the verdict `retry`. */
  delay?: number;
  reason?: string;
  by: 'policy' | 'shortened' | 'bound' | 'fallback';
  /** The delay before it was shortened. */
  wanted?: number;
  /** Which bound, or how the policy broke. */
  cause?: string;
  downFor?: number;
}
