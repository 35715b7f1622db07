"""docs/debugging.md: the command for a job that hangs, as it stands there, under each launcher."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from nezha_tools.flight import analyse, read_files

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
NEZHA_RUN = ["nezha", "run", "-n", "2", "python", "train.py"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "train.py"]

# Rank 1 does not come to the all_reduce before there is a file "go".
TRAIN = """
import os, time, numpy, nezha
with nezha.init() as comm:
    comm.barrier()
    open(f"joined.{comm.rank}", "w").close()
    while comm.rank == 1 and not os.path.exists("go"):
        time.sleep(0.05)
    comm.all_reduce(numpy.ones(5))
"""

# Starts the job, sends the signal until dumps of both ranks show that one waits, and says how the job
# ended. It is the first process of its own process namespace, so that the command finds no other program.
ASK = """
import glob, json, subprocess, sys, time
order = json.load(sys.stdin)
job = subprocess.Popen(order["job"], stdin=subprocess.DEVNULL)
deadline = time.monotonic() + order["patience"]

def until(condition):
    while job.poll() is None and time.monotonic() < deadline and not condition():
        time.sleep(0.1)

def shown():
    subprocess.run(order["command"], check=False)
    time.sleep(0.2)
    return (len(glob.glob("dumps/nezha_flight.*.json")) == 2
            and subprocess.run(["nezha", "flight", "dumps"], stdout=subprocess.DEVNULL).returncode == 1)

until(lambda: len(glob.glob("joined.*")) == 2)
until(shown)
open("go", "w").close()
print(json.dumps({"code": job.wait(order["patience"])}))
"""


def documented() -> List[str]:
    """The command of the page, as the words that a shell makes of it."""
    page = (ROOT / "docs" / "debugging.md").read_text("utf-8")
    (command,) = re.findall(r"```\n(pkill [^\n]*)\n```", page)
    return shlex.split(command)


def ask(folder: Path, job: List[str], command: List[str], **more: str) -> Dict[str, Any]:
    """How a job in a namespace of processes takes the command. Skips where there can be none."""
    apart = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--pid", "--fork",
             "--mount-proc", "--kill-child"]
    if shutil.which("pkill") is None:
        pytest.skip("there is no pkill: install procps")
    if shutil.which("unshare") is None or subprocess.run([*apart, "true"], check=False).returncode != 0:
        pytest.skip("no namespace of processes is allowed here")
    (folder / "train.py").write_text(TRAIN)
    (folder / "ask.py").write_text(ASK)
    environment = {**os.environ, **more, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run([*apart, sys.executable, "ask.py"], cwd=folder, env=environment, text=True,
                          input=json.dumps({"job": job, "command": command, "patience": PATIENCE_S}),
                          capture_output=True, timeout=3 * PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "words": done.stdout + done.stderr}


def check(folder: Path, job: List[str], command: List[str]) -> None:
    """The ranks write dumps that name the absent one, and the job goes on to its end."""
    found = ask(folder, job, command, NEZHA_FLIGHT_SIGNAL="SIGUSR1", NEZHA_FLIGHT_DUMP="dumps")
    assert found["code"] == 0, found["words"]
    dumps, problems = read_files([str(folder / "dumps")])
    assert not problems and {dump.reason for dump in dumps} == {"signal"}, found["words"]
    assert len(dumps) == 2 and analyse(dumps).findings[0].ranks == (1,)


def test_the_command_under_nezha_run(tmp_path):
    check(tmp_path, NEZHA_RUN, documented())


@pytest.mark.parametrize("pattern", ["train.py", "nezha run"])
def test_a_pattern_that_is_the_launchers_too(pattern, tmp_path):
    check(tmp_path, NEZHA_RUN, ["pkill", "-USR1", "-f", pattern])


def test_the_command_under_torchrun(tmp_path):
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed")
    check(tmp_path, TORCHRUN, documented())
