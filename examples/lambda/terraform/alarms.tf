locals {
  alarms = {
    too-many-hidden = {
      description = "SQS hides at most 120000 messages of a queue, and hands out no more beyond that. Use a shorter cap, or another retry queue for some of the functions."
      namespace   = "AWS/SQS"
      metric      = "ApproximateNumberOfMessagesNotVisible"
      dimensions  = { QueueName = aws_sqs_queue.retries.name }
      statistic   = "Maximum"
      periods     = 1
      threshold   = 100000
    }
    backlog = {
      description = "Records wait for the handler. See whether its event source mapping is enabled, and whether the handler is throttled."
      namespace   = "AWS/SQS"
      metric      = "ApproximateNumberOfMessagesVisible"
      dimensions  = { QueueName = aws_sqs_queue.retries.name }
      statistic   = "Minimum"
      periods     = 3
      threshold   = 100
    }
    old-dead-letter = {
      description = "A dead letter has waited for a week. The queue drops it two weeks after it was sent; one that SQS moved, two weeks after its record was. Redrive it or archive it."
      namespace   = "AWS/SQS"
      metric      = "ApproximateAgeOfOldestMessage"
      dimensions  = { QueueName = aws_sqs_queue.dead_letters.name }
      statistic   = "Maximum"
      periods     = 1
      threshold   = 604800
    }
    handler-error = {
      description = "The handler itself failed or ran out of time. Its logs say why. The records of that batch come again."
      namespace   = "AWS/Lambda"
      metric      = "Errors"
      dimensions  = { FunctionName = aws_lambda_function.handler.function_name }
      statistic   = "Sum"
      periods     = 1
      threshold   = 1
    }
    handler-throttle = {
      description = "Lambda has refused to run the handler for 15 minutes, so retries are late. See to the account's concurrency, and to a reserved concurrency below the mapping's maximum_concurrency."
      namespace   = "AWS/Lambda"
      metric      = "Throttles"
      dimensions  = { FunctionName = aws_lambda_function.handler.function_name }
      statistic   = "Sum"
      periods     = 3
      threshold   = 1
    }
    handler-duration = {
      description = "For 15 minutes, the handler has needed most of its time, and may soon leave records for the next batch or run out of it. See its logs for slow requests; give it more time or memory, or smaller batches."
      namespace   = "AWS/Lambda"
      metric      = "Duration"
      dimensions  = { FunctionName = aws_lambda_function.handler.function_name }
      statistic   = "Maximum"
      periods     = 3
      # In milliseconds: 80 % of the handler's timeout, of which it reserves the last five seconds.
      threshold = 48000
    }
    handler-log = {
      description = "The handler logged an ERROR line. Its policy could not be loaded and the fallback decides, the dead-letter queue does not accept a message, or a function may not be invoked. Nothing is lost meanwhile."
      namespace   = "Backstop"
      metric      = "${var.name}-retries-error-lines"
      dimensions  = {}
      statistic   = "Sum"
      periods     = 1
      threshold   = 1
    }
    lost-event = {
      description = "Lambda could not write the record of a failed event to the retry queue, and the event is lost. See to the function's sqs:SendMessage, and to the size of its events and answers."
      namespace   = "AWS/Lambda"
      metric      = "DestinationDeliveryFailures"
      dimensions  = { FunctionName = var.function.name }
      statistic   = "Sum"
      periods     = 1
      threshold   = 1
    }
    # Lambda counts an event as dropped after it has written its record to the retry queue, too: each failed attempt is one.
    many-failures = {
      description = "Many attempts fail. What the function depends on may be down."
      namespace   = "AWS/Lambda"
      metric      = "AsyncEventsDropped"
      dimensions  = { FunctionName = var.function.name }
      statistic   = "Sum"
      periods     = 1
      threshold   = var.many_failures
    }
  }

  # What the alarm on new letters is calculated from. The handler's letters are counted when it sends them. Those that SQS moves
  # are in no count of sends, so the number of letters tells, whether somebody is reading them (hidden) or not.
  # Averages, since the average of a sum is the sum of the averages: a letter that becomes hidden is counted once.
  letters = {
    sent    = { metric = "NumberOfMessagesSent", stat = "Sum" }
    visible = { metric = "ApproximateNumberOfMessagesVisible", stat = "Average" }
    hidden  = { metric = "ApproximateNumberOfMessagesNotVisible", stat = "Average" }
  }
}

resource "aws_cloudwatch_metric_alarm" "alarm" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  period              = 300
  evaluation_periods  = each.value.periods
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = each.value.threshold
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics
}

# On new letters, not on any: one that nobody has moved yet would keep an alarm on, which then says nothing of the next.
resource "aws_cloudwatch_metric_alarm" "dead_letter" {
  alarm_name          = "${var.name}-dead-letter"
  alarm_description   = "An event was given up. The attributes of its dead letter say why."
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topics

  metric_query {
    id          = "arrived"
    label       = "dead letters have arrived"
    expression  = "IF(FILL(sent, 0) > 0 OR DIFF(FILL(visible, 0) + FILL(hidden, 0)) > 0, 1, 0)"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.letters

    content {
      id          = metric_query.key
      return_data = false

      metric {
        namespace   = "AWS/SQS"
        metric_name = metric_query.value.metric
        dimensions  = { QueueName = aws_sqs_queue.dead_letters.name }
        period      = 300
        stat        = metric_query.value.stat
      }
    }
  }
}

# What the handler reports and goes on with: its lines of the level ERROR.
resource "aws_cloudwatch_log_metric_filter" "error_lines" {
  name           = "${var.name}-error-lines"
  log_group_name = aws_cloudwatch_log_group.handler.name
  pattern        = "{ $.level = \"ERROR\" }"

  metric_transformation {
    namespace     = "Backstop"
    name          = "${var.name}-retries-error-lines"
    value         = "1"
    default_value = "0"
  }
}
