"""What a library that is compared must offer, and what is said of one that cannot be."""

import json

import pytest

import nezha
from nezha._bench import collective_report
from nezha._bench.driver import Comm
from nezha._bench.libraries import find_peers
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
    found, missing = find_peers(["gloo", "openmpi", "mpich"], str(tmp_path / "python"))
    assert found == {} and list(missing) == ["gloo", "openmpi", "mpich"]
    assert all(f"install_peers.sh {name} installs it" in why for name, why in missing.items())


def test_the_report_says_what_is_left_out(capsys):
    report = _report()
    report.document["peers"] = {"openmpi": {"rows": [ROW]}}
    report.document["peers_left_out"] = {"gloo": "it ended\nwith these words"}
    collective_report.publish(report, None, None)
    shown = capsys.readouterr().out.splitlines()
    assert "# openmpi, same lab, same rule" in shown
    assert shown[-2:] == ["# gloo is left out: it ended", "#   with these words"]
    collective_report.publish(report, "-", None)
    assert json.loads(capsys.readouterr().out)["peers_left_out"]["gloo"].startswith("it ended")
