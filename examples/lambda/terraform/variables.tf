variable "name" {
  description = "What the names of the queues, the handler and the alarms begin with."
  type        = string
}

variable "function" {
  description = "The asynchronous function whose failed events are tried again, and the name of its role."
  type = object({
    name = string
    arn  = string
    role = string
  })
}

variable "handler_zip" {
  description = "The package of the retry handler: `make lambda` makes it."
  type        = string
}

variable "architecture" {
  description = "The processor that the package is for: arm64 or x86_64."
  type        = string
  default     = "arm64"
}

variable "policy" {
  description = "full-jitter, equal-jitter, linear, decorrelated-jitter, aws-sdk-2.0 or aws-sdk-2.1, or the path of a policy in the handler's package."
  type        = string
  default     = "full-jitter"
}

variable "policy_settings" {
  description = "The settings of the policy, separated by commas."
  type        = string
  default     = "base=30s,cap=6h"
}

variable "max_attempts" {
  description = "No event has more attempts, the first included, whatever the policy says."
  type        = number
  default     = 12
}

variable "max_age" {
  description = "No event is tried again from this age, such as 6h or 3d; at most 14d."
  type        = string
  default     = "14d"
}

variable "max_event_age" {
  description = "For how many seconds Lambda itself goes on with one attempt that it throttles. Then the policy decides."
  type        = number
  default     = 3600
}

variable "many_failures" {
  description = "An alarm is raised when so many attempts fail within five minutes."
  type        = number
  default     = 100
}

variable "alarm_topics" {
  description = "The ARNs of SNS topics that hear of every alarm. Without one, alarms show in CloudWatch alone."
  type        = list(string)
  default     = []
}
