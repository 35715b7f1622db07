"""The wires are honest: never faster than they say after a pause, and as fast as they say.

Ratios against the wire, medians or the best of a few tries: a busy machine can only make a
transfer slower, so being too fast is checked on the median and being fast enough on the best.
"""

from __future__ import annotations

import statistics
from typing import Callable, Sequence

import pytest
import wire_meter

from nezha.lab import Lab, parse_rate

pytestmark = pytest.mark.usefixtures("namespaces")

_TRIES = 4


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
    with Lab(2, [rate]) as lab:
        for size in (256 << 10, 1 << 20):
            ratios = wire_meter.after_idle(lab, bps, size, 9)
            assert statistics.median(ratios) <= 1.10, (size, ratios)


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
