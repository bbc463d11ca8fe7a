// Package policy is for messages that charge a card: it classifies the payment API's error codes, delays with full jitter, and gives up after a number of attempts.
//
// The contract, with every field explained: bindings/imports/backstop_policy_types.
package policy

import (
	"fmt"
	"strconv"

	defaults "policy/card-payments/bindings/imports/backstop_policy_default_classifier"
	. "policy/card-payments/bindings/imports/backstop_policy_types"
	. "policy/card-payments/bindings/wit/types"
)

// The ceiling of the first delay, the ceiling of all delays, and a day, in milliseconds.
const (
	base    = 500
	longest = 3_600_000
	day     = 86_400_000
)

// Set by the operator. The host creates a fresh instance for every decision, so no state survives it.
var attempts uint32 = 8

// Configure is called first. An error rejects the settings; the operator sees it.
func Configure(settings []Tuple2[string, string]) Result[Unit, string] {
	for _, setting := range settings {
		name, value := setting.F0, setting.F1
		if name != "attempts" {
			return Err[Unit](fmt.Sprintf("unknown setting `%s`: expected `attempts`", name))
		}
		number, err := strconv.ParseUint(value, 10, 32)
		if err != nil || number == 0 {
			return Err[Unit](fmt.Sprintf("setting `attempts` is `%s`: expected a whole number from 1", value))
		}
		attempts = uint32(number)
	}
	return Ok[Unit, string](Unit{})
}

// Classify classifies an error: the API's own codes, and the host's classification for everything else.
func Classify(err Error) ErrorClass {
	switch err.Code {
	case "card_declined", "expired_card", "invalid_number":
		return MakeErrorClassPermanent()
	case "rate_limit":
		return MakeErrorClassThrottled()
	case "lock_timeout":
		return MakeErrorClassTransient()
	case "fraud_review":
		return MakeErrorClassOther("review")
	}
	return defaults.Classify(err)
}

// Judge decides whether there is a next attempt.
func Judge(failure Failure, class ErrorClass) Verdict {
	if class.Tag() == ErrorClass_Permanent {
		return MakeVerdictDeadLetter("permanent: " + failure.Error.Code)
	}
	if failure.Attempt >= attempts {
		return MakeVerdictDeadLetter(fmt.Sprintf("not charged after %d attempts", failure.Attempt))
	}
	return MakeVerdictRetry()
}

// Delay computes the delay. A review needs a person: an hour. Everything else is delayed with full jitter, and at least as long as the API asks, up to a day.
func Delay(failure Failure, class ErrorClass) Milliseconds {
	delay := Milliseconds(longest)
	if class.Tag() != ErrorClass_Other {
		ceiling := min(longest, uint64(base)<<min(failure.Attempt-1, 31))
		delay = Milliseconds(failure.Random * float64(ceiling+1))
	}
	return max(delay, min(day, failure.Error.RetryAfter.SomeOr(0)))
}
