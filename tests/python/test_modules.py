"""Modules: libraries that a job opens when it asks for what they bring, and not before."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nezha
from nezha.queries import ask
from test_examples import BUILD

PACKAGE = Path(nezha.__file__).parent
NEZHA = [sys.executable, "-c", "import sys; sys.argv[0] = 'nezha'; "
         "from nezha_tools.main import main; main()"]
PATIENCE_S = 60
# A rank, and which files of Nezha's its process has in memory.
JOB = """import nezha
with nezha.init() as comm:
    comm.barrier()
names = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "nezha" in line}
print(comm.rank, *sorted(name for name in names if ".so" in name and not name.startswith("_native")))
"""


def job(rails="", folder=PACKAGE.parent, **settings):
    """Two ranks. What they print, sorted; their errors; whether they came to their end."""
    done = subprocess.run([*NEZHA, "run", "-n", "2", "--grace", "0", sys.executable, "-c", JOB],
                          capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, "NEZHA_RAILS": rails, "PYTHONPATH": str(folder), **settings})
    return sorted(line.partition("] ")[2] for line in done.stdout.splitlines()), done.stderr


@pytest.fixture
def elsewhere(tmp_path):
    """The package in a place of its own, to be changed."""
    shutil.copytree(PACKAGE, tmp_path / "nezha", ignore=shutil.ignore_patterns("__pycache__", "torch"))
    return tmp_path


def test_a_job_without_rdma_opens_no_module():
    said, errors = job()
    assert said == ["0", "1"], errors


@pytest.mark.parametrize("option, module", [("NEZHA_POLICY=table", "table"),
                                            ("NEZHA_MESSAGE_POLICY=random", "allocation")])
def test_a_job_with_such_an_option_opens_the_module(elsewhere, option, module):
    settings = dict([option.split("=")])
    said, errors = job(**settings)
    assert said == [f"0 libnezha_{module}.so", f"1 libnezha_{module}.so"], errors
    (elsewhere / "nezha" / f"libnezha_{module}.so").unlink()
    said, errors = job(folder=elsewhere, **settings)
    assert said == [] and f"the module {module} is not there" in errors, errors


def test_a_job_that_names_a_rail_of_libfabric_opens_it():
    fabric = ask("fabric")
    software = [each["provider"] for each in fabric["devices"] if each["provider"] in ("net", "tcp")]
    if not software:
        pytest.skip(fabric["missing"] or "libfabric has no provider for the host's TCP")
    said, errors = job(f"ofi:{software[0]}@127.2.0.1")
    assert said == ["0 libnezha_ofi.so", "1 libnezha_ofi.so"], errors


@pytest.mark.parametrize("rails", ["ofi:", "lo,ofi:mlx5_0"])
def test_a_module_that_is_not_there_is_named(elsewhere, rails):
    (elsewhere / "nezha" / "libnezha_ofi.so").unlink(missing_ok=True)
    assert job(folder=elsewhere)[0] == ["0", "1"]
    said, errors = job(rails, elsewhere)
    assert said == []
    named = rails.rpartition(",")[2]
    assert f"Unsupported: rails: '{named}': the module ofi is not there" in errors
    code = ("import json\nfrom nezha.queries import ask\n"
            "print(json.dumps([ask('fabric'), ask('build')]))")
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(elsewhere)})
    fabric, build = json.loads(shown.stdout)
    assert fabric["library"] is None and "the module ofi is not there" in fabric["missing"]
    assert build["transports"] == ["tcp"]


def test_a_module_of_another_version_is_refused(elsewhere):
    source, module = elsewhere / "other.c", elsewhere / "nezha" / "libnezha_ofi.so"
    source.write_text("const void *nezha_module(const void *host) { (void)host; return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(module), str(source)], check=True)
    said, errors = job("ofi:", elsewhere)
    assert said == [] and f"libnezha_ofi.so is no module of Nezha {nezha.__version__}" in errors


@pytest.mark.parametrize("library", ["libnezha.so", "libnezha_allocation.so", "libnezha_ofi.so",
                                     "libnezha_table.so"])
def test_libraries_export_the_c_api_and_no_more(library):
    built = BUILD / "src" / library
    if not built.exists():
        pytest.skip(f"{library} is not built: cmake --build build/release --target for_python_tests")
    listed = subprocess.run(["nm", "-D", "--defined-only", str(built)], capture_output=True, text=True,
                            check=True).stdout.split("\n")
    names = {line.split()[-1] for line in listed if line}
    assert names and all(name.startswith("nezha_") for name in names), names
