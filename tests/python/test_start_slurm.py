"""A job under `srun`, with a Slurm of the test's own: one node, no authentication, files in a folder."""

import os
import pwd
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nezha.launcher.placement import free_port

PATIENCE_S = 120.0
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "slurm" / "job.sbatch"
# The node's name is what its ranks' addresses are made of.
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/none
CredType=cred/none
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/linear
ReturnToService=2
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
"""
JOB = """
import nezha
with nezha.init(timeout=60) as comm:
    with open(f"sum{comm.rank}", "w") as file:
        print(comm.world_size, list(comm.all_reduce(bytearray([comm.rank, 1]))), file=file)
"""
# Rank 1 does not come to the all_reduce before there is a file "go".
HANGS = """
import os, time
import nezha
with nezha.init(timeout=60) as comm:
    comm.barrier()
    with open(f"joined{comm.rank}", "w") as file:
        file.write(os.environ["SLURM_JOB_ID"])
    while comm.rank == 1 and not os.path.exists("go"):
        time.sleep(0.05)
    comm.all_reduce(bytearray([1]))
"""


def _program(name):
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


def _missing():
    """Why no Slurm can be started here; None where one can."""
    absent = [name for name in ("slurmctld", "slurmd", "srun", "sbatch") if _program(name) is None]
    if absent:
        return f"{', '.join(absent)}: not installed"
    if os.geteuid() != 0:
        return "slurmd starts tasks as root"
    try:  # as Slurm asks for addresses, even for that of the loopback device
        socket.getaddrinfo("127.0.0.1", 1, flags=socket.AI_ADDRCONFIG)
    except socket.gaierror:
        return "Slurm needs a network device beside the loopback device"
    return None


@pytest.fixture
def slurm(tmp_path):
    """The environment in which srun finds it."""
    why = _missing()
    if why is not None:
        pytest.skip(why)
    for name in ("state", "spool"):
        (tmp_path / name).mkdir()
    file = tmp_path / "slurm.conf"
    file.write_text(CONFIGURATION.format(
        host=socket.gethostname().partition(".")[0], ports=[free_port(), free_port()],
        user=pwd.getpwuid(os.geteuid()).pw_name, folder=tmp_path))
    env = {**os.environ, "SLURM_CONF": str(file)}
    with open(tmp_path / "log", "wb") as log:
        daemons = [subprocess.Popen([_program(name), "-D", "-f", str(file)], env=env, stdout=log,
                                    stderr=log, start_new_session=True)
                   for name in ("slurmctld", "slurmd")]
    try:
        deadline = time.monotonic() + PATIENCE_S
        while _state(env) != "idle":
            assert time.monotonic() < deadline and all(daemon.poll() is None for daemon in daemons), (
                tmp_path / "log").read_text()
            time.sleep(0.2)
        yield env
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()


def _state(env):
    return subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False).stdout.strip()


def test_srun(slurm, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(JOB)
    done = subprocess.run(["srun", "-n", "3", sys.executable, str(script)], env=slurm, text=True,
                          capture_output=True, timeout=PATIENCE_S, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sums = {file.name: file.read_text() for file in tmp_path.glob("sum*")}
    assert sums == {f"sum{rank}": "3 [3, 3]\n" for rank in range(3)}


def test_the_example_of_a_batch_script(slurm, tmp_path):
    """On the one node that there is, with three tasks."""
    script, secret = tmp_path / "job.py", tmp_path / "secret"
    script.write_text(JOB)
    secret.write_text("5a" * 32)
    secret.chmod(0o600)
    options = ["--wait", "--nodes=1", "--ntasks-per-node=3", "--output=said"]
    done = subprocess.run(["sbatch", *options, EXAMPLE, sys.executable, str(script)], text=True,
                          env={**slurm, "NEZHA_SECRET_FILE": str(secret)}, capture_output=True,
                          timeout=PATIENCE_S, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + (tmp_path / "said").read_text()
    sums = {file.name: file.read_text() for file in tmp_path.glob("sum*")}
    assert sums == {f"sum{rank}": "3 [3, 3]\n" for rank in range(3)}


def test_the_documented_signal_writes_what_every_rank_did_last(slurm, tmp_path):
    """docs/debugging.md, "A job that hangs": `scancel --signal=USR1 JOB`; the job goes on."""
    script = tmp_path / "job.py"
    script.write_text(HANGS)
    env = {**slurm, "NEZHA_FLIGHT_SIGNAL": "SIGUSR1", "NEZHA_FLIGHT_DUMP": str(tmp_path / "dumps")}
    with subprocess.Popen(["srun", "-n", "2", sys.executable, str(script)], env=env, text=True,
                          stderr=subprocess.PIPE, cwd=tmp_path) as job:
        try:
            joined = tmp_path / "joined1"
            _until((tmp_path / "joined0").exists, job)
            _until(lambda: joined.exists() and joined.read_text(), job)
            subprocess.run(["scancel", "--signal=USR1", joined.read_text()], env=slurm, check=True,
                           timeout=PATIENCE_S)
            dumps = tmp_path / "dumps"
            _until(lambda: len(list(dumps.glob("nezha_flight.[01].json"))) == 2, job)
            (tmp_path / "go").touch()
            assert job.wait(PATIENCE_S) == 0, job.stderr.read()
        finally:
            job.kill()


def _until(condition, job):
    """Waits for that while the job runs."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert job.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
