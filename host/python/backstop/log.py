"""The host's log, through Python's `logging`: the logger `backstop`, with the lines and the levels of the command."""

from __future__ import annotations

import logging
import os
import threading
from typing import Optional

from backstop import _native

_logger = logging.getLogger("backstop")
_lock = threading.Lock()
_process: Optional[int] = None


def start() -> None:
    """Passes lines on from now on. The level is that of the logger when the first host of a process starts."""
    global _process
    with _lock:
        if _process == os.getpid():
            return
        _process = os.getpid()
        _native.start_log(_logger.getEffectiveLevel())
        threading.Thread(target=_pass_on, name="backstop-log", daemon=True).start()


def flush() -> None:
    """Waits until the lines so far are logged, a second at most."""
    _native.flush_log(1.0)


def _pass_on() -> None:
    while True:
        for level, line in _native.take_log(60.0):
            _logger.log(level, "%s", line)
