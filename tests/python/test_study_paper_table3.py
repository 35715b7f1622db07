"""Table III of `nezha study paper`: hit ratios from counters of the processor, and none of them."""

from __future__ import annotations

import errno

import pytest

from nezha_study.paper import memory, processor_counters, table3
from nezha_study.paper.combinations import ALL
from nezha_study.paper.context import Context
from nezha_study.paper.jobs import Settings
from nezha_study.paper.processor_counters import Counter, Event

MACHINE = {"processor": "a processor", "cores": 2}
PAGE_FAULTS = Event("page faults", 1, 2)  # which the kernel counts itself
NOTHING = Event("nothing", 1, 1 << 40)


def built(counts, monkeypatch, refused=()):
    monkeypatch.setattr(processor_counters, "refusals", lambda: dict(refused))
    results = {job.key: {"counts": counts[job.combination.key]} for job in memory.jobs(ALL, [2, 4])
               if job.combination.key in counts}
    return table3.build(Context(results, Settings(500), MACHINE, [2, 4], list(ALL)))


def of(second, third, own):
    """Counts with these hits of L2, the last level, and the memory, in percent."""
    return {"L1 reads": 1e6, "L1 misses": 1000.0, "last level reads": 1000 - 10 * second,
            "last level misses": (1000 - 10 * second) * (1 - third / 100),
            "memory reads": 100.0, "memory misses": 100.0 - own}


def test_ratios():
    assert table3.ratios_of(of(80, 50, 99)) == {
        "L2 hit ratio": pytest.approx(80), "L3 hit ratio": pytest.approx(50),
        "Mem hit ratio": pytest.approx(99)}
    assert table3.ratios_of({"L1 reads": 5.0, "L1 misses": 1.0}) == {}
    assert table3.ratios_of({"memory reads": 0.0, "memory misses": 0.0}) == {}


def test_the_claims_of_the_paper(monkeypatch):
    theirs = {key: of(*(table3._paper(name, key) for name in table3._RATIOS)) for key in memory.KEYS}
    section = built(theirs, monkeypatch)
    assert section.numbers["percent"]["L3 hit ratio"]["R"] == pytest.approx(39.7)
    beside = [each for each in section.claims if each.sign is not None]
    assert len(beside) == 3 and all(each.sign for each in beside)
    assert "+8.9 in TCP + RDMA" in beside[1].says and beside[1].place.startswith("Table III, row L3")
    assert all(each.order for each in section.claims if each.order is not None)
    assert section.tables[0].cells[7] == [
        "L3 hit ratio, %", "here", "63.7", "60.3", "62.8", "63.8", "48.6", "53.8", "39.7"]
    theirs["R"] = of(70, 90, 90)
    assert not any(each.sign for each in built(theirs, monkeypatch).claims if each.sign is not None)


def test_a_machine_that_counts_nothing_is_said_to(monkeypatch):
    refused = {event.name: "no such counter" for event in processor_counters.EVENTS}
    section = built({}, monkeypatch, refused)
    assert memory.jobs(ALL, [4]) == [] and section.claims == []
    assert "by perf_event_open: L1 reads, L1 misses, last level reads" in section.line
    assert "memory misses (no such counter)." in section.line
    assert [cells[2] for cells in section.tables[0].cells] == [
        "27.5", "-", "44.5", "-", "74.3", "-", "63.7", "-", "98.5", "-"]


def test_what_the_kernel_counts():
    try:
        counter = Counter(PAGE_FAULTS)
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.EPERM, errno.ENOSYS)
        pytest.skip(f"perf_event_open: {error}")
    before = counter.read()
    held = bytearray(64 << 20)
    assert counter.read() - before >= len(held) / (2 << 20)  # a fault for each huge page at least
    counter.close()
    assert list(processor_counters.opened([NOTHING, PAGE_FAULTS])) == ["page faults"]
    refused = processor_counters.refusals([NOTHING, PAGE_FAULTS])
    assert list(refused) == ["nothing"] and refused["nothing"]
