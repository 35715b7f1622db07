"""Runs ranks to their common end: prints or hands on what they print, and ends all when one fails.

Call launch() in the main thread: it takes over SIGINT, SIGTERM and SIGHUP, unless they are ignored, and
passes SIGUSR1 and SIGUSR2 on to the ranks. No process that it started is left when it returns, nor when
it is killed (see reaper.py).
"""

from __future__ import annotations

import collections
import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import IO, Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from .alike import Alike
from .reaper import Reaper
from .rank_output import Lines, RankOutput, printed
from .placement import Rank, signal_group

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# These are passed on. Ranks start with them ignored, so that one without a handler survives.
_PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
# From SIGTERM to SIGKILL, and how long output may still come from a pipe that a child left open.
_KILL_AFTER_S = 3.0
_DRAIN_S = 0.5
_HEARD_BYTES_MAX = 1 << 26  # of a line that a program hears


@dataclass
class Failure:
    """The first rank that failed. `exit_code` or `signal` is set, or what it did instead: `reason`."""

    rank: int
    where: str
    exit_code: Optional[int] = None
    signal: Optional[str] = None
    reason: Optional[str] = None
    after_s: float = 0.0
    last_lines: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        if self.reason is not None:
            return f"rank {self.rank} ({self.where}) {self.reason}"
        how = (f"was killed by {self.signal}" if self.signal is not None
               else f"ended with exit code {self.exit_code}")
        return f"rank {self.rank} ({self.where}) {how} after {self.after_s:.1f} s"


@dataclass
class Outcome:
    """How it ended. `exit_codes` are Popen's: negative for signals, None where nothing started."""

    exit_code: int
    seconds: float
    first_failure: Optional[Failure]
    exit_codes: List[Optional[int]]
    interrupted_by: Optional[str] = None

    def to_dict(self) -> Dict[str, Any]:
        """For JSON."""
        return asdict(self)


def launch(ranks: Sequence[Rank], *, grace_s: float = 3.0, out: Optional[IO[bytes]] = None,
           err: Optional[IO[bytes]] = None,
           forgive: Optional[Callable[[int, int], bool]] = None) -> Outcome:
    """Runs the ranks. grace_s: how long the others may go on after the first failure, to say
    what they saw. out, err: where their output goes, default: ours. forgive(rank, code): whether
    this end of a rank is no failure, so that the others go on; default: none is forgiven."""
    width = len(str(len(ranks) - 1))
    outs = [RankOutput(printed(f"[{each.rank:>{width}}] ", out or sys.stdout.buffer)) for each in ranks]
    alike = Alike(err or sys.stderr.buffer, len(ranks))
    errs = [RankOutput(alike.lines_of(each.rank)) for each in ranks]
    return _Watch(ranks, grace_s, outs, errs, forgive or (lambda rank, code: False), alike=alike).run()


def listen(ranks: Sequence[Rank], take: Lines, *, grace_s: float, patience_s: float) -> Outcome:
    """Runs the ranks and prints nothing: `take` gets the lines of the first one's standard output. It has
    failed when none comes for `patience_s` seconds."""
    outs = [RankOutput(take, _HEARD_BYTES_MAX)] + [RankOutput(_drop) for _ in ranks[1:]]
    return _Watch(ranks, grace_s, outs, [RankOutput(_drop) for _ in ranks], lambda rank, code: False,
                  patience_s).run()


def _drop(lines: List[bytes]) -> None:
    pass


class _Process:
    def __init__(self, rank: Rank, popen: "subprocess.Popen[bytes]") -> None:
        self.rank = rank
        self.popen = popen
        self.code: Optional[int] = None

    def signal_group(self, number: int) -> None:
        """Reaches children too."""
        signal_group(self.popen, number)


