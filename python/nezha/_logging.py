"""The library's log lines in Python's logging, under the logger "nezha"."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import Optional

from . import _native

TRACE = 5  # below logging.DEBUG

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, TRACE)
_GOODBYE_S = 2.0

_lock = threading.Lock()
_thread: Optional[threading.Thread] = None


def log_to_python(enable: bool = True) -> None:
    """Log lines of this process go to Python's logging instead of stderr; False: to stderr again.

    They come from loggers such as "nezha.tcp" and "nezha.engine", with the rank in front where it is
    known, and as the record's attribute `nezha_rank` (None where it is not). Which lines there are at all
    says the option log_level: nezha.init(config={"log_level": "info"}); trace lines have level 5. A
    log_file gets them, too. A thread of its own passes them on, a moment later, so handlers may take
    their time and use Nezha; what 10000 lines at once exceed is dropped and counted.
    """
    global _thread
    with _lock:
        if enable and _thread is None:
            _thread = threading.Thread(target=_pass_on, name="nezha-log", daemon=True)
            _thread.start()
        _native.take_log(enable)


def _pass_on() -> None:
    while True:
        lines = _native.next_log_lines()
        if not lines:
            return
        for level, rank, subsystem, text in lines:
            logger = logging.getLogger(f"nezha.{subsystem}")
            known = rank if rank >= 0 else None
            logger.log(_LEVELS[min(level, len(_LEVELS) - 1)], "%s%s",
                       "" if known is None else f"[rank {known}] ", text, extra={"nezha_rank": known})


def _end() -> None:
    if _thread is None:
        return
    _native.take_log(False)
    _native.end_log()
    _thread.join(_GOODBYE_S)


def _forget() -> None:
    # The child has no such thread; its lines go to stderr.
    global _thread, _lock
    _native.forget_log()
    _thread, _lock = None, threading.Lock()


atexit.register(_end)
os.register_at_fork(after_in_child=_forget)
