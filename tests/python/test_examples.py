"""The examples that need no torch: NumPy, and C against what `cmake --install` leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATIENCE_S = 300
# Where the C++ tests' build is, whose library is installed here; any build without sanitizers will do.
BUILD = Path(os.environ.get("NEZHA_BUILD", str(ROOT / "build" / "release")))
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]


def run(*command: Any, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([str(part) for part in command], text=True, capture_output=True,
                          timeout=PATIENCE_S, **options)


def nezha_run(count: int, *command: Any) -> "subprocess.CompletedProcess[str]":
    code = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    return run(sys.executable, "-c", code, "run", "-n", count, "--env", "OMP_NUM_THREADS=1",
               "--env", "OPENBLAS_NUM_THREADS=1", *command)


def ranks(count: int, *command: Any) -> str:
    """What `nezha run` prints of a command that must succeed."""
    done = nezha_run(count, *command)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_numpy_training_agrees_with_one_process(tmp_path):
    pytest.importorskip("sklearn")
    result = tmp_path / "result.json"
    shown = ranks(2, sys.executable, EXAMPLES / "digits_numpy.py", "--epochs", 2, "--check",
                  "--json", result)
    found = json.loads(result.read_text())
    assert found["ranks"] == 2 and found["losses"][1] < found["losses"][0]
    assert found["difference"] < 1e-3 and "agrees with one process" in shown


def test_what_an_example_needs_besides_is_said_in_one_line(tmp_path):
    (tmp_path / "sklearn.py").write_text("raise ImportError('there is none')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = run(sys.executable, EXAMPLES / "digits_numpy.py", env=environment)
    assert done.returncode == 1 and "pip install scikit-learn" in done.stderr
    assert "Traceback" not in done.stderr


def test_matrix_vector_product_agrees_with_one_process():
    shown = ranks(3, sys.executable, EXAMPLES / "matvec.py", "--size", 384, "--iterations", 20, "--check")
    assert "3 rank(s): eigenvalue" in shown and "agrees with one process" in shown
    done = nezha_run(2, sys.executable, EXAMPLES / "matvec.py", "--size", 385)
    assert done.returncode == 1 and "2 ranks cannot have equally many rows" in done.stderr


@pytest.mark.parametrize("kill", ["2:30", "0:0", "3:99"])
def test_survivors_finish_what_a_killed_rank_began(kill):
    done = nezha_run(4, "--grace", PATIENCE_S, sys.executable, EXAMPLES / "recovery.py", "--kill", kill)
    assert done.returncode == 128 + signal.SIGKILL, done.stdout + done.stderr
    ends = sorted(re.findall(r"rank (\d) of 3: loss (\S+), agrees with one process", done.stdout))
    assert [rank for rank, _ in ends] == ["0", "1", "2"], done.stdout + done.stderr
    assert len({loss for _, loss in ends}) == 1 and float(ends[0][1]) < 1e-3


def test_recovery_has_nothing_to_do_without_a_loss():
    shown = ranks(3, sys.executable, EXAMPLES / "recovery.py", "--steps", 5)
    assert shown.count("agrees with one process") == 3 and "because" not in shown


# What ranks have of each launcher. Under MPI inside Slurm, srun's variables are those of a daemon.
LAUNCHERS = {
    "nezha run": {"RANK": "{rank}", "WORLD_SIZE": "3"},
    "open mpi": {"OMPI_COMM_WORLD_RANK": "{rank}", "OMPI_COMM_WORLD_SIZE": "3",
                 "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_NTASKS": "3"},
    "mpich": {"PMI_RANK": "{rank}", "PMI_SIZE": "3"},
    "slurm": {"SLURM_PROCID": "{rank}", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "8",
              "SLURM_JOB_NODELIST": "node1"},
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prefix as `cmake --install` makes it."""
    if shutil.which("cmake") is None or not (BUILD / "src" / "libnezha.so").exists():
        pytest.skip(f"{BUILD} holds no library: make test builds it before, or name another "
                    "build folder in NEZHA_BUILD")
    prefix = tmp_path_factory.mktemp("prefix")
    done = run("cmake", "--install", BUILD, "--prefix", prefix)
    assert done.returncode == 0, done.stdout + done.stderr
    return prefix


def right(rank: int) -> str:
    """What the C program prints as one of three ranks."""
    return f"rank {rank} of 3: sum 6, message {(rank + 2) % 3}, 0 wrong"


def check_ranks(program: Path) -> None:
    assert sorted(ranks(3, program).splitlines()) == [f"[{rank}] {right(rank)}" for rank in range(3)]


@pytest.fixture(scope="module")
def c_program(installed, tmp_path_factory) -> Path:
    """The C program as pkg-config says it is built."""
    if shutil.which("pkg-config") is None:
        pytest.skip("pkg-config is not installed")
    found = next(installed.rglob("nezha.pc"))
    flags = run("pkg-config", "--cflags", "--libs", "nezha",
                env={**os.environ, "PKG_CONFIG_PATH": str(found.parent)})
    assert flags.returncode == 0 and "rpath" not in flags.stdout, flags.stdout + flags.stderr
    program = tmp_path_factory.mktemp("c") / "allreduce"
    built = run("cc", *STRICT, EXAMPLES / "allreduce.c", *flags.stdout.split(),
                f"-Wl,-rpath,{found.parents[1]}", "-o", program)
    assert built.returncode == 0, built.stderr
    return program


