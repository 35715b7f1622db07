"""The short form of every fault campaign, and that the campaigns can fail.

Judged is what is right; how fast is for `make faults`. See tests/campaigns.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import random
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy
import pytest
import wire_meter  # noqa: F401  (also finds nezha in the source tree)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from campaigns import r24_outage, report
from campaigns.__main__ import exit_code, run_one
from campaigns.campaign import Campaign, Record
from campaigns.cases import Case, Prepared, pattern
from campaigns.catalog import CAMPAIGNS
from campaigns.lines import Broken
from campaigns.measure import Baseline, Figure, Operation, percentile, stall_of
from campaigns.r23_hosts import only
from campaigns.rails import check_leaks

_LASTING = {"R4-LARGE": pytest.mark.long}  # a minute, beside R4's own few seconds
_SHORT = [pytest.param(campaign, id=campaign.id, marks=_LASTING.get(campaign.id, ()))
          for campaign in CAMPAIGNS if campaign.wanted[0]]
_SEED = int(os.environ.get("NEZHA_TEST_SEED", "1"))


def has_torch() -> bool:
    """The library: the folder of its tests beside this one is a package of that name, too."""
    spec = importlib.util.find_spec("torch")
    return spec is not None and spec.origin is not None


@pytest.mark.usefixtures("namespaces")
@pytest.mark.parametrize("campaign", _SHORT)
def test_short_form(campaign: Campaign, tmp_path: Path) -> None:
    if campaign.id == "R21" and not has_torch():
        pytest.skip("torch is not installed")
    result = run_one(campaign, "short", _SEED, tmp_path)
    assert result["verdict"] != "BROKEN", result["violations"]
    assert result["faults"] == result["wanted"] and result["operations"] > 0


class _LosesARank:
    """A job, and the nemesis that strikes it, for a wave of R24's."""

    cases = [0]

    def __init__(self, what: str) -> None:
        self._what = what

    def start_ops(self, cases: Any) -> float:
        return 0.0

    def finish_ops(self, cases: Any, within: float) -> Any:
        raise Broken(self._what)

    def black_hole(self, node: int, rail: int, direction: str) -> float:
        return 0.0

    def restore(self, node: int, rail: int) -> float:
        return 0.0

    def dropped(self, node: int, rail: int) -> int:
        return 1


@pytest.mark.parametrize("allowed_s, what, is_excused", [
    (0.0, "rank 0 failed: {'type': 'PeerLost'}", True),
    (0.0, "rank 0: wrong bits in all_reduce", False),
    (10.0, "rank 0 failed: {'type': 'PeerLost'}", False)])
