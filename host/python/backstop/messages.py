"""A message of a queue, as a handler receives it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any, Dict, Optional, Union

from backstop import _native
from backstop.failures import Permanent


class Message:
    """A message of a queue. Its values are read when they are asked for."""

    __slots__ = ("_message",)

    def __init__(self, message: _native.Message) -> None:
        self._message = message

    @property
    def id(self) -> str:
        """The id that SQS gave it when it was sent; the same at every receive."""
        return self._message.id

    @property
    def body(self) -> str:
        """The body, as its sender wrote it."""
        return self._message.body

    def json(self) -> Any:
        """The body as JSON. One that is none is a permanent failure with the code `Decode`."""
        try:
            return json.loads(self._message.body)
        except ValueError as error:
            raise Permanent("Decode", f"the body is no JSON: {error}") from error

    @property
    def attributes(self) -> Dict[str, Union[str, bytes]]:
        """The sender's attributes by name: texts and numbers as text, binary ones as bytes."""
        return self._message.attributes

    @property
    def receive_count(self) -> int:
        """How often it has been received, this time included."""
        return self._message.receive_count

    @property
    def sent(self) -> datetime:
        """When it was sent."""
        return datetime.fromtimestamp(self._message.sent_ms / 1000, timezone.utc)

    @property
    def group_id(self) -> Optional[str]:
        """The message group, on a FIFO queue."""
        return self._message.group_id

    @property
    def deduplication_id(self) -> Optional[str]:
        """The deduplication id, on a FIFO queue."""
        return self._message.deduplication_id

    @property
    def sender_id(self) -> Optional[str]:
        """Who has sent it, if SQS says so."""
        return self._message.sender_id

    @property
    def trace_header(self) -> Optional[str]:
        """The trace that it belongs to, for X-Ray."""
        return self._message.trace_header

    def __repr__(self) -> str:
        return f"<Message {self.id}>"
