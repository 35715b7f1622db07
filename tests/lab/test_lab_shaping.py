"""The wires are honest: never faster than they say after a pause, and as fast as they say.

Ratios against the wire, medians or the best of a few tries: a busy machine can only make a
transfer slower, so being too fast is checked on the median and being fast enough on the best.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any, Callable, Sequence

import pytest
import wire_meter

from nezha.lab import Lab, LabError, parse_rate
from nezha_tools.lab import _capacity, shaping

pytestmark = pytest.mark.usefixtures("namespaces")

_TRIES = 4
# Listens where a measurement of the wires will.
_SERVER = f"""
import socket, time
server = socket.create_server(("0.0.0.0", {_capacity._PORT}))
print("ready", flush=True)
time.sleep(1000)
"""


def _best(measure: Callable[[], float], enough: float) -> float:
    best = 0.0
    for _ in range(_TRIES):
        best = max(best, measure())
        if best >= enough:
            break
    return best


@pytest.mark.parametrize("rate", ["100mbit", "1gbit"])
def test_no_transfer_from_256_kib_up_beats_the_wire_after_a_pause(rate: str) -> None:
    bps = parse_rate(rate)
    with Lab(2, [rate], shaping="exact") as lab:
        for size in (256 << 10, 1 << 20):
            ratios = wire_meter.after_idle(lab, bps, size, 9)
            assert statistics.median(ratios) <= 1.10, (size, ratios)


def test_bulk_wires_are_as_honest_as_they_say_also_when_changed_while_up() -> None:
    with Lab(2, ["1gbit"], shaping="exact") as lab:
        lab.set_shaping("bulk")
        port = lab.status()["nodes"][0]["ports"][0]
        assert port["burst_bytes"] == shaping.default_burst(10**9, "bulk")
        ratios = wire_meter.after_idle(lab, 10**9, port["honest_from_bytes"], 9)
        assert statistics.median(ratios) <= 1.10, ratios
        short = wire_meter.after_idle(lab, 10**9, 256 << 10, 9)
        # A busy machine slows down many transfers, and cannot make one faster than its wire.
        assert max(short) > 1.15, ("256 KiB are flattered, which the bench has to know", short)
        lab.set_shaping("exact")
        assert lab.status()["shaping"] == "exact"
        ratios = wire_meter.after_idle(lab, 10**9, 256 << 10, 9)
        assert statistics.median(ratios) <= 1.10, ratios


def test_the_capacity_says_whether_wires_or_cores_are_the_limit() -> None:
    with Lab(3, ["20mbit", "10mbit"]) as lab:
        slow = lab.capacity()
        assert slow is not None and slow.limit == "wires", slow
        assert slow.asked == 90e6 and 0.95 <= slow.reached / slow.asked <= 1.3
        lab.shape(["34gbit"])
        fast = lab.capacity()
        assert fast is not None and fast.limit == "cores" and fast.reached < fast.asked, fast
        assert "the cores are the limit" in fast.sentence()
    with Lab(2, ["none"]) as lab:
        assert lab.capacity() is None


class _LateNode:
    """A lab in which what is started on one node begins late."""

    def __init__(self, lab: Lab, node: int, seconds: float) -> None:
        self.state = lab.state
        self._lab, self._node = lab, node
        wait = f"import os, sys, time; time.sleep({seconds}); os.execv(sys.argv[1], sys.argv[1:])"
        self._wait = [sys.executable, "-I", "-S", "-c", wait]

    def popen(self, node: int, command: Sequence[str], **options: Any) -> Any:
        late = self._wait if node == self._node else []
        return self._lab.popen(node, [*late, *command], **options)


@pytest.mark.parametrize("nodes", [8, 16])
def test_wires_are_measured_when_all_nodes_listen(nodes: int) -> None:
    with Lab(nodes, ["10mbit"]) as lab:
        found = _capacity.measure(_LateNode(lab, nodes - 2, 2.0))
        assert found is not None and found.asked == nodes * 10e6
        assert 0.95 <= found.reached / found.asked <= 1.3, found


def test_a_node_that_cannot_measure_its_wires_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Lab(2, ["10mbit"]) as lab, lab.popen(1, [sys.executable, "-c", _SERVER], stdout=-1) as server:
        try:
            server.stdout.readline()
            with pytest.raises(LabError, match="node 1 could not measure its wires: .*Address already"):
                lab.capacity()
            server.kill()
            monkeypatch.setattr(_capacity, "_PATIENCE_S", 0.5)
            with pytest.raises(LabError, match="node 1 could not measure its wires: it was not liste"):
                _capacity.measure(_LateNode(lab, 1, 30.0))
        finally:
            server.kill()


def test_a_deep_bucket_would_have_been_caught() -> None:
    with Lab(2, ["200mbit"], burst=131072) as lab:
        ratios = wire_meter.after_idle(lab, 2 * 10**8, 256 << 10, 9)
        assert statistics.median(ratios) > 1.2, ratios


# Rates that a slow machine's processors reach, too, with several programs at once.
@pytest.mark.parametrize("rate, pairs", [
    ("100mbit", [(0, 1)]), ("500mbit", [(0, 1)]), ("200mbit", [(0, 1)] * 4),
    ("200mbit", [(0, 1), (2, 1)])], ids=["100mbit", "500mbit", "four flows", "two senders"])
def test_long_streams_reach_the_line_rate_and_not_more(rate: str, pairs: Sequence) -> None:
    bps = parse_rate(rate)
    with Lab(3, [rate]) as lab:
        got = _best(lambda: sum(wire_meter.streams(lab, bps, pairs, 1.0)), 0.95)
        # Queued bytes of the time before the window may add some milliseconds of rate.
        assert 0.95 <= got <= 1.15


def test_both_directions_run_at_full_rate_at_once() -> None:
    # Directions that shared one shaper would get half each; four busy processes on two cores
    # may lose some of the whole.
    with Lab(2, ["200mbit"]) as lab:
        got = _best(lambda: min(wire_meter.streams(lab, 2 * 10**8, [(0, 1), (1, 0)], 1.0)), 0.9)
        assert got >= 0.75


def test_the_queue_is_as_deep_as_stated() -> None:
    with Lab(2, ["100mbit"], queue_ms=20, burst=20000) as lab:
        port = lab.status()["nodes"][0]["ports"][0]
        assert (port["burst_bytes"], port["queue_bytes"]) == (20000, 270000)