def test_c_program_with_pkg_config(c_program):
    check_ranks(c_program)
    refused = run(c_program, env={"RANK": "0", "WORLD_SIZE": "0"})
    assert refused.returncode == 1 and "invalid_argument" in refused.stderr


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_c_program_finds_its_launcher(launcher, c_program, tmp_path):
    started = []
    for rank in range(3):
        env = {name: value.format(rank=rank) for name, value in LAUNCHERS[launcher].items()}
        env["NEZHA_STORE"] = f"file://{tmp_path}"
        started.append(subprocess.Popen([c_program], env=env, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE))
    said = [process.communicate(timeout=PATIENCE_S) for process in started]
    assert [out for out, _ in said] == [right(rank) + "\n" for rank in range(3)], said
    assert not any("alone" in err for _, err in said)


def test_c_program_says_that_it_is_alone(c_program):
    done = run(c_program, env={})
    assert (done.returncode, done.stdout) == (0, "rank 0 of 1: sum 1, message 0, 0 wrong\n")
    assert "this process is alone" in done.stderr


def test_c_program_in_a_batch_script_without_srun_is_no_world_of_one(c_program):
    done = run(c_program, env={"SLURM_PROCID": "0", "SLURM_NTASKS": "8",
                               "SLURM_JOB_NODELIST": "node[1-8]"})
    assert done.returncode == 1 and "write srun before the program" in done.stderr


def test_c_program_asks_where_to_meet(c_program):
    done = run(c_program, env={"PMI_RANK": "1", "PMI_SIZE": "2"})
    assert done.returncode == 1 and "rank 1 of 2" in done.stderr and "NEZHA_STORE" in done.stderr


MPI_PROGRAM = """
#include <nezha/mpi.h>
#include <stdio.h>

int main(int argc, char** argv) {
  nezha_comm_t comm;
  int mine = 1, rank = 0, size = 0;
  MPI_Init(&argc, &argv);
  if (nezha_init_mpi(MPI_COMM_WORLD, NULL, &comm) != NEZHA_OK ||
      nezha_all_reduce(comm, &mine, &mine, 1, NEZHA_INT32, NEZHA_SUM, NULL, NULL) != NEZHA_OK) {
    fprintf(stderr, "%s\\n", nezha_last_error());
    return 1;
  }
  nezha_rank(comm, &rank);
  nezha_world_size(comm, &size);
  nezha_destroy(comm);
  MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (mine != 3 || size != 3 || rank != 3) return 2;
  return MPI_Finalize();
}
"""


def test_c_program_with_mpi(installed, tmp_path):
    compiler = Path(sys.executable).with_name("mpicc")
    assert compiler.exists(), "mpicc is missing: pip install mpich brings it, as make test does"
    library = next(installed.rglob("libnezha.so")).parent
    (tmp_path / "program.c").write_text(MPI_PROGRAM)
    built = run(compiler, *STRICT, tmp_path / "program.c", f"-I{installed / 'include'}", f"-L{library}",
                "-lnezha", f"-Wl,-rpath,{library}", "-o", tmp_path / "program")
    assert built.returncode == 0, built.stderr
    done = run(compiler.with_name("mpiexec"), "-n", 3, tmp_path / "program")
    assert done.returncode == 0, done.stdout + done.stderr


def test_c_program_with_cmake(installed, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.22)\nproject(example C)\nfind_package(nezha 0.2 REQUIRED)\n"
        f"add_executable(allreduce {EXAMPLES / 'allreduce.c'})\n"
        "target_link_libraries(allreduce PRIVATE nezha::nezha)\n")
    configured = run("cmake", "-S", tmp_path, "-B", tmp_path / "build",
                     f"-DCMAKE_PREFIX_PATH={installed}")
    assert configured.returncode == 0, configured.stdout + configured.stderr
    built = run("cmake", "--build", tmp_path / "build")
    assert built.returncode == 0, built.stdout + built.stderr
    check_ranks(tmp_path / "build" / "allreduce")


def test_c_program_with_debian_packages(installed, tmp_path):
    for name in ("cpack", "dpkg-deb", "dpkg-shlibdeps"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    made = run("cpack", "--config", BUILD / "CPackConfig.cmake", "-G", "DEB", "-B", tmp_path)
    assert made.returncode == 0, made.stdout + made.stderr
    packages = {path.name.partition("_")[0]: path for path in tmp_path.glob("*.deb")}
    assert set(packages) == {"libnezha0", "libnezha-dev"}
    needs = run("dpkg-deb", "-f", packages["libnezha0"], "Depends").stdout
    assert "libssl3" in needs and "libc6" in needs and "gtest" not in needs, needs
    root = tmp_path / "root"
    for package in packages.values():
        assert run("dpkg-deb", "-x", package, root).returncode == 0
    library = next(root.rglob("libnezha.so")).parent
    assert {path.name for path in library.glob("libnezha_*.so")} >= {"libnezha_protection.so"}
    program = tmp_path / "allreduce"
    built = run("cc", *STRICT, EXAMPLES / "allreduce.c", f"-I{root}/usr/include", f"-L{library}",
                "-lnezha", f"-Wl,-rpath,{library}", "-o", program)
    assert built.returncode == 0, built.stderr
    check_ranks(program)


def test_examples_of_the_readme_need_nothing_beside_the_product():
    page = (EXAMPLES / "README.md").read_text()
    needs = dict(re.findall(r"^\| \[(\S+)\]\(.*\|([^|]*)\|$", page, re.MULTILINE))
    used = set(re.findall(r"python examples/(\S+)", (ROOT / "README.md").read_text()))
    assert used and {needs[name].strip() for name in used} == {""}


def test_every_example_is_described():
    described = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        assert path.name in described or path.name == "README.md", path