def test_a_rank_may_be_lost_in_an_outage_that_took_too_long(allowed_s: float, what: str, is_excused: bool,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(r24_outage.time, "sleep", lambda _: None)
    begun: List[Any] = []

    def begin() -> Any:
        begun.append(_LosesARank(what))
        return begun[-1]

    place = r24_outage.Place(_LosesARank(what), contextlib.ExitStack(), begin, (allowed_s, 1.0, 7.5))
    wave = r24_outage.Outage()._wave
    if is_excused:
        assert wave(None, [place], random.Random(1), False) == 0 and len(begun) == 2
        return
    with pytest.raises(Broken, match=what[:15]):
        wave(None, [place], random.Random(1), False)


# ---------------------------------------------------------------- the judge can condemn

class _Local:
    """A communicator of one rank whose all_reduce does what `change` says."""

    rank, world_size = 0, 1

    def __init__(self, change: Any) -> None:
        self._change = change

    def all_reduce(self, x: Any, **_: Any) -> Any:
        self._change(x)
        return x


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_one_wrong_bit_is_seen(dtype: str) -> None:
    prepared = Prepared(Case("all_reduce", 1000, dtype), 0, 1)

    def run(change: Any) -> bool:
        prepared.fill(0)
        prepared.start(_Local(change), 0)
        return prepared.right(0)

    def flip(x: Any) -> None:
        x.view(numpy.uint8)[-3] ^= 1

    assert run(lambda x: None)
    assert not run(flip)
    assert not run(lambda x: x.fill(0))
    assert run(lambda x: None)


def test_a_first_result_that_is_wrong_is_no_reference() -> None:
    prepared = Prepared(Case("all_reduce", 64), 0, 2)  # of two ranks, of which one is not there
    prepared.fill(0)
    prepared.start(_Local(lambda x: None), 0)
    assert not prepared.right(0)


def test_data_depend_on_rank_index_and_variant() -> None:
    base = pattern(600, "float32", 0, 0)
    assert not numpy.array_equal(base, pattern(600, "float32", 1, 0))
    assert not numpy.array_equal(base, pattern(600, "float32", 0, 1))
    assert len(numpy.unique(base[:251])) == 251


def test_a_stall_counts_beyond_the_bandwidth_that_is_left() -> None:
    baseline = Baseline()
    for _ in range(20):
        baseline.learn(Operation(0, 0.0, 0.0, 0.010))
    # A fault at 4 ms of 10 takes half the bandwidth: 4 + 6 * 2 ms are due to it, 30 are a stall.
    found = stall_of([Operation(0, 5.0, 5.0, 5.046)], 5.004, 0.5, baseline)
    assert abs(found.stall - 0.030) < 1e-6 and abs(found.extra - 0.036) < 1e-6 and found.during
    assert stall_of([Operation(0, 5.0, 5.0, 5.046)], 6.0, 0.5, baseline).stall == 0.0


def test_leaks_and_percentiles() -> None:
    first = {"descriptors": ["pipe", "socket"], "threads": 3}
    check_leaks({0: first}, {0: {"descriptors": ["pipe", "pipe"], "threads": 3}})  # as many
    with pytest.raises(Broken, match=r"rank 0 leaks descriptors: 2 .* 3 after them; new: pipe$"):
        check_leaks({0: first}, {0: {**first, "descriptors": ["pipe", "pipe", "socket"]}})
    with pytest.raises(Broken, match="rank 0 leaks threads: 3 .* 4 after"):
        check_leaks({0: first}, {0: {**first, "threads": 4}})
    assert percentile([], 0.5) is None
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0 and percentile([1.0] * 99 + [9.0], 1.0) == 9.0


class _Fake(Campaign):
    id, title, wanted = "F", "made up", (2, 3, 4)

    def __init__(self, value: float = 0.0, broken: bool = False) -> None:
        self._value, self._broken = value, broken

    def run(self, record: Record) -> None:
        for number, rng in record.faults():
            if self._broken and number == 1:
                raise Broken("it is")
            record.add(value=self._value, drawn=rng.random())

    def figures(self, record: Record) -> list:
        return [Figure("value", max(record.of("value")), 1.0)]


def _code(campaign: Campaign, form: str, folder: Path) -> int:
    return exit_code([run_one(campaign, form, 7, folder)])


def test_verdicts(tmp_path: Path) -> None:
    assert _code(_Fake(), "short", tmp_path) == 0 and _code(_Fake(), "faults", tmp_path) == 0
    assert _code(_Fake(2.0), "short", tmp_path) == 0 and _code(_Fake(2.0), "faults", tmp_path) == 1
    assert _code(_Fake(broken=True), "short", tmp_path) == 1
    written: Dict[str, Any] = json.loads((tmp_path / "short" / "F.json").read_text())
    assert written["verdict"] == "BROKEN" and "fault 1 of seed 7" in written["violations"][0]
    assert len(report.table([written]).columns) == 8


def test_the_long_form_goes_on_where_it_was(tmp_path: Path) -> None:
    assert run_one(_Fake(broken=True), "soak", 7, tmp_path)["faults"] == 1
    run_one(_Fake(), "soak", 7, tmp_path)
    lines = (tmp_path / "soak" / "F-7.samples").read_text().splitlines()
    run_one(_Fake(), "soak", 7, tmp_path / "whole")
    assert len(lines) == 4
    assert lines == (tmp_path / "whole" / "soak" / "F-7.samples").read_text().splitlines()


class _Ran:
    """A job whose operations ran so."""

    def __init__(self, *names: str) -> None:
        self._names = set(names)

    def algorithms(self, failed: bool = False) -> "set[str]":
        return set() if failed else self._names


def test_a_fault_that_met_other_operations_is_no_fault() -> None:
    only(_Ran("memory"), "memory")
    for met in (_Ran("memory", "ring"), _Ran("ring"), _Ran()):
        with pytest.raises(Broken, match="and not by memory alone"):
            only(met, "memory")
    with pytest.raises(Broken, match=r"operations ran by \[\]"):
        only(_Ran("memory"), "memory", failed=True)
