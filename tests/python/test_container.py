"""examples/container/Containerfile, its steps in a new Debian root: no builder of images is needed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "examples/container/Containerfile"
PATIENCE_S = 900
SUM = """
import numpy, nezha
with nezha.init() as comm:
    print(comm.all_reduce(numpy.ones(1000, "f4"))[0], nezha.__file__.startswith("/opt/nezha/"))
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("mmdebstrap") is None or sys.version_info[:2] != (3, 11),
    reason="a clean root needs root, mmdebstrap, and a wheel for the Python of Debian 12")


def instructions(path: Path) -> List[Tuple[str, str]]:
    """(word, the rest) of each line, without comments and joined where a line goes on."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    parts = [line.partition(" ") for line in joined.splitlines() if line]
    return [(word, rest) for word, _, rest in parts]


class Root:
    """A folder with a system of its own, in which commands run with this host's network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: Dict[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/"}
        self.user = "root"
        self.start: List[str] = []
        self._make()

    def _make(self) -> None:
        sources = self.folder.with_suffix(".sources")
        apt = Path("/etc/apt")
        found = next(each for each in (apt / "sources.list.d/debian.sources", apt / "sources.list")
                     if each.is_file())
        lines = [line for line in found.read_text().splitlines() if not line.startswith("#")]
        sources.write_text("\n".join(lines) + "\n")
        _checked(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", self.folder, sources])
        self._registries = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}

    def _find_registries(self) -> None:
        """pip finds what this host's finds. Before every step: one may have installed certificates."""
        for name in ("/etc/pip.conf", self._registries.get("PIP_CERT", "")):
            if name and Path(name).is_file():
                there = self.folder / name.lstrip("/")
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(name, there)

    def run(self, *command: str) -> str:
        """As the user of this step; what it said."""
        self._find_registries()
        mounts = " && ".join(f"mount --bind /{name} {shlex.quote(str(self.folder / name))}"
                             for name in ("proc", "dev"))
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        inside = shlex.join(["chroot", f"--userspec={self.user}", str(self.folder), "env", "-i",
                             *(f"{name}={value}" for name, value in self._registries.items()),
                             *variables, *command])
        return _checked(["unshare", "--mount", "sh", "-c", f"{mounts} && exec {inside}"])

    def build(self, path: Path) -> None:
        """What a builder of images does with the instructions that the file has."""
        for word, rest in instructions(path):
            if word in ("ARG", "ENV"):
                name, value = rest.split("=", 1)
                self.environment[name] = value
            elif word == "RUN":
                self.run("sh", "-c", rest)
            elif word == "COPY":
                pattern, to = rest.split()
                newest = max(ROOT.glob(pattern), key=lambda each: each.stat().st_mtime)
                shutil.copy(newest, self.folder / to.lstrip("/"))
            elif word == "USER":
                self.user = rest
            elif word == "CMD":
                self.start = json.loads(rest)
            else:
                assert (word, rest) == ("FROM", "docker.io/library/debian:bookworm-slim")


def _checked(command: List[object]) -> str:
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module", name="image")
def built_image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Root]:
    _checked([ROOT / "tools/wheel.sh"])
    root = Root(tmp_path_factory.mktemp("image") / "root")
    root.build(FILE)
    yield root
    shutil.rmtree(root.folder)


@pytest.mark.long
def test_a_user_of_the_image_adds_up_and_asks(image: Root) -> None:
    said = image.run("nezha", "run", "-n", "2", "python", "-c", SUM)
    assert sorted(said.splitlines()) == ["[0] 2.0 True", "[1] 2.0 True"]
    assert "rails" in image.run(*image.start)
    assert image.run("sh", "-c", "id -un; command -v g++ || echo no compiler").split("\n")[:2] == [
        "nezha", "no compiler"]
