resource "aws_lambda_function" "handler" {
  function_name    = "${var.name}-retry-handler"
  filename         = var.handler_zip
  source_code_hash = filebase64sha256(var.handler_zip)
  handler          = "bootstrap"
  runtime          = "provided.al2023"
  architectures    = [var.architecture]
  memory_size      = 256
  timeout          = 60
  role             = aws_iam_role.handler.arn

  logging_config {
    log_format = "JSON"
    log_group  = aws_cloudwatch_log_group.handler.name
  }

  environment {
    variables = {
      BACKSTOP_RETRY_QUEUE_URL       = aws_sqs_queue.retries.url
      BACKSTOP_DEAD_LETTER_QUEUE_URL = aws_sqs_queue.dead_letters.url
      BACKSTOP_POLICY                = var.policy
      BACKSTOP_SETTINGS              = var.policy_settings
      BACKSTOP_MAX_ATTEMPTS          = tostring(var.max_attempts)
      BACKSTOP_MAX_AGE               = var.max_age
      # No other function is invoked, whatever a record says. More than one: separated by commas.
      BACKSTOP_FUNCTIONS = var.function.name
      # Metrics of each batch, in the handler's log.
      BACKSTOP_METRICS = "true"
    }
  }
}

resource "aws_lambda_function_recursion_config" "handler" {
  function_name  = aws_lambda_function.handler.function_name
  recursive_loop = "Allow"
}

resource "aws_lambda_event_source_mapping" "retries" {
  event_source_arn = aws_sqs_queue.retries.arn
  function_name    = aws_lambda_function.handler.arn
  batch_size       = 10
  # Only what the handler reports goes back to the queue; the rest of its batch is done.
  function_response_types = ["ReportBatchItemFailures"]

  scaling_config {
    maximum_concurrency = 10
  }

  depends_on = [aws_iam_role_policy.handler]
}

resource "aws_cloudwatch_log_group" "handler" {
  name              = "/aws/lambda/${var.name}-retry-handler"
  retention_in_days = 30
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["lambda.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "handler" {
  name               = "${var.name}-retry-handler"
  assume_role_policy = data.aws_iam_policy_document.assume.json
}

# What `backstop doctor --iam` prints for this handler, and its log.
data "aws_iam_policy_document" "handler" {
  statement {
    actions = [
      "sqs:ReceiveMessage",
      "sqs:DeleteMessage",
      "sqs:GetQueueAttributes",
      "sqs:ChangeMessageVisibility",
      # Records that can't wait by visibility are sent again.
      "sqs:SendMessage",
    ]
    resources = [aws_sqs_queue.retries.arn]
  }

  statement {
    actions   = ["sqs:SendMessage", "sqs:GetQueueAttributes"]
    resources = [aws_sqs_queue.dead_letters.arn]
  }

  # Whether the mapping has ReportBatchItemFailures. Lambda knows no resource for it.
  statement {
    actions   = ["lambda:ListEventSourceMappings"]
    resources = ["*"]
  }

  # A record names the version or alias that failed, and that one is invoked again.
  statement {
    actions   = ["lambda:InvokeFunction"]
    resources = [var.function.arn, "${var.function.arn}:*"]
  }

  statement {
    actions   = ["lambda:GetFunctionRecursionConfig"]
    resources = [var.function.arn, aws_lambda_function.handler.arn]
  }

  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.handler.arn}:*"]
  }
}

resource "aws_iam_role_policy" "handler" {
  name   = "retries"
  role   = aws_iam_role.handler.id
  policy = data.aws_iam_policy_document.handler.json
}
