"""The host's log, through Python's `logging`: the logger `backstop`, with the lines and the levels of the command."""

from __future__ import annotations

import atexit
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
        thread = threading.Thread(target=_pass_on, name="backstop-log", daemon=True)
        thread.start()
        atexit.register(_end, thread)


def flush() -> None:
    """Waits until the lines so far are logged, a second at most."""
    _native.flush_log(1.0)


def _pass_on() -> None:
    while (lines := _native.take_log()) is not None:
        for level, line in lines:
            _logger.log(level, "%s", line)


def _end(thread: threading.Thread) -> None:
    """No thread may be in the crates while the interpreter ends."""
    _native.end_log()
    thread.join(1.0)
