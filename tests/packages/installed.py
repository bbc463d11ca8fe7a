"""What a user tries first with the installed package: a worker, a decision, and the command that belongs to it."""

import sys
from importlib.metadata import version

import backstop
from backstop import command


@backstop.worker("local:orders", messages=["book", "unicorn"], settings={"base": "1s"})
def ship(message):
    if message.body == "unicorn":
        raise backstop.Permanent("NoSuchArticle")


counts = ship.run()
assert (counts.succeeded, counts.dead_lettered) == (1, 1), counts
decision = backstop.Policy("full-jitter", base="2s").decide(code="HTTP 503", attempt=3)
assert decision.is_retry and decision.decided_by == "policy", decision
print(version("backstop-sqs"), sys.version_info[:2], command.path())
