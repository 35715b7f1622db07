"""What a library that is compared must offer, and what is said of one that cannot be."""

import json
import types
from pathlib import Path

import pytest

import nezha
from nezha_tools.cli import errors as nezha_errors
from nezha_tools.bench import collective_report
from nezha_tools.bench.driver import Comm
from nezha_tools.bench.libraries import find_peers, mpi, settings
from nezha_tools.bench.libraries.best import best
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
    found, missing = find_peers(settings.all_names(), str(tmp_path / "python"))
    assert found == {} and list(missing) == settings.all_names()
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


    @staticmethod
    def fastest():
        return 1

    @staticmethod
    def rates():
        return {"eth0": 62.5e6, "eth1": 125e6}


def launched(name, collective="all_reduce"):
    library, setting = settings.of(name)
    peer = (mpi.OpenMpi if library == "openmpi" else mpi.Mpich)(Path("/peer"), setting)
    return " ".join(peer._launcher(_Lab(), Path("/agent"), collective))


@pytest.mark.parametrize("name, forced", [
    ("openmpi-ring", "--mca coll_tuned_allreduce_algorithm 4"),
    ("openmpi-recursive-doubling", "--mca coll_tuned_allreduce_algorithm 3"),
    ("openmpi-rates", "--mca btl_tcp_bandwidth_eth0 500 --mca btl_tcp_bandwidth_eth1 1000"),
    ("openmpi-han", "--mca coll_han_priority 100"),
    ("mpich-ring", "-genv MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM ring"),
    ("mpich-libfabric", "-genv FI_TCP_IFACE eth1"),
])
def test_a_setting_is_forced_where_it_is_asked_for_and_nowhere_else(name, forced):
    asked, default = launched(name), launched(name.partition("-")[0])
    assert forced in asked and "algorithm" not in default.lower() and "bandwidth" not in default


def test_a_setting_without_an_algorithm_for_a_collective_says_so():
    with pytest.raises(nezha_errors.BenchError, match="all_reduce only"):
        launched("openmpi-rabenseifner", "all_gather")


def test_a_library_stands_for_all_its_settings():
    assert settings.parse_peers("mpich, mpich-ring") == settings.names("mpich")
    assert settings.parse_peers("openmpi-default,openmpi-han") == ["openmpi", "openmpi-han"]
    with pytest.raises(nezha_errors.BenchError, match="--compare openmpi-ring-default: one of gloo"):
        settings.parse_peers("openmpi-ring-default")


def test_the_best_of_each_size_has_the_name_of_its_setting():
    times = {"openmpi": [5, 9], "openmpi-ring": [7, 3], "gloo": [1, 1]}
    found = best({name: [{"size": size, "time_us": time} for size, time in zip((4, 8), each)]
                  for name, each in times.items()})
    assert list(found) == ["openmpi"] and found["openmpi"]["settings"] == ["openmpi", "openmpi-ring"]
    assert [(row["time_us"], row["setting"]) for row in found["openmpi"]["rows"]] == [
        (5, "openmpi"), (3, "openmpi-ring")]


def test_the_report_says_what_is_left_out(capsys):
    report = _report()
    words = settings.words("openmpi-ring")
    report.document["peers"] = {"openmpi-ring": {"algorithm": words, "rows": [ROW]}}
    report.document["peers_left_out"] = {"gloo": "it ended\nwith these words"}
    collective_report.publish(report, None, None)
    shown = capsys.readouterr().out.splitlines()
    assert "# openmpi-ring (with its ring), same lab, same rule" in shown
    assert shown[-2:] == ["# gloo is left out: it ended", "#   with these words"]
    collective_report.publish(report, "-", None)
    assert json.loads(capsys.readouterr().out)["peers_left_out"]["gloo"].startswith("it ended")
