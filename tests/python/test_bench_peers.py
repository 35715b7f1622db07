"""What a library that is compared must offer, and what is said of one that cannot be."""

import json
import types
from pathlib import Path

import pytest

import nezha
from nezha_tools.bench import collective_report
from nezha_tools.bench.driver import Comm
from nezha_tools.bench.libraries import PEERS, find_peers, mpi
from test_bench_output import ROW, _report


def test_a_driver_that_forgets_a_part_is_not_made():
    class Half(Comm):
        rank, world_size = 0, 1

        def all_reduce(self, x, op="sum", *, out=None, algorithm=None):
            return x

    with pytest.raises(TypeError, match="barrier.*rails"):
        Half()

    class Whole(Half):
        def barrier(self):
            """Alone."""

        def rails(self):
            return []

    assert Whole().stats() == {}


def test_nezhas_communicator_has_every_part():
    parts = [name for name in (*vars(Comm), *Comm.__annotations__) if not name.startswith("_")]
    assert {"rank", "world_size", "all_reduce", "barrier", "rails", "stats"} <= set(parts)
    with nezha.init() as comm:
        assert all(hasattr(comm, name) for name in parts), parts


def test_what_is_not_installed_is_named_with_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("NEZHA_BENCH_PEERS", str(tmp_path))
    found, missing = find_peers(list(PEERS), str(tmp_path / "python"))
    assert found == {} and list(missing) == list(PEERS)
    assert all(f"install_peers.sh {name.partition('-')[0]} installs it" in why
               for name, why in missing.items())


class _Lab:
    """What a launcher asks of a lab of two nodes with two rails."""

    class lab:  # noqa: N801
        ranks = 2
        state = types.SimpleNamespace(ranks_per_node=1)

        @staticmethod
        def status():
            return {"nodes": [{"ctl": "10.0.0.1"}, {"ctl": "10.0.0.2"}]}

    @staticmethod
    def devices():
        return [("eth0", "10.1.0.1", ""), ("eth1", "10.2.0.1", "")]


@pytest.mark.parametrize("library, forced", [
    (mpi.OpenMpi, "--mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm 4"),
    (mpi.Mpich, "-genv MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM ring"),
])
def test_the_ring_is_forced_where_it_is_asked_for_and_nowhere_else(library, forced):
    chosen, ring = (" ".join(library(Path("/peer"), ring)._launcher(_Lab(), Path("/agent")))
                    for ring in (False, True))
    assert forced in ring and "algorithm" not in chosen.lower()
    assert all(word in ring.split() for word in chosen.split())


def test_the_report_says_what_is_left_out(capsys):
    report = _report()
    report.document["peers"] = {"openmpi-ring": {"algorithm": PEERS["openmpi-ring"], "rows": [ROW]}}
    report.document["peers_left_out"] = {"gloo": "it ended\nwith these words"}
    collective_report.publish(report, None, None)
    shown = capsys.readouterr().out.splitlines()
    assert "# openmpi-ring (with its ring), same lab, same rule" in shown
    assert shown[-2:] == ["# gloo is left out: it ended", "#   with these words"]
    collective_report.publish(report, "-", None)
    assert json.loads(capsys.readouterr().out)["peers_left_out"]["gloo"].startswith("it ended")