class _Watch:
    def __init__(self, ranks: Sequence[Rank], grace_s: float, outs: Sequence[RankOutput],
                 errs: Sequence[RankOutput], forgive: Callable[[int, int], bool],
                 patience_s: float = math.inf, alike: Optional[Alike] = None) -> None:
        self._ranks = ranks
        self._alike = alike
        self._grace_s = grace_s
        self._forgive = forgive
        self._outs = outs
        self._errs = errs
        self._patience_s = patience_s
        self._processes: List[_Process] = []
        self._waiters: List[threading.Thread] = []
        self._selector = selectors.DefaultSelector()
        # What the waiting threads and the signal handler tell the loop: (kind, index or signal).
        self._events: Deque[Tuple[str, int]] = collections.deque()
        self._wake_read, self._wake_write = os.pipe()
        self._start = self._heard_at = time.monotonic()
        self._failure: Optional[Failure] = None
        self._interrupted: Optional[int] = None
        # The next step of ending everything: (when, signal).
        self._steps: List[Tuple[float, int]] = []

    def run(self) -> Outcome:
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        try:
            with self._signals(), Reaper() as guard:
                try:
                    self._start_all(guard)
                    for number in _PASSED_ON:
                        signal.signal(number, self._note)
                    while any(process.code is None for process in self._processes):
                        self._turn(guard)
                    self._drain()
                finally:
                    self._end_all(guard)
        finally:
            self._close()
        return self._outcome()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._note) for number in _SIGNALS
                  if signal.getsignal(number) != signal.SIG_IGN}  # nohup's
        before.update({number: signal.signal(number, signal.SIG_IGN) for number in _PASSED_ON})
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, _frame: object) -> None:
        self._tell("signal", number)

    def _tell(self, kind: str, value: int) -> None:
        self._events.append((kind, value))
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"!")

    def _start_all(self, guard: Reaper) -> None:
        for index, rank in enumerate(self._ranks):
            try:
                popen = rank.start(stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
            except OSError as error:
                self._fail(Failure(rank.rank, rank.where, reason=f"could not be started: {error}"),
                           time.monotonic())
                return
            guard.add(popen.pid)
            self._processes.append(_Process(rank, popen))
            for pipe, output in ((popen.stdout, self._outs[index]),
                                 (popen.stderr, self._errs[index])):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, output)
            self._waiters.append(threading.Thread(target=self._wait, args=(index, popen.pid)))
            self._waiters[-1].start()

    def _wait(self, index: int, pid: int) -> None:
        # Not reaped here: as long as the number is taken, signals reach nobody else's group.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        self._tell("exit", index)

    def _turn(self, guard: Reaper) -> None:
        until = self._steps[0][0] if self._steps else self._heard_at + self._patience_s
        if self._alike is not None:
            until = min(until, self._alike.next())
        self._read(max(0.0, until - time.monotonic()) if until < math.inf else None)
        if self._alike is not None:
            self._alike.tell()
        while self._events:
            kind, value = self._events.popleft()
            if kind == "exit":
                self._ended(self._processes[value], guard)
            else:
                self._on_signal(value)
        now = time.monotonic()
        if now >= self._heard_at + self._patience_s:
            first = self._ranks[0]
            self._fail(Failure(first.rank, first.where, after_s=now - self._start,
                               reason=f"gave no result for {self._patience_s:.0f} s"), now)
        while self._steps and time.monotonic() >= self._steps[0][0]:
            self._signal_all(self._steps.pop(0)[1])

    def _read(self, timeout: Optional[float]) -> None:
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                os.read(self._wake_read, 4096)
                continue
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            if data:
                if key.data is self._outs[0]:
                    self._heard_at = time.monotonic()
                key.data.feed(data)
            else:
                self._selector.unregister(key.fileobj)

    def _ended(self, process: _Process, guard: Reaper) -> None:
        process.signal_group(signal.SIGKILL)  # children that it left
        guard.remove(process.popen.pid)
        process.code = process.popen.wait()
        if process.code == 0 or self._failure is not None or self._interrupted is not None:
            return
        if self._forgive(process.rank.rank, process.code):
            return
        now = time.monotonic()
        killed = process.code < 0
        self._fail(Failure(process.rank.rank, process.rank.where,
                           exit_code=None if killed else process.code,
                           signal=signal_name(-process.code) if killed else None,
                           after_s=now - self._start), now + self._grace_s)

    def _fail(self, failure: Failure, end_at: float) -> None:
        self._failure = failure
        self._end_at(end_at)

    def _end_at(self, when: float) -> None:
        self._steps = [(when, signal.SIGTERM), (when + _KILL_AFTER_S, signal.SIGKILL)]
        self._patience_s = math.inf

    def _on_signal(self, number: int) -> None:
        if number in _PASSED_ON:
            for process in self._processes:
                if process.code is None:
                    process.rank.pass_on(process.popen, number)
            return
        if self._interrupted is not None:
            self._signal_all(signal.SIGKILL)
            return
        self._interrupted = number
        self._signal_all(number)
        self._end_at(time.monotonic() + self._grace_s)

    def _signal_all(self, number: int) -> None:
        for process in self._processes:
            if process.code is None:
                process.signal_group(number)

    def _drain(self) -> None:
        """Reads what is left in the pipes; whoever still holds them open is not waited for."""
        deadline = time.monotonic() + _DRAIN_S
        while len(self._selector.get_map()) > 1 and time.monotonic() < deadline:
            self._read(max(0.0, deadline - time.monotonic()))

    def _end_all(self, guard: Reaper) -> None:
        """Does nothing after a normal end; after an exception, ends what still runs."""
        for process in self._processes:
            if process.code is None:
                process.signal_group(signal.SIGKILL)
        for waiter in self._waiters:
            waiter.join()
        for process in self._processes:
            if process.code is None:
                guard.remove(process.popen.pid)
                process.code = process.popen.wait()

    def _close(self) -> None:
        for output in (*self._outs, *self._errs):
            output.close()
        if self._alike is not None:
            self._alike.close()
        self._selector.close()
        for process in self._processes:
            for pipe in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _outcome(self) -> Outcome:
        codes: List[Optional[int]] = [process.code for process in self._processes]
        codes += [None] * (len(self._ranks) - len(codes))
        failure = self._failure
        if failure is not None:
            index = next(i for i, r in enumerate(self._ranks) if r.rank == failure.rank)
            failure.last_lines = self._errs[index].last_lines()
        return Outcome(self._exit_code(codes), time.monotonic() - self._start, failure, codes,
                       None if self._interrupted is None else signal_name(self._interrupted))

    def _exit_code(self, codes: Sequence[Optional[int]]) -> int:
        if self._failure is None:
            return 0 if self._interrupted is None else 128 + self._interrupted
        if self._failure.reason is not None:
            return 127
        code = codes[[r.rank for r in self._ranks].index(self._failure.rank)]
        assert code is not None
        return code if code > 0 else 128 - code


def signal_name(number: int) -> str:
    """ "SIGKILL", or "signal 40" for those without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
