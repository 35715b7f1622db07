"""Vector forms against the shipped schedules: every transfer of every algorithm, and every time."""

import sys
from pathlib import Path

import numpy as np
import pytest

from nezha_tools.cli.errors import PlanError
from nezha_study.sim import cluster, forms, waves
from nezha_study.sim.engine import Engine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from oracle import shipped

CATALOG = shipped.catalog()
RANKS = [*range(2, 18), 24, 31, 32, 33, 48, 63, 64]  # powers of two and their neighbours
OTHER_RANKS = sorted({*range(2, 65)} - {*RANKS})


def test_there_is_a_form_for_every_row_of_the_catalog():
    assert set(CATALOG) == set(forms.known()) and len(CATALOG) == len(set(CATALOG)) >= 22


@pytest.mark.parametrize("counts", [RANKS, pytest.param(OTHER_RANKS, marks=pytest.mark.long)],
                         ids=["some", "others"])
@pytest.mark.parametrize("collective, algorithm", CATALOG)
def test_every_transfer_is_the_shipped_one(collective, algorithm, counts):
    for ranks in counts:
        root = ranks * 7 // 5 % ranks
        made = waves.rows(forms.form(collective, algorithm, ranks, root))
        assert made == waves.rows(shipped.form(collective, algorithm, ranks, root)), ranks


@pytest.mark.parametrize("collective, algorithm", CATALOG)
def test_no_host_sends_or_takes_twice_in_a_wave(collective, algorithm):
    for ranks in (2, 5, 12, 30):
        for source in (forms, shipped):
            for wave in source.form(collective, algorithm, ranks).waves():
                assert len(set(wave.src.tolist())) == len(set(wave.dst.tolist())) == wave.src.size


def run_waves(hosts, make, collective, algorithm, size, root):
    made = waves.plan({"collective": collective, "bytes": size, "world_size": hosts.hosts, "root": root,
                       "algorithm": algorithm, "dtype": "float32", "rails": 2, "rate_gbps": 0.15})
    form = make(collective, algorithm, hosts.hosts, root)
    return Engine(hosts, form, made, size // made.element_bytes, [0, 1]).run()


@pytest.mark.parametrize("collective, algorithm", CATALOG)
def test_every_host_is_done_when_the_shipped_schedule_says(collective, algorithm):
    """The rounds of the shipped schedules decide what waits for what: hosts that all differ, at two
    rails, are done at the same moments with both."""
    for ranks in (2, 3, 5, 6, 8, 13, 16, 21):
        hosts = cluster.uniform(ranks, [(25e6, 50e-6), (12.5e6, 80e-6)], gap_s=3e-6)
        cluster.vary(hosts, 0.4, ranks)
        cluster.late_host(hosts, ranks // 2, 1e-3)
        for size in (4 * ranks, 1 << 20, 1000004):
            size = 0 if collective == "barrier" else size
            ours, theirs = (run_waves(hosts, make, collective, algorithm, size, ranks // 3)
                            for make in (forms.form, shipped.form))
            assert np.abs(ours.done_s - theirs.done_s).max() <= 1e-12 * theirs.total_s
            assert np.allclose(ours.sent, theirs.sent)


def test_what_is_no_algorithm_is_refused():
    with pytest.raises(PlanError, match="must be one of ring"):
        forms.form("all_reduce", "bruck", 4)
    with pytest.raises(PlanError, match="1 to 256"):
        shipped.form("all_reduce", "ring", 257)
