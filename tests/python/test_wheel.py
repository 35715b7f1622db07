"""The wheel of tools/wheel.sh, in an environment that has nothing else, without a compiler."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 900
MOST_BYTES = 12 << 20  # of a download
HELLO = """
import numpy, nezha
with nezha.init() as comm:
    x = numpy.ones(1 << 18, numpy.float32)
    comm.all_reduce(x)
    print(comm.rank, x[0], len(comm.rails()) > 0, nezha.__file__.startswith({folder!r}))
"""
ADD = """
import array, nezha
with nezha.init() as comm:
    x = array.array("i", [comm.rank + 1, comm.rank + 3])
    comm.all_reduce(x)
    print(comm.rank, x.tolist())
"""
ALONE = """
import nezha
with nezha.init() as comm:
    comm.barrier()
    print(comm.world_size, comm.stats()["authentication"])
"""
DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from nezha.torch._native import build
dist.init_process_group("nezha")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(64, 8))
model(torch.ones(4, 64) * (dist.get_rank() + 1)).sum().backward()
here = build.loaded().__file__.startswith({folder!r})
print(dist.get_rank(), model.module.weight.grad[0, 0].item(), here)
dist.destroy_process_group()
"""


def build(folder: Path, *words: str, **environment: str) -> Path:
    # PYTHON may be that of make, for this environment.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    done = subprocess.run([ROOT / "tools/wheel.sh", *words, folder], capture_output=True, text=True,
                          timeout=PATIENCE_S, env={**inherited, **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r'constrains the platform tag to "manylinux_2_\d+_', " ".join(done.stdout.split()))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module", name="wheel")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module", name="python")
def python_with_the_wheel_alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("env"), Path(sys.executable), wheel)


def environment(folder: Path, of: Path, wheel: Path) -> Path:
    """The Python of a new environment that has the wheel alone."""
    subprocess.run([of, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    done = subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-index",
                           "--no-deps", wheel], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "setsid"):
        there = shutil.which(name)
        assert there is not None
        (tools / name).symlink_to(there)
    return python


def run(python: Path, *words: str) -> str:
    """With neither a compiler nor anything of this environment; `nezha` is the command."""
    command = [str(python.parent / "nezha" if word == "nezha" else python if word == "python" else word)
               for word in words]
    done = subprocess.run(command, cwd="/", text=True, capture_output=True, timeout=PATIENCE_S,
                          env={"PATH": str(python.parent.parent / "tools"), "HOME": "/nonexistent"})
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_its_name_says_where_it_runs(wheel):
    assert re.fullmatch(r"nezha_comm-[\d.]+-cp3\d+-(cp3\d+|abi3)-manylinux_2_\d\d_\w+\.whl", wheel.name)
    assert wheel.stat().st_size <= MOST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    modules = ("aggregation", "allocation", "ofi", "proof", "protection", "queries", "redis", "table")
    assert {f"nezha/libnezha_{module}.so" for module in modules} <= set(names)
    assert not [name for name in names if re.search("libfabric|libcrypto|libssl", name)]


def test_two_ranks_in_an_empty_environment(python):
    folder = str(python.parent.parent)
    numpy_there = Path(sysconfig.get_path("purelib"))
    if not (numpy_there / "numpy").is_dir():
        pytest.skip("numpy is not in this environment's own folder")
    assert run(python, "python", "-c", ALONE).split() == ["1", "alone"]
    link(python, numpy_there, "numpy", "numpy.libs")
    said = run(python, "nezha", "run", "-n", "2", "python", "-c", HELLO.format(folder=folder))
    assert sorted(said.splitlines()) == ["[0] 0 2.0 True True", "[1] 1 2.0 True True"]


def test_torch_finds_its_compiled_part_in_the_wheel(python):
    torch_there = Path(sysconfig.get_path("purelib"))
    if not (torch_there / "torch").is_dir():
        pytest.skip("torch is not installed")
    # Behind the wheel's own folder, which so goes before.
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    (site / "zz_torch.pth").write_text(f"{torch_there}\n")
    said = run(python, "nezha", "run", "-n", "2", "python", "-c", DDP.format(folder=str(site)))
    assert sorted(said.splitlines()) == ["[0] 0 6.0 True", "[1] 1 6.0 True"]


def later_pythons() -> list[Path]:
    """Programs of Python 3.12 and later, one of each version, the oldest first."""
    places = [Path(folder) / f"python3.{minor}" for minor in range(12, 20)
              for folder in os.environ["PATH"].split(os.pathsep)]
    places += sorted(Path.home().glob(".pyenv/versions/3.1[2-9].*[0-9]/bin/python3.1[2-9]"))
    found: dict[str, Path] = {}
    for place in places:
        if place.name not in found and works(place, "-c", "import ensurepip"):
            found[place.name] = place
    return [found[name] for name in sorted(found)]


def works(*words: object) -> bool:
    try:
        return subprocess.run([str(word) for word in words], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.long
def test_one_wheel_is_for_all_pythons_from_3_12_on(tmp_path):
    pythons = later_pythons()
    if len(pythons) < 2:
        pytest.skip("two versions of Python from 3.12 on are not here")
    wheel = build(tmp_path / "dist", PYTHON=str(pythons[0]))
    assert "-cp312-abi3-manylinux" in wheel.name
    for of in pythons:
        python = environment(tmp_path / of.name, of, wheel)
        said = run(python, "nezha", "run", "-n", "2", "python", "-c", ADD)
        assert sorted(said.splitlines()) == ["[0] 0 [3, 7]", "[1] 1 [3, 7]"], of


@pytest.mark.long
def test_a_wheel_for_arm_computes_there(tmp_path):
    arm = ["qemu-aarch64-static", "-L", str(ROOT / "build/arm-root")]
    missing = [name for name in (arm[0], "aarch64-linux-gnu-g++", "mmdebstrap") if not shutil.which(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed")
    wheel = build(tmp_path / "dist", "--arm")
    name = r"nezha_comm-[\d.]+-cp3\d+-(cp3\d+|abi3)-manylinux_2_\d\d_aarch64\.whl"
    assert re.fullmatch(name, wheel.name)
    zipfile.ZipFile(wheel).extractall(tmp_path / "unpacked")
    (program,) = (ROOT / "build/arm-root/usr/bin").glob("python3.1*")
    common = {**os.environ, "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(free_port()), "NEZHA_SHM": "off",
              "PYTHONPATH": str(tmp_path / "unpacked")}
    # The two kinds of processors in one job, since their bytes have the same order.
    jobs = [subprocess.Popen([*words, "-c", ADD], env={**common, "RANK": str(rank), **more}, text=True,
                             stdout=subprocess.PIPE)
            for rank, (words, more) in enumerate([
                ([sys.executable], {"PYTHONPATH": ""}),
                ([*arm, str(program)], {"PYTHONHOME": str(ROOT / "build/arm-root/usr")})])]
    assert [job.communicate(timeout=PATIENCE_S)[0] for job in jobs] == ["0 [3, 7]\n", "1 [3, 7]\n"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def link(python: Path, source: Path, *names: str) -> None:
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    for name in names:
        if (source / name).exists() and not (site / name).exists():
            (site / name).symlink_to(source / name)
