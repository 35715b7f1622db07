"""What is installed for what is made: tools/setup.sh where there is nothing, and the Makefile's order."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, Set

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHELL = ("bash", "cat", "chmod", "cut", "dirname", "grep", "ln", "mkdir", "rm", "tr")
PRODUCT = {"g++", "cmake", "ninja-build", "libssl-dev", "nlohmann-json3-dev", "libfabric-dev",
           "util-linux", "python3-venv", "python3-dev"}


@pytest.fixture(name="tree")
def tree_with_nothing_made(tmp_path: Path) -> Path:
    """The files that decide about it, and a folder `bin` in which only a shell's own commands are."""
    for name in ("Makefile", "pyproject.toml", "CMakeLists.txt", "tools/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for name in SHELL:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def command(tree: Path, name: str, text: str) -> None:
    (tree / "bin" / name).write_text(f"#!{shutil.which('bash')}\n{text}\n")
    (tree / "bin" / name).chmod(0o755)


def setup(tree: Path, purpose: str, user: int,
          python: str = "exit 1") -> "subprocess.CompletedProcess[str]":
    """Runs it as that user, with an apt-get that notes what it is asked for and installs nothing."""
    command(tree, "id", f"echo {user}")
    policy = tree / "policy-rc.d"  # with it Debian starts no service of a package
    command(tree, "apt-get", f'[ -x {policy} ] && echo "$@" >>apt.log')
    command(tree, "python3", python)
    done = subprocess.run([str(tree / "tools" / "setup.sh"), purpose], text=True, capture_output=True,
                          env={"PATH": str(tree / "bin"), "POLICY": str(policy)}, check=False)
    assert not policy.exists()
    return done


def asked(tree: Path) -> Set[str]:
    """Packages that apt-get was asked for."""
    words = (tree / "apt.log").read_text().split()
    return {word for word in words if not word.startswith("-") and word not in ("update", "install")}


def test_the_product_needs_nothing_of_the_tests(tree):
    assert setup(tree, "product", user=0).returncode == 1  # it is still missing, as nothing was installed
    assert asked(tree) <= PRODUCT and asked(tree) >= {"g++", "libssl-dev", "nlohmann-json3-dev"}


def test_without_root_what_is_missing_is_named(tree):
    done = setup(tree, "product", user=1000)
    assert done.returncode == 1 and not (tree / "apt.log").exists()
    named = set(re.findall(r"^  (\S+) \(", done.stdout, re.MULTILINE))
    assert named <= PRODUCT and {"g++", "libssl-dev"} <= named
    assert "going on without them is not possible" in done.stdout


def test_the_tests_have_redis_without_its_service(tree):
    setup(tree, "tests", user=0)
    assert {"libgtest-dev", "redis-tools"} <= asked(tree)
    assert "redis-server" not in asked(tree)  # on Debian, this package starts it


def setup_of_a_whole_system(tree: Path, purpose: str, *more: str) -> None:
    """Where the system has what it shall have, and `more` commands."""
    command(tree, "c++", "cat >/dev/null")  # it has every header
    for name in ("cmake", "ninja", "setsid", "pip", *more):
        command(tree, name, "exit 0")
    (tree / ".venv" / "bin").mkdir(parents=True)
    (tree / ".venv" / "bin" / "python").symlink_to(sys.executable)
    (tree / ".venv" / "bin" / "pip").symlink_to(tree / "bin" / "pip")
    done = setup(tree, purpose, user=1000, python="exit 0")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_server_of_redis_tools_is_found_by_the_servers_name(tree):
    setup_of_a_whole_system(tree, "tests", "redis-check-rdb")
    assert (tree / ".venv" / "bin" / "redis-server").resolve() == tree / "bin" / "redis-check-rdb"


@pytest.mark.parametrize(("purpose", "has", "has_not"), [
    ("product", {"numpy", "scikit-build-core", "typer"}, {"matplotlib", "pytest", "mypy"}),
    ("demo", {"matplotlib", "scikit-learn"}, {"pytest", "mypy"}),
    ("docs", {"mkdocs", "mkdocstrings[python]"}, {"pytest", "mypy"}),
    ("tests", {"pytest", "mypy", "scikit-learn", "mkdocstrings[python]"}, set())])
def test_python_packages_are_those_of_the_purpose(purpose, has, has_not, tree):
    setup_of_a_whole_system(tree, purpose)
    listed = (tree / "build" / f"requirements-{purpose}.txt").read_text().splitlines()
    names = {re.split(r"[<>=;]", line)[0] for line in listed}
    assert has <= names and not has_not & names


def steps(tree: Path, target: str) -> List[str]:
    """What the Makefile would do for it on a fresh machine: purposes of setup.sh, and "build"."""
    done = subprocess.run(["make", "-n", target], cwd=tree, text=True, capture_output=True, check=True)
    marks: Dict[str, str] = {"--no-build-isolation": "build", "TORCH=": "run"}
    found = []
    for line in done.stdout.splitlines():
        if match := re.search(r"tools/setup\.sh (\w+)", line):
            found.append(match[1])
        found += [word for mark, word in marks.items() if mark in line]
    return found


@pytest.mark.parametrize(("target", "wanted"), [
    ("install", ["product", "build"]),
    ("demo", ["product", "demo", "build"]),
    ("test", ["product", "tests", "build", "run"])])  # ccache is the tests', and speeds the build up
def test_what_is_made_is_what_is_needed(target, wanted, tree):
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    assert steps(tree, target) == wanted
