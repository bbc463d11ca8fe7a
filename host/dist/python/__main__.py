"""`python -m backstop_sqs`"""

from backstop_sqs import main

main()
