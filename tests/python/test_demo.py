"""The demonstration's choice of rates, its table and its picture, without a lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from nezha_tools.bench import fastest_rate
from nezha_tools.demo import clusters as demo, command
from nezha.lab import Capacity


def _row(size, time_us, flattery=0.01):
    return {"size": size, "time_us": time_us, "of_limit": 0.9, "busbw_gbps": 1.0, "wrong": 0,
            "shaping": "bulk", "flattery": flattery}


@pytest.fixture
def result():
    rows = {"1G": [_row(4, 80.0, None), _row(8 << 20, 1000.0)],
            "1G + 1G": [_row(4, 80.0, None), _row(8 << 20, 500.0)]}
    gloo = [_row(4, 700.0, None), _row(8 << 20, 1100.0)]
    return demo.Demo(rows=rows, gloo=gloo, capacity=Capacity(8e9, 7.9e9, 0.3), training=None,
                     skipped=[])


def test_the_table_has_gains_and_no_share_where_buckets_could_hold_everything(result):
    headings, cells = demo.table(result)
    assert headings == ["size", "1G\nus", "of limit\n%", "1G + 1G\nus", "of limit\n%", "gain\nx",
                        "Gloo (torch)\nus"]
    assert cells == [["4", "80.0", "-", "80.0", "-", "1.00", "700.0"],
                     ["8M", "1000.0", "90.0", "500.0", "90.0", "2.00", "1100.0"]]


def test_it_trains_with_the_example_of_the_repository():
    written = Path(__file__).parents[2] / "examples" / "digits_numpy.py"
    assert command._EXAMPLE.read_text("utf-8") == written.read_text("utf-8")


def test_the_report_says_what_the_wires_are(result):
    lines = demo.report_lines(result)
    assert any("the wires are the limit" in line for line in lines)
    result.capacity = None
    assert any("nothing is shaped" in line for line in demo.report_lines(result))


def test_the_picture_shows_times_and_bandwidth(result, tmp_path):
    pytest.importorskip("matplotlib")
    demo.draw(result, tmp_path / "deep" / "demo.png")
    assert (tmp_path / "deep" / "demo.png").stat().st_size > 10_000


class _Lab:
    """A lab whose machine can shape 3 Gbit/s in all."""

    def __init__(self, nodes, rails):
        asked = sum(nodes * int(rail[:-4]) * 1e6 for rail in rails)
        self._capacity = Capacity(asked, min(asked, 3e9), 0.2)
        self.lab = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def capacity(self):
        return self._capacity


def test_the_rate_is_the_highest_at_which_the_wires_are_the_limit(monkeypatch):
    monkeypatch.setattr(fastest_rate, "BenchLab", _Lab)
    rate, capacity = fastest_rate.fastest_rate(4, 2, lambda record: None)
    assert rate == 250 and capacity.asked == 2e9


@pytest.mark.parametrize("mbits, name", [(1000, "1G"), (500, "0.5G"), (250, "250M"), (125, "125M")])
def test_rates_are_short(mbits, name):
    assert demo._short(mbits) == name
