"""Quantities with units: what is read, and what is refused in one sentence."""

import pytest

from nezha_tools.cli import units
from nezha_tools.cli.errors import PlanError
from nezha_tools.cli.validation import fraction, whole


@pytest.mark.parametrize("text, rate", [("200Gbit/s", 25e9), ("200Gbit", 25e9), ("200gbit", 25e9),
                                        ("200Gbps", 25e9), ("200Gb/s", 25e9), ("200G", 25e9),
                                        ("25GB/s", 25e9), ("25GBps", 25e9), ("25GByte/s", 25e9),
                                        ("1.6Tbit/s", 200e9), ("500mbit", 62.5e6),
                                        ("1e3 MB/s", 1e9), ("0.2Tb/s", 25e9)])
def test_rates(text, rate):
    assert units.parse_rate("rate", text) == pytest.approx(rate)


@pytest.mark.parametrize(
    "text", ["200", "25GB", "fast", "-1Gbit/s", "0Gbit/s", "", "nan", "1e400Gbit/s", 200, None])
def test_rates_that_are_none(text):
    with pytest.raises(PlanError, match="^nics_rate .*unit, such as 200Gbit/s") as caught:
        units.parse_rate("nics_rate", text)
    assert repr(text).strip("'") in str(caught.value)


@pytest.mark.parametrize("reader, text, value", [
    (units.parse_seconds, "20us", 20e-6),
    (units.parse_seconds, "1.5 ms", 1.5e-3),
    (units.parse_seconds, "0us", 0),
    (units.parse_parameters, "80B", 80e9),
    (units.parse_parameters, "350M", 350e6),
    (units.parse_parameters, 2000000000, 2e9),
    (units.parse_flops, "312TFLOPS", 312),
    (units.parse_flops, "2.25 PFLOPS", 2250),
    (units.parse_nics, "8x400Gbit/s", (8, 50e9)),
    (units.parse_nics, "4x25GB/s", (4, 25e9)),
])
def test_other_quantities(reader, text, value):
    assert reader("field", text) == pytest.approx(value)


def test_rails():
    assert units.parse_rails("rails", "25G:20us,10Gbit/s:50us") == [(3.125e9, pytest.approx(20e-6)),
                                                                    (1.25e9, pytest.approx(50e-6))]


@pytest.mark.parametrize("reader, text, words", [
    (units.parse_seconds, "20", "with its unit, such as 20us"),
    (units.parse_seconds, "-1us", "0 or more"),
    (units.parse_parameters, "80", "such as 80B"),
    (units.parse_parameters, "-2B", "such as 80B"),
    (units.parse_flops, "312", "such as 312TFLOPS"),
    (units.parse_flops, "0TFLOPS", "above 0"),
    (units.parse_nics, "4x200", "rate with its unit"),
    (units.parse_nics, "0x400G", "count of 1 to"),
    (units.parse_nics, "x400G", "count of 1 to"),
    (units.parse_nics, "²x400G", "count of 1 to"),
    (units.parse_nics, "400G", "such as 8x400Gbit/s"),
    (units.parse_rails, "25G", "RATE:LATENCY"),
    (units.parse_rails, "25G:-1us", "0 or more"),
    (units.parse_rails, ",".join(["1G:1us"] * 17), "17 rails; it must be 1 to 16"),
])
def test_other_quantities_that_are_none(reader, text, words):
    with pytest.raises(PlanError, match=words) as caught:
        reader("thing", text)
    assert str(caught.value).startswith("thing") and "\n" not in str(caught.value)


def test_texts_have_their_units():
    assert units.rate_text(25e9) == "25 GB/s (200 Gbit/s)"
    assert [units.time_text(s) for s in (12.8, 0.64, 46.7e-6, 3e-9, 0)
            ] == ["12.8 s", "640 ms", "46.7 us", "3 ns", "0 s"]
    assert [units.bytes_text(s) for s in (16e9, 1500, 3)] == ["16 GB", "1.5 KB", "3 B"]


@pytest.mark.parametrize("check", [
    lambda: whole("nodes", 0, 1, 9), lambda: whole("nodes", 1.5, 1, 9),
    lambda: whole("nodes", True, 1, 9), lambda: whole("nodes", "4", 1, 9),
    lambda: fraction("mfu", 0, False), lambda: fraction("mfu", 1.1, True),
    lambda: fraction("mfu", float("nan"), True)
])
def test_numbers_out_of_their_range(check):
    with pytest.raises(PlanError, match="^(nodes|mfu) .*: it must be a"):
        check()
