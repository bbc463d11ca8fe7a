"""The same work as a command: the message is its input, and the exit status says how it went."""

import json
import sys

from orders import Busy, Invalid, ship


def failed(error, status):
    print(json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}))
    sys.exit(status)


try:
    order = json.load(sys.stdin)
except ValueError as error:
    failed(error, 65)  # it is no JSON: there is no other attempt
try:
    ship(order)
except Invalid as error:
    failed(error, 65)
except Busy as error:
    failed(error, 75)  # later
except Exception as error:
    failed(error, 1)
