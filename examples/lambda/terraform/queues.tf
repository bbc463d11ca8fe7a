# A record lies here, hidden, until its retry is due.
resource "aws_sqs_queue" "retries" {
  name = "${var.name}-retries"
  # At least six times the handler's timeout plus the mapping's batching window (none here).
  visibility_timeout_seconds = 360
  message_retention_seconds  = 1209600
  max_message_size           = 1048576
  sqs_managed_sse_enabled    = true
}

# Apart from the queues, which name each other.
resource "aws_sqs_queue_redrive_policy" "retries" {
  queue_url = aws_sqs_queue.retries.id
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    # Receives are not attempts: a record is received again and again while it waits, and each failed attempt is a new
    # message. The handler ends retries. This is for a record that the handler can't handle at all.
    maxReceiveCount = 1000
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name                      = "${var.name}-dead-letters"
  message_retention_seconds = 1209600
  max_message_size          = 1048576
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_redrive_allow_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.retries.arn]
  })
}
