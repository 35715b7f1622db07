"""The life of `nezha aggregator`: start the node, say where it is, watch it, stop it when asked.

Belongs to the main thread, which alone gets signals. Raises AggregatorError, or one of nezha.errors,
where the node cannot start; after that only signals end it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from typing import Any, Callable, Dict, Optional

from ..cli.console import complain, write_json_line
from . import display
from .node_stats import RefusalLog, Stats
from .options import Options, format_endpoint

_GLANCE_SECONDS = 1.0  # between looks at the node's statistics


def serve(options: Options, json_to: Optional[str]) -> None:
    """Runs a node until SIGTERM or SIGINT. json_to: as console.answer() has it, a line at each end."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    began = time.monotonic()
    node = _start(options)
    server = None
    try:
        def stats() -> Stats:
            parsed: Stats = json.loads(node.stats())
            return parsed
        if options.metrics is not None:
            from .metrics import Collector, MetricsServer

            labels = {"address": format_endpoint(options.address, node.port), "version": _version(),
                      "name": options.name or ""}
            server = MetricsServer(options.metrics, Collector(stats, labels))
        _announce(options, node.port, server.port if server else None, json_to)
        notify_systemd("READY=1")
        last = _watch(stats, stop)
        notify_systemd("STOPPING=1")
    finally:
        if server is not None:
            server.close()
        node.close()
    _say_goodbye(last, time.monotonic() - began, json_to)


def _start(options: Options) -> Any:
    from nezha import _native

    return _native.Aggregator(
        address=options.address, port=options.port, device=options.device, key_file=options.key_file,
        threads=options.threads or len(os.sched_getaffinity(0)), jobs_max=options.jobs_max,
        groups_max=options.groups_max, bytes_max=options.memory, total_max=options.total_memory,
        topology=options.topology, name=options.name)


def _version() -> str:
    from nezha import _native

    return _native.version()


def _announce(options: Options, port: int, metrics_port: Optional[int], json_to: Optional[str]) -> None:
    """One line when the node can be dialled, for people or for programs."""
    where = format_endpoint(options.address, port)
    metrics = None
    if options.metrics is not None and metrics_port is not None:
        metrics = format_endpoint(options.metrics[0], metrics_port)
    facts: Dict[str, Any] = {"address": where, "port": port, "metrics": metrics, "pid": os.getpid()}
    if json_to is not None:
        write_json_line(facts, json_to, first=True)
    if json_to != "-":
        device = f" of {options.device}" if options.device else ""
        print(f"nezha aggregator: listening on {where}{device}"
              + (f", metrics on http://{metrics}/metrics" if metrics else ""), flush=True)


def _watch(stats: Callable[[], Stats], stop: threading.Event) -> Stats:
    """Looks at the node until it is to stop: refusals go to the log, signs of life to systemd."""
    refusal_log = RefusalLog()
    alive = watchdog_seconds()
    pause = min(_GLANCE_SECONDS, alive or _GLANCE_SECONDS)
    while True:
        now = stats()  # asks every thread of the node: one that hangs keeps us here, too
        for line in refusal_log.lines(now, time.monotonic()):
            _log(line)
        if alive is not None:
            notify_systemd("WATCHDOG=1")
        if stop.wait(pause):
            return stats()


def _say_goodbye(stats: Stats, seconds: float, json_to: Optional[str]) -> None:
    usage = time.process_time()
    if json_to is not None:
        write_json_line({"seconds": seconds, "cpu_seconds": usage, "stats": stats}, json_to, first=False)
    if json_to != "-":
        display.closing(stats, seconds, usage)


def _log(line: str) -> None:
    complain("aggregator", line)


def notify_systemd(state: str) -> None:
    """Sends a state such as "READY=1" where a service of Type=notify is listened to."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # A name that begins with @ is of Linux's abstract namespace, which has a zero byte there.
    target = "\0" + path[1:] if path.startswith("@") else path
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        link.setblocking(False)  # a full queue must not stop the node
        link.connect(target)
        link.sendall(state.encode())


def watchdog_seconds() -> Optional[float]:
    """How often systemd wants a sign of life (WatchdogSec=), half of what it waits for; None: never."""
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) / 2e6
