"""Who can join a job on several hosts: what its start says, and that a lab's jobs need nothing said."""

import os
import stat
import subprocess
import sys

import pytest
from conftest import child_env

from nezha.lab import Lab
from nezha_tools.lab import _state

_PATIENCE_S = 60
_JOB = """
import nezha
with nezha.init() as comm:
    comm.barrier()
    print(comm.stats()["authentication"])
"""
_WARNING = "can join this job of 2 ranks on 2 hosts"


def outcomes(lab, drop, **more):
    """(exit code, output, errors) of both ranks; drop: variables of the lab that they do not get."""
    ranks = []
    for node in range(2):
        env = {**child_env(), **lab.rank_env(node), **dict.fromkeys(drop, ""), **more}
        ranks.append(lab.popen(node, [sys.executable, "-c", _JOB], env=env, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    said = [rank.communicate(timeout=_PATIENCE_S) for rank in ranks]
    return [(rank.returncode, out, err) for rank, (out, err) in zip(ranks, said)]


@pytest.fixture
def lab(namespaces):
    with Lab(2, ["1gbit"], name=f"t{os.getpid()}-trust") as found:
        yield found


def test_a_lab_has_a_secret_that_nobody_else_reads(lab):
    path = _state.key_path(lab.name)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    for code, out, err in outcomes(lab, ()):
        assert code == 0 and out == "secret\n" and _WARNING not in err, err
    lab.down()
    assert not os.path.exists(path)


def test_a_start_on_several_hosts_without_a_secret_is_refused(lab):
    for code, out, err in outcomes(lab, ("NEZHA_SECRET_FILE",)):
        assert code != 0 and out == "" and "the job has no secret" in err
        assert "openssl rand -hex 32" in err and "NEZHA_SECRET_FILE" in err
        assert "rank 0 is on the host " in err and " and rank 1 on another, " in err


def test_and_with_authentication_off_warns_once(lab):
    found = outcomes(lab, ("NEZHA_SECRET_FILE",), NEZHA_AUTHENTICATION="off")
    assert [(code, out) for code, out, _ in found] == [(0, "store\n")] * 2, found
    assert "".join(err for _, _, err in found).count(_WARNING) == 1
    assert all("NEZHA_SECRET_FILE" in err for _, _, err in found[:1])


def test_and_is_refused_where_a_secret_is_required(lab):
    for code, _, err in outcomes(lab, ("NEZHA_SECRET_FILE",), NEZHA_AUTHENTICATION="required"):
        assert code != 0 and "authentication is required" in err and "NEZHA_SECRET_FILE" in err
