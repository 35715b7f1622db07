"""Fig. 6 of `nezha study paper`: rates from counters, their fluctuation, and the paper's claims."""

from __future__ import annotations

import time
from typing import Any, Dict, List

import pytest

from nezha_study.paper import fig6, ports, ports_worker
from nezha_study.paper.combinations import ALL
from nezha_study.paper.context import Context
from nezha_study.paper.jobs import Settings

SETTINGS = Settings(500)
MACHINE = {"processor": "a processor", "cores": 2}


def measured(*rates: List[float]) -> Dict[str, Any]:
    """A result whose ports have these rates, KB/s, in windows of a tenth of a second."""
    times = [0.1 * index for index in range(len(rates[0]) + 1)]
    sent = [[int(sum(each[:index]) * 0.1 * 1024) for index in range(len(each) + 1)] for each in rates]
    return {"size": 64 << 20, "operations": 5, "devices": [f"eth{i}" for i in range(len(rates))],
            "times_s": times, "sent": sent}


def claims_of(alone: Dict[str, Any], pair: Dict[str, Any]) -> List[Any]:
    results = {"ports-4-T": alone, "ports-4-TT": pair}
    return fig6.build(Context(results, SETTINGS, MACHINE, [2, 4], list(ALL))).claims


def test_rates_come_from_counters():
    found = fig6.ports_of("TT", measured([1000, 3000], [2000, 2000]))
    assert [port.rates for port in found] == [pytest.approx([1000, 3000], abs=1),
                                              pytest.approx([2000, 2000], abs=1)]
    assert found[0].rate == pytest.approx(2000, abs=1) and found[0].at_s == pytest.approx([0.05, 0.15])
    assert [port.variation for port in found] == pytest.approx([0.5, 0], abs=0.01)


def test_a_last_window_that_was_cut_short_tells_no_rate():
    result = measured([1000, 1000, 1000, 1000])
    result["times_s"][-1] = result["times_s"][-2] + 0.001
    assert len(fig6.ports_of("T", result)[0].rates) == 3


def test_synchrony():
    assert fig6.synchrony([1, 2, 3], [2, 4, 6]) == pytest.approx(1)
    assert fig6.synchrony([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert fig6.synchrony([1, 1, 1], [3, 2, 1]) == 0


def test_the_claims_of_the_paper():
    alone = measured([900, 1100, 900, 1100])
    claims = claims_of(alone, measured([850, 900, 850, 900], [840, 890, 840, 890]))
    assert [(each.sign, each.order) for each in claims] == [
        (None, True), (True, None), (True, None), (None, True), (True, None)]
    assert claims[1].says == "Two ports carry 71 % more than one, and not 100 %."
    assert claims[1].found == "They carry 74 % more." and "Fig. 6" in claims[0].place
    claims = claims_of(alone, measured([200, 600, 200, 600], [600, 100, 600, 100]))
    assert [(each.sign, each.order) for each in claims] == [
        (None, True), (False, None), (False, None), (None, False), (False, None)]


def test_ports_that_do_not_fluctuate_are_not_compared():
    claims = claims_of(measured([1000] * 4), measured([1000] * 4, [1000] * 4))
    assert len(claims) == 4 and claims[3].order is None


def test_jobs():
    found = ports.jobs(ALL, [2, 4, 6])
    assert [job.key for job in found] == ["ports-4-T", "ports-4-TT"]
    assert found[0].sizes(SETTINGS) == [64 << 20]
    assert found[0].sizes(Settings(500, 16 << 10)) == [16 << 10]
    for mbits in (1000, 250):
        assert sum(job.estimate(Settings(mbits)) for job in found) < 150, mbits


def test_counters_are_read_at_both_ends_and_between(monkeypatch):
    counter = iter(range(0, 1000, 10))
    monkeypatch.setattr(ports_worker, "transmitted_bytes", lambda: {"eth0": next(counter)})
    times: List[float] = []
    sent: List[List[int]] = [[]]
    with ports_worker.watching(["eth0"], 0.01, times, sent):
        time.sleep(0.1)
    assert len(times) == len(sent[0]) >= 3 and times == sorted(times) and sent[0] == sorted(sent[0])
