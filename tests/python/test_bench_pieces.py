"""`nezha bench pieces`: how pieces are submitted, what is refused, its ratios and its report."""

import contextlib

import numpy as np
import pytest

from nezha_tools.bench import pieces_report
from nezha_tools.bench.collectives import CASES
from nezha_tools.bench.measure import measure
from nezha_tools.bench.pieces_command import _count
from nezha_tools.bench.pieces_run import Request, _document, results
from nezha_tools.bench.spec import SUBMITTED, BenchSpec, Sample
from nezha_tools.cli.errors import BenchError


class Recorder:
    """A communicator of one rank that notes what it is asked for."""

    rank, world_size = 0, 1

    def __init__(self):
        self.calls = []

    def all_reduce(self, x, op="sum", *, out=None, algorithm=None, async_op=False):
        self.calls.append("start" if async_op else "all_reduce")
        return self

    def wait(self):
        self.calls.append("wait")

    @contextlib.contextmanager
    def batch(self):
        self.calls.append("begin")
        yield
        self.calls.append("end")


@pytest.mark.parametrize("way, calls", [
    ("back to back", ["all_reduce"] * 3), ("asynchronous", ["start"] * 3 + ["wait"] * 3),
    ("coalesced", ["begin", *["all_reduce"] * 3, "end"])])
def test_pieces_are_submitted_as_the_row_says(way, calls):
    comm = Recorder()
    CASES["all_reduce"](comm, BenchSpec([48], pieces=3, submitted=way), 12).call()
    assert comm.calls == calls


def test_a_piece_in_the_place_of_another_is_wrong():
    class Swapped(Recorder):
        def all_reduce(self, x, op="sum", **_):
            self.calls.append(x)
            if len(self.calls) == 2:
                x[:], self.calls[0][:] = self.calls[0].copy(), x.copy()

    spec = BenchSpec([64], pieces=2)
    for comm, wrong in ((Recorder(), 0), (Swapped(), 16)):
        case = CASES["all_reduce"](comm, spec, 16)
        case.call()
        assert case.wrong() == wrong


@pytest.mark.parametrize("in_place", [True, False])
def test_every_way_is_right_in_a_world(world, in_place):
    specs = [BenchSpec([3 << 12], pieces=pieces, submitted=way, iterations=2, warmup=1, in_place=in_place)
             for way in SUBMITTED for pieces in (1, 3, 96)]
    for samples in world(3, lambda comm: [measure(comm, spec)[0] for spec in specs]):
        assert [sample.wrong for sample in samples] == [0] * len(specs)
        assert all(sample.size == 3 << 12 and len(sample.times_us) == 2 for sample in samples)


def test_what_is_measured():
    specs = Request(1 << 20, [4, 16]).specs()
    assert [(spec.pieces, spec.submitted) for spec in specs[1:]] == [
        (count, way) for count in (4, 16) for way in SUBMITTED]
    assert specs[0].pieces == 1 and {tuple(spec.sizes) for spec in specs} == {(1 << 20,)}


@pytest.mark.parametrize("values, why", [
    ({"pieces": [1]}, "--pieces 1: it must be 2 to"), ({"pieces": [16, 200_000]}, "--pieces 200000"),
    ({"size": 100, "pieces": [16]}, "--size 100: 16 equal pieces .* a multiple of 64 bytes"),
    ({"size": 0, "pieces": [2]}, "--size 0")])
def test_what_cannot_be_run_is_refused(values, why):
    with pytest.raises(BenchError, match=why):
        Request(**{"size": 1 << 20, "pieces": [16], **values})


@pytest.mark.parametrize("text", ["", "x", "4x", "-4", "1.5"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(BenchError, match="want numbers of pieces, such as 16,256"):
        _count(text)


def sample(time_us, wrong=0):
    return Sample(1 << 20, 1 << 18, 4, [time_us], time_us, wrong, 0.0)


def document(wrong=0):
    request = Request(1 << 20, [4], passes=2)
    times = [(100, 300), (250, 350), (200, 200), (400, 800)]  # of both passes; medians 200, 300, 200, 600
    return _document(request, [[sample(one), sample(two, wrong)] for one, two in times], None)


def test_ratios_are_those_of_the_medians():
    rows = document()["results"]
    assert [row["way"] for row in rows] == ["at once", *SUBMITTED]
    assert [row["at_once_by_this"] for row in rows] == pytest.approx([1, 1.5, 1, 3])
    assert rows[1]["pieces"] == 4 and rows[1]["piece_size"] == 1 << 18
    assert rows[0]["busbw_gbps"] == pytest.approx(1.5 * 8 * (1 << 20) / 200e-6 / 1e9)


def test_a_world_of_one_has_no_ratio():
    specs = Request(1 << 20, [4]).specs()
    alone = [[Sample(1 << 20, 1 << 18, 1, [1.0], 1.0, 0, 0.0)] for _ in specs]
    assert [row["at_once_by_this"] for row in results(specs, alone)] == [None] * 4


def test_the_report(capsys):
    assert pieces_report.publish(document(), None, None) == 0
    shown = capsys.readouterr().out
    assert "4 x 256K" in shown and "1 x 1M" in shown and "Wrong elements: 0 OK" in shown
    assert "coalesced 20.972 (3.00)" in shown
    assert "1 x 4 GB 1257; 1000 x 4 MB 374 (3.36)" in shown
    assert pieces_report.publish(document(wrong=2), "-", None) == 1


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    pieces_report.plot(document(), tmp_path / "pieces.png")
    assert (tmp_path / "pieces.png").stat().st_size > 5000


def test_no_two_elements_of_a_rank_and_no_two_ranks_are_alike():
    """So that a sum in another element's place, or without a rank, is seen."""
    spec, comms = BenchSpec([4096], pieces=2), [Recorder(), Recorder()]
    for rank, comm in enumerate(comms):
        comm.rank, comm.world_size = rank, 2
    first, second = (CASES["all_reduce"](comm, spec, 1024)._in for comm in comms)
    assert len(np.unique(first)) > 1000 and np.count_nonzero(first == second) < 9
