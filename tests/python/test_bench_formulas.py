"""Sizes, bandwidths and limits of the bench, against numbers worked out by hand."""

import pytest

from nezha_tools.bench.formulas import bus_factor, gbps, limit_seconds, median, percentile
from nezha_tools.cli.sizes import format_size, parse_size, size_list

GBIT = 1e9 / 8


@pytest.mark.parametrize("text, size", [
    ("4", 4), ("64k", 65536), ("8M", 8 << 20), ("8MiB", 8 << 20), ("1G", 1 << 30), ("1.5K", 1536),
    ("100B", 100), (" 2M ", 2 << 20),
])
def test_sizes_are_powers_of_1024(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "8X", "-4", "1e6", "0.3", "8 M M"])
def test_what_is_no_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1536, 10_000_003, 8 << 20, 3 << 30])
def test_a_formatted_size_reads_back(size):
    assert parse_size(format_size(size)) == size


def test_a_size_list_has_whole_elements_once_each():
    assert size_list(4, 64 << 20, 4, 4) == [4 * 4**i for i in range(13)]
    assert size_list(1, 32, 2, 8) == [8, 16, 32]  # 1, 2 and 4 bytes are one float64, as 8 is
    assert size_list(10_000_003, 10_000_003, 1, 4) == [10_000_000]
    assert size_list(5, 20, 3, 1) == [5, 15]


@pytest.mark.parametrize("first, last, factor", [(8, 4, 2), (4, 8, 1), (4, 8, 0)])
def test_a_size_list_without_end_or_content_is_refused(first, last, factor):
    with pytest.raises(ValueError):
        size_list(first, last, factor, 4)


def test_bus_factors_are_those_of_nccl_tests():
    assert bus_factor("all_reduce", 4) == 1.5
    assert bus_factor("all_reduce", 2) == 1.0
    assert bus_factor("all_reduce", 1) == 0.0
    assert bus_factor("broadcast", 8) == 1.0
    assert bus_factor("reduce", 8) == 1.0
    for name in ("all_gather", "reduce_scatter", "gather", "scatter", "all_to_all"):
        assert bus_factor(name, 4) == 0.75  # of all blocks together
    assert bus_factor("barrier", 8) == 0.0
    with pytest.raises(ValueError, match="all_reduce"):
        bus_factor("gossip", 4)


def test_a_gigabit_is_1e9_bits():
    assert gbps(125_000_000, 1.0) == 1.0
    assert gbps(4, 0.0) == 0.0


def test_the_limit_is_the_traffic_over_all_rails():
    # 64 MiB on four ranks: 1.5 times 67.1 MB must leave each node.
    assert limit_seconds("all_reduce", 4, 64 << 20, [GBIT]) == pytest.approx(0.805306368)
    assert limit_seconds("all_reduce", 4, 64 << 20, [GBIT, GBIT]) == pytest.approx(0.402653184)
    assert limit_seconds("all_reduce", 4, 64 << 20, [GBIT, GBIT / 2]) == pytest.approx(0.536870912)
    assert limit_seconds("broadcast", 4, 125_000_000, [GBIT]) == pytest.approx(1.0)


@pytest.mark.parametrize("rates", [[], [None], [GBIT, None], [GBIT, 0.0]])
def test_there_is_no_limit_where_a_rate_is_not_known(rates):
    assert limit_seconds("all_reduce", 4, 1 << 20, rates) is None


def test_there_is_no_limit_where_nothing_crosses_the_wire():
    assert limit_seconds("barrier", 4, 0, [GBIT]) is None
    assert limit_seconds("all_reduce", 1, 1 << 20, [GBIT]) is None


def test_percentiles_are_values_that_were_measured():
    values = [float(value) for value in range(100, 0, -1)]
    assert percentile(values, 0.50) == 50.0
    assert percentile(values, 0.99) == 99.0
    assert percentile(values, 1.0) == 100.0
    assert percentile([7.0], 0.99) == 7.0
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([4.0, 1.0, 2.0, 3.0]) == 2.5
