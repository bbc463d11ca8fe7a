// A policy for messages that charge a card: it classifies the payment API's error codes, delays with full jitter, and gives up after a number of attempts.
//
// The contract, with every field explained: bindings/backstop.h. Arguments belong to the policy. It may free them but need not, because the host drops the instance after the decision.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/backstop.h"

// The ceiling of the first delay, the ceiling of all delays, and a day, in milliseconds.
#define BASE 500
#define CAP 3600000
#define DAY 86400000

// Set by the operator. The host creates a fresh instance for every decision, so no state survives it.
static uint32_t attempts = 8;

static bool is(const backstop_string_t *text, const char *expected) {
  return text->len == strlen(expected) && memcmp(text->ptr, expected, text->len) == 0;
}

// Joins three texts. It uses lengths, because strings of the contract may contain zeros.
static void join(backstop_string_t *into, const char *before, const backstop_string_t *text, const char *after) {
  size_t head = strlen(before), tail = strlen(after);
  into->len = head + text->len + tail;
  into->ptr = malloc(into->len);
  if (into->ptr == NULL) abort();
  memcpy(into->ptr, before, head);
  memcpy(into->ptr + head, text->ptr, text->len);
  memcpy(into->ptr + head + text->len, after, tail);
}

// Parses a whole number from 1, in decimal digits. 0 if it is invalid.
static uint32_t number(const backstop_string_t *text) {
  uint64_t number = 0;
  for (size_t i = 0; i < text->len; i++) {
    if (text->ptr[i] < '0' || text->ptr[i] > '9') return 0;
    number = 10 * number + (text->ptr[i] - '0');
    if (number > UINT32_MAX) return 0;
  }
  return (uint32_t)number;
}

// Called first. False rejects the settings; the operator sees the text.
bool exports_backstop_policy_settings_configure(backstop_list_tuple2_string_string_t *settings, backstop_string_t *refusal) {
  for (size_t i = 0; i < settings->len; i++) {
    backstop_string_t name = settings->ptr[i].f0, value = settings->ptr[i].f1;
    if (!is(&name, "attempts")) {
      join(refusal, "unknown setting `", &name, "`: expected `attempts`");
      return false;
    }
    attempts = number(&value);
    if (attempts == 0) {
      join(refusal, "setting `attempts` is `", &value, "`: expected a whole number from 1");
      return false;
    }
  }
  return true;
}

// The API's own codes; the host's classification for everything else.
void exports_backstop_policy_classifier_classify(exports_backstop_policy_classifier_error_t *error, exports_backstop_policy_classifier_error_class_t *class) {
  const backstop_string_t *code = &error->code;
  if (is(code, "card_declined") || is(code, "expired_card") || is(code, "invalid_number")) {
    class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_PERMANENT;
  } else if (is(code, "rate_limit")) {
    class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_THROTTLED;
  } else if (is(code, "lock_timeout")) {
    class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_TRANSIENT;
  } else if (is(code, "fraud_review")) {
    class->tag = BACKSTOP_POLICY_TYPES_ERROR_CLASS_OTHER;
    backstop_string_dup(&class->val.other, "review");
  } else {
    backstop_policy_default_classifier_classify(error, class);
  }
}

// Whether there is a next attempt.
void exports_backstop_policy_dead_lettering_judge(exports_backstop_policy_dead_lettering_failure_t *failure, exports_backstop_policy_dead_lettering_error_class_t *class, exports_backstop_policy_dead_lettering_verdict_t *verdict) {
  verdict->tag = BACKSTOP_POLICY_TYPES_VERDICT_DEAD_LETTER;
  if (class->tag == BACKSTOP_POLICY_TYPES_ERROR_CLASS_PERMANENT) {
    join(&verdict->val.dead_letter, "permanent: ", &failure->error.code, "");
  } else if (failure->attempt >= attempts) {
    char reason[64];
    snprintf(reason, sizeof reason, "not charged after %u attempts", (unsigned)failure->attempt);
    backstop_string_dup(&verdict->val.dead_letter, reason);
  } else {
    verdict->tag = BACKSTOP_POLICY_TYPES_VERDICT_RETRY;
  }
}

// The delay. A review needs a person: an hour. Everything else is delayed with full jitter, and at least as long as the API asks, up to a day.
exports_backstop_policy_backoff_milliseconds_t exports_backstop_policy_backoff_delay(exports_backstop_policy_backoff_failure_t *failure, exports_backstop_policy_backoff_error_class_t *class) {
  uint32_t delay = CAP;
  if (class->tag != BACKSTOP_POLICY_TYPES_ERROR_CLASS_OTHER) {
    uint32_t doublings = failure->attempt - 1;
    uint64_t ceiling = doublings < 32 ? (uint64_t)BASE << doublings : CAP;
    if (ceiling > CAP) ceiling = CAP;
    delay = (uint32_t)(failure->random * (double)(ceiling + 1));
  }
  uint32_t asked_for = failure->error.retry_after.is_some ? failure->error.retry_after.val : 0;
  if (asked_for > DAY) asked_for = DAY;
  return delay > asked_for ? delay : asked_for;
}
