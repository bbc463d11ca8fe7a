// A policy for messages that charge a card: it classifies the payment API's error codes, delays with full jitter, and gives up after a number of attempts.
//
// The contract, with every field explained: bindings/wit/policy.wit. Names are in camelCase here: failure.previousDelay, error.retryAfter.
import { classify as defaultClass } from 'backstop:policy/default-classifier@0.1.0';

/** The ceiling of the first delay, the ceiling of all delays, and a day, in milliseconds. */
const BASE = 500;
const CAP = 3_600_000;
const DAY = 86_400_000;

/** Set by the operator. The host creates a fresh instance for every decision, so no state survives it. */
let attempts = 8;

export const settings = {
  /** Called first. An exception rejects the settings; the operator sees it. */
  configure(given) {
    for (const [name, value] of given) {
      if (name !== 'attempts') throw `unknown setting \`${name}\`: expected \`attempts\``;
      attempts = /^[0-9]+$/.test(value) ? Number(value) : 0;
      if (attempts < 1 || attempts > 0xffffffff) throw `setting \`attempts\` is \`${value}\`: expected a whole number from 1`;
    }
  },
};

export const classifier = {
  /** The API's own codes; the host's classification for everything else. */
  classify(error) {
    switch (error.code) {
      case 'card_declined':
      case 'expired_card':
      case 'invalid_number':
        return { tag: 'permanent' };
      case 'rate_limit':
        return { tag: 'throttled' };
      case 'lock_timeout':
        return { tag: 'transient' };
      case 'fraud_review':
        return { tag: 'other', val: 'review' };
      default:
        return defaultClass(error);
    }
  },
};

export const deadLettering = {
  judge(failure, errorClass) {
    if (errorClass.tag === 'permanent') return { tag: 'dead-letter', val: `permanent: ${failure.error.code}` };
    if (failure.attempt >= attempts) return { tag: 'dead-letter', val: `not charged after ${failure.attempt} attempts` };
    return { tag: 'retry' };
  },
};

export const backoff = {
  /** A review needs a person: an hour. Everything else is delayed with full jitter, and at least as long as the API asks, up to a day. */
  delay(failure, errorClass) {
    const ceiling = Math.min(CAP, BASE * 2 ** (failure.attempt - 1));
    const delay = errorClass.tag === 'other' ? CAP : Math.floor(failure.random * (ceiling + 1));
    return Math.max(delay, Math.min(DAY, failure.error.retryAfter ?? 0));
  },
};
