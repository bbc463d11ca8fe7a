# What your function needs to be tried again: it has no retries of Lambda's, and its failures go to the retry queue.
resource "aws_lambda_function_event_invoke_config" "function" {
  function_name = var.function.name
  qualifier     = "$LATEST"
  # The policy decides on retries, not Lambda.
  maximum_retry_attempts = 0
  # Zero retries do not bound throttles and errors of Lambda itself: it goes on with those until this age.
  maximum_event_age_in_seconds = var.max_event_age

  destination_config {
    on_failure {
      destination = aws_sqs_queue.retries.arn
    }
  }

  depends_on = [aws_iam_role_policy.function]
}

# Lambda would cut the loop from function to queue to handler to function after about 16 rounds. The handler bounds attempts and age in its place.
resource "aws_lambda_function_recursion_config" "function" {
  function_name  = var.function.name
  recursive_loop = "Allow"
}

# Without this, the records of failed events are lost.
data "aws_iam_policy_document" "function" {
  statement {
    actions   = ["sqs:SendMessage"]
    resources = [aws_sqs_queue.retries.arn]
  }
}

resource "aws_iam_role_policy" "function" {
  name   = "${var.name}-failures"
  role   = var.function.role
  policy = data.aws_iam_policy_document.function.json
}
