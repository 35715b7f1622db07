"""The wheel of tools/wheel.sh, in an environment that has nothing else, without a compiler."""

from __future__ import annotations

import re
import shutil
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


@pytest.fixture(scope="module", name="wheel")
def built_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run([ROOT / "tools/wheel.sh", folder], capture_output=True, text=True,
                          timeout=PATIENCE_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r'constrains the platform tag to "manylinux_2_\d+_', " ".join(done.stdout.split()))
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module", name="python")
def python_with_the_wheel_alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("env")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
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


def link(python: Path, source: Path, *names: str) -> None:
    site = next((python.parent.parent / "lib").glob("python3*/site-packages"))
    for name in names:
        if (source / name).exists() and not (site / name).exists():
            (site / name).symlink_to(source / name)
