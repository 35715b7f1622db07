"""The first program of the README and the lines that start it, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List

import pytest

from conftest import child_env
from nezha.lab import Lab

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120

# In the place of ssh: a shell on the node with that address, which has nothing of this environment.
SSH = """#!{python}
import subprocess, sys
from nezha.lab import Lab
lab = Lab.attach({lab!r})
*_, host, command = sys.argv
node = [each.ctl for each in lab.state.nodes].index(host)
bare = ["env", "-i", "PATH=/usr/bin:/bin", "sh", "-c", command]
sys.exit(lab.popen(node, bare).wait())
"""


def block(language: str, words: str) -> str:
    """The one block of the README that contains `words`."""
    page = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (found,) = [text for kind, text in blocks if kind == language and words in text]
    return found


@pytest.fixture(name="folder")
def folder_with_the_program(tmp_path: Path) -> Path:
    (tmp_path / "first.py").write_text(block("python", "import nezha"))
    return tmp_path


def shell(folder: Path, line: str, first_in_path: str = "") -> List[str]:
    """What a line prints that a reader types with the virtual environment in use."""
    path = f"{first_in_path}:{Path(sys.executable).parent}:{os.environ['PATH']}".lstrip(":")
    environment = {**child_env(), "PATH": path}
    done = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, text=True, capture_output=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def line_with(words: str) -> str:
    """The one line that starts the program so."""
    lines = block("", "nezha run -n 4 python first.py").splitlines()
    (found,) = [line for line in lines if words in line]
    return found


def check(lines: List[str], world_size: int) -> Dict[str, int]:
    """All ranks say what they have; the bytes that were sent over each rail."""
    total = sum(range(world_size))
    assert sorted(line for line in lines if "every element" in line) == [
        f"[{rank}] rank {rank} of {world_size}: every element is {total}.0" for rank in range(world_size)]
    sent: Dict[str, int] = {}
    for line in lines:
        if found := re.fullmatch(r"\[\d\] rank \d sent (\d+) bytes over (\w+)", line):
            sent[found[2]] = sent.get(found[2], 0) + int(found[1])
    return sent


def test_alone(folder):
    assert shell(folder, "python first.py") == ["rank 0 of 1: every element is 0.0"]


def test_on_this_host_in_memory(folder):
    sent = check(shell(folder, line_with("-n 4 python")), 4)
    assert sent and sum(sent.values()) < (4 << 20) / 100  # heartbeats alone, where the job takes its time


def test_on_this_host_over_its_rails(folder):
    assert sum(check(shell(folder, line_with("NEZHA_SHM=off")), 4).values()) > 4 * (1 << 20)


def test_on_several_hosts(namespaces, folder, tmp_path):
    with Lab(2, ["1gbit", "1gbit"], name=f"t{os.getpid()}-readme") as lab:
        (tmp_path / "ssh").write_text(SSH.format(python=sys.executable, lab=lab.name))
        (tmp_path / "ssh").chmod(0o755)
        first, second = (node.ctl for node in lab.state.nodes)
        (folder / "hosts.txt").write_text(f"{first}  # its control network\n{second} slots=2\n")
        sent = check(shell(folder, line_with("--hostfile hosts.txt"), str(tmp_path)), 3)
        assert sent["eth0"] > 1 << 20 and sent["eth1"] > 1 << 20
        line = line_with("-H node1,node2").replace("node1", first).replace("node2", second)
        sent = check(shell(folder, line, str(tmp_path)), 2)
        assert sent["eth0"] > 1 << 20 and sent["eth1"] > 1 << 20
