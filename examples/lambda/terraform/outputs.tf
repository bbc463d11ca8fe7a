output "retry_queue_url" {
  description = "The URL of the retry queue."
  value       = aws_sqs_queue.retries.url
}

output "dead_letter_queue_url" {
  description = "The URL of the dead-letter queue."
  value       = aws_sqs_queue.dead_letters.url
}

output "handler_name" {
  description = "The retry handler, for `backstop doctor --function`."
  value       = aws_lambda_function.handler.function_name
}
