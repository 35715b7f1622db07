"""The published numbers that `nezha plan` is made of: they agree with each other and name their
source."""

import pytest

from nezha_study.plan import links
from nezha_tools.cli.errors import PlanError
from nezha_study.plan.published import accelerator, accelerators, assumption, data, fabrics


@pytest.mark.parametrize("chip", accelerators(), ids=lambda chip: chip.name)
def test_links_times_lanes_are_the_rate(chip):
    assert chip.links * chip.lanes * chip.lane == pytest.approx(chip.all_to_all)
    if chip.peer is not None and not chip.switched:
        assert chip.links * chip.peer == pytest.approx(chip.all_to_all)
    if chip.says:
        assert chip.says["all_to_all_gb"] * 1e9 != chip.all_to_all and chip.why


def test_groups_smaller_than_the_node():
    assert accelerator("H100").rate_among(2) == 450e9  # a switch
    assert accelerator("gaudi2").rate_among(2) == 37.5e9  # three ports of 100 Gbit/s
    assert accelerator("Trn2").rate_among(16) == 512e9


@pytest.mark.parametrize("name, gb", [("Intel Gaudi3", 600), ("AWS EFA v3", 400),
                                      ("NVIDIA Quantum-2 InfiniBand", 400), ("AWS EFA v2", 400),
                                      ("Intel Gaudi2", 300), ("InfiniBand XDR1600", 200),
                                      ("GCP GPUDirect-TCPXO", 200), ("GCP GPUDirect-TCPX", 100),
                                      ("HPE Slingshot", 100), ("Omni-Path CN100", 100),
                                      ("AWS EFA v1", 50), ("InfiniBand NDR400", 50),
                                      ("Omni-Path CN5000", 400), ("InfiniBand GDR3200", 400),
                                      ("Omni-Path CN6000", 800)])
def test_fabrics(name, gb):
    fabric, = [each for each in fabrics() if each.name == name]
    assert fabric.rate == gb * 1e9


def test_infiniband_is_lanes_times_rate():
    rows = {row["generation"]: row for row in links.infiniband_rows()}
    assert rows["NDR"]["x4_gbit_per_s"] == 400 and rows["HDR"]["latency_us"] == 0.6
    assert rows["LDR"]["x8_gbit_per_s"] == 6400  # 8 x 800, and not the 4800 that is printed elsewhere
    assert rows["XDR"]["latency_us"] is None


@pytest.mark.parametrize("rows", [links.intra_rows(), links.inter_rows(), links.pcie_rows()])
def test_every_row_has_both_units_and_both_ways_of_counting(rows):
    for row in rows:
        assert row["gbit_per_s"] == pytest.approx(8 * row["gb_per_s"])
        assert row["duplex_gb_per_s"] == pytest.approx(2 * row["gb_per_s"])
        assert row["practical_gb_per_s"] == pytest.approx(0.8 * row["gb_per_s"])


def test_every_file_names_its_source():
    assert "CC BY-SA 4.0" in data("intra_node")["source"] and "CC BY-SA 4.0" in data(
        "inter_node")["source"]
    for name, entry in data("assumptions").items():
        assert entry["source"], name
    memory = data("assumptions")["memory_bytes"]
    assert sum(memory["mixed"].values()) == 18 and sum(memory["float32"].values()) == 16
    assert assumption("practical") == 0.8


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(PlanError, match="accelerator 'H1000': it must be one of .*H100"):
        accelerator("H1000")
    with pytest.raises(PlanError, match="fabric 'carrier pigeon': .*EFA"):
        links.inter_rows("carrier pigeon")
