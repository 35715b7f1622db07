"""Modules: libraries that a job opens when it asks for what they bring, and not before."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import nezha
from nezha import _native
from nezha.queries import ask
from test_examples import BUILD, ROOT

PACKAGE = Path(nezha.__file__).parent
NEZHA = [sys.executable, "-c", "import sys; sys.argv[0] = 'nezha'; "
         "from nezha_tools.main import main; main()"]
PATIENCE_S = 60
NODE = {"address": "127.0.0.1", "port": 0, "device": None, "threads": 1, "jobs_max": 0, "groups_max": 0,
        "bytes_max": 0, "total_max": 0, "topology": None, "name": None}
# A rank, and which files of Nezha's its process has in memory.
JOB = """import nezha
with nezha.init() as comm:
    comm.barrier()
names = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "nezha" in line}
print(comm.rank, *sorted(name for name in names if ".so" in name and not name.startswith("_native")))
"""
# What a program asks the library, and which modules it has in memory then; or the error.
QUESTION = """import nezha
from nezha.queries import ask
try:
    answer = ask(TOPIC, REQUEST)
except nezha.Error as error:
    answer = str(error)
names = {line.split()[-1].rpartition("/")[2] for line in open("/proc/self/maps") if "nezha" in line}
opened = [name for name in names if ".so" in name and not name.startswith("_native")]
print(json.dumps([answer, sorted(opened)]))
"""
FOR_PLANS = [("explain", {"bytes": 1 << 20}), ("divide", {"rails": [{"rate_gbps": 1, "latency_us": 9}]}),
             ("algorithm", {"text": ""}), ("reduction", {"seconds": 0.001})]


def job(rails="", folder=PACKAGE.parent, **variables):
    """Two ranks. What they print, sorted; their errors."""
    variables.update(NEZHA_RAILS=rails, PYTHONPATH=str(folder))
    done = subprocess.run([*NEZHA, "run", "-n", "2", "--grace", "0", sys.executable, "-c", JOB],
                          capture_output=True, text=True, timeout=PATIENCE_S,
                          env={**os.environ, **variables})
    return sorted(line.partition("] ")[2] for line in done.stdout.splitlines()), done.stderr


def shown(folder, code, **variables):
    """What a program prints as JSON."""
    done = subprocess.run([sys.executable, "-c", f"import json\n{code}"], capture_output=True, text=True,
                          timeout=PATIENCE_S,
                          env={**os.environ, "PYTHONPATH": str(folder), **variables})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked(topic, request, folder=PACKAGE.parent):
    """The answer, or the error's sentence; the modules in memory."""
    code = f"TOPIC, REQUEST = {topic!r}, {request!r}\n{QUESTION}"
    return shown(folder, code)


@pytest.fixture
def elsewhere(tmp_path):
    """The package in a place of its own, to be changed."""
    shutil.copytree(PACKAGE, tmp_path / "nezha", ignore=shutil.ignore_patterns("__pycache__", "torch"))
    return tmp_path


@pytest.fixture
def key_file(tmp_path):
    """Of aggregation nodes."""
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_text("0123456789abcdef" * 4)
    return str(path)


@pytest.fixture
def ring(tmp_path):
    """An algorithm file for two ranks."""
    file = tmp_path / "ring.txt"
    request = {"world_size": 2, "algorithm": "ring", "print": True}
    file.write_text(ask("explain", request)["algorithm_text"])
    return file


def test_a_job_that_asks_for_none_opens_no_module():
    said, errors = job()
    assert said == ["0", "1"], errors


@pytest.mark.parametrize("option, module", [("NEZHA_POLICY=table", "table"),
                                            ("NEZHA_MESSAGE_POLICY=random", "allocation"),
                                            ("NEZHA_TLS=on", "protection"),
                                            ("NEZHA_INTEGRITY=on", "protection")])
def test_a_job_with_such_an_option_opens_the_module(elsewhere, option, module):
    settings = dict([option.split("=")])
    said, errors = job(**settings)
    assert said == [f"0 libnezha_{module}.so", f"1 libnezha_{module}.so"], errors
    (elsewhere / "nezha" / f"libnezha_{module}.so").unlink()
    said, errors = job(folder=elsewhere, **settings)
    assert said == [] and f"the module {module} is not there" in errors, errors


@pytest.mark.parametrize("option", ["tls", "integrity"])
@pytest.mark.parametrize("rank", [0, 1])
def test_without_protection_a_rank_says_so_before_it_waits_for_another(elsewhere, option, rank):
    (elsewhere / "nezha" / "libnezha_protection.so").unlink()
    alone = ("import nezha\n"
             "try:\n"
             f"    nezha.init({rank}, 2, 'file://{elsewhere}/store')\n"
             "except nezha.Unsupported as error:\n"
             "    print(json.dumps(str(error)))\n")
    sentence = shown(elsewhere, alone, NEZHA_SECRET="0123456789abcdef" * 4,
                     **{f"NEZHA_{option.upper()}": "on"})
    assert sentence.startswith(f"rank {rank}: {option} is on: the module protection is not there")
    assert "README says under Install" in sentence and "\n" not in sentence
    assert not (elsewhere / "store").exists()


def test_a_job_that_names_a_rail_of_libfabric_opens_it():
    fabric = ask("fabric")
    software = [each["provider"] for each in fabric["devices"] if each["provider"] in ("net", "tcp")]
    if not software:
        pytest.skip(fabric["missing"] or "libfabric has no provider for the host's TCP")
    said, errors = job(f"ofi:{software[0]}@127.2.0.1")
    assert said == ["0 libnezha_ofi.so", "1 libnezha_ofi.so"], errors


def test_a_job_with_an_algorithm_of_its_own_opens_the_proof(ring):
    said, errors = job(NEZHA_ALGORITHM_FILE=str(ring))
    assert said == ["0 libnezha_proof.so", "1 libnezha_proof.so"], errors


@pytest.mark.parametrize("topic, request_", FOR_PLANS)
def test_a_question_opens_its_answers(topic, request_):
    answer, opened = asked(topic, request_)
    assert opened == ["libnezha_queries.so"] and "module" not in str(answer)
    assert asked("host", {})[1] == []


@pytest.mark.parametrize("rails", ["ofi:", "lo,ofi:mlx5_0"])
def test_a_module_that_is_not_there_is_named(elsewhere, rails):
    (elsewhere / "nezha" / "libnezha_ofi.so").unlink(missing_ok=True)
    assert job(folder=elsewhere)[0] == ["0", "1"]
    said, errors = job(rails, elsewhere)
    assert said == []
    named = rails.rpartition(",")[2]
    assert f"Unsupported: rails: '{named}': the module ofi is not there" in errors
    fabric, build = shown(elsewhere, "from nezha.queries import ask\n"
                                     "print(json.dumps([ask('fabric'), ask('build')]))")
    assert fabric["library"] is None and "the module ofi is not there" in fabric["missing"]
    assert build["transports"] == ["tcp"]


# A rank that meets nobody: the error with which it starts, and whether it has the module in memory then.
AT_REDIS = """import nezha
try:
    nezha.init(rank=1, world_size=2, store=STORE)
except nezha.Error as error:
    print(json.dumps([type(error).__name__, str(error),
                      "libnezha_redis.so" in open("/proc/self/maps").read()]))
"""


def at_redis(store, folder=PACKAGE.parent):
    return shown(folder, f"STORE = {store!r}\n{AT_REDIS}")


def test_a_job_with_a_redis_store_opens_its_module():
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as threads:
        store = f"127.0.0.1:{server.getsockname()[1]}"
        answer = threads.submit(at_redis, f"redis://:hunter2@{store}/2")
        connection, _ = server.accept()
        with connection:
            assert b"hunter2" in connection.recv(100)
            connection.sendall(b"-WRONGPASS\r\n")
            kind, sentence, opened = answer.result()
    assert kind == "InvalidArgument" and opened
    assert f"store redis://{store}/2: the password is wrong (Redis answers: WRONGPASS)" in sentence


@pytest.mark.parametrize("store", ["redis://:hunter2@127.0.0.1:1", "rediss://:hunter2@127.0.0.1:1/0?ttl=9",
                                   "redis+unix://:hunter2@/run/redis"])
def test_a_redis_store_without_its_module_says_so(elsewhere, store):
    (elsewhere / "nezha" / "libnezha_redis.so").unlink()
    kind, sentence, _ = at_redis(store, elsewhere)
    shown_store = store.replace(":hunter2", "***")
    assert kind == "Unsupported" and "\n" not in sentence
    assert sentence.startswith(f"rank 1: store {shown_store}: the module redis is not there (")
    assert sentence.endswith("; the README says under Install what it is built from")


# Which of Nezha's files the program has when it has asked for the keys of jobs and for the node.
QUESTIONS = """from nezha.queries import ask
def loaded():
    return "libnezha_aggregation.so" in open("/proc/self/maps").read()
print(json.dumps([ask("job_key")["job_key"], ask("aggregator"), loaded(),
                  len(ask("job_key", {"key_file": FILE})["job_key"]), loaded()]))
"""


def test_questions_open_the_module_of_aggregation_where_something_is_configured(key_file):
    code = f"FILE = {key_file!r}\n{QUESTIONS}"
    assert shown(PACKAGE.parent, code) == ["", {"configured": ""}, False, 81, True]


def test_a_job_with_an_aggregation_node_opens_its_module(key_file):
    node = _native.Aggregator(key_file=key_file, **NODE)
    try:
        said, errors = job(NEZHA_AGGREGATOR=f"127.0.0.1:{node.port}", NEZHA_AGGREGATOR_KEY_FILE=key_file)
        assert said == ["0 libnezha_aggregation.so", "1 libnezha_aggregation.so"], errors
        assert json.loads(node.stats())["connections"]["answered"] == 2
    finally:
        node.close()


@pytest.mark.parametrize("level, says", [("warn", True), ("error", False)])
def test_a_module_speaks_in_the_log_of_its_job(key_file, level, says):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    said, errors = job(NEZHA_AGGREGATOR=f"127.0.0.1:{port}", NEZHA_AGGREGATOR_KEY_FILE=key_file,
                       NEZHA_LOG_LEVEL=level)
    assert len(said) == 2, errors
    line = rf"\[rank (\d)\] warn aggregation: rank \1: aggregation node 127.0.0.1:{port}: "
    assert (re.search(line, errors) is not None) is says, errors


# A node that takes a connection and says nothing is given up after three seconds.
INTERRUPTED = """import ctypes, time
library, text = ctypes.CDLL(LIBRARY), ctypes.create_string_buffer(4096)
library.nezha_query.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t,
                                ctypes.c_void_p)
check = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1)
library.nezha_set_interrupt_check(check)
begin = time.monotonic()
assert library.nezha_query(b"aggregator", None, text, len(text), None) == 0
print(json.dumps([time.monotonic() - begin, json.loads(text.value)["reason"]]))
"""


def test_a_module_hears_the_interrupt_of_a_thread_of_its_job(key_file):
    library = BUILD / "src" / "libnezha.so"
    if not library.exists():
        pytest.skip("libnezha.so is not built: cmake --build build/release --target for_python_tests")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        took, reason = shown(PACKAGE.parent, f"LIBRARY = {str(library)!r}\n{INTERRUPTED}",
                             NEZHA_AGGREGATOR=f"127.0.0.1:{silent.getsockname()[1]}",
                             NEZHA_AGGREGATOR_KEY_FILE=key_file)
    assert took < 2 and "did not send its topology" in reason


def test_without_its_module_a_job_that_has_an_aggregation_node_says_so(elsewhere, key_file):
    missing = "the module aggregation is not there"
    key = ask("job_key", {"key_file": key_file})["job_key"]
    (elsewhere / "nezha" / "libnezha_aggregation.so").unlink()
    assert job(folder=elsewhere)[0] == ["0", "1"]
    node = {"NEZHA_AGGREGATOR": "127.0.0.1:7700"}
    said, errors = job(folder=elsewhere, NEZHA_AGGREGATOR_JOB_KEY=key, **node)
    assert said == [] and f"Unsupported: aggregator 127.0.0.1:7700: {missing}" in errors
    said, errors = job(folder=elsewhere, NEZHA_AGGREGATOR_KEY_FILE=key_file, **node)
    assert said == [] and f"no key for the job at its aggregation nodes: {missing}" in errors
    start = ("import nezha\n"
             "from nezha import _native\n"
             "from nezha.queries import ask\n"
             "try:\n"
             f"    _native.Aggregator(key_file={key_file!r}, **{NODE})\n"
             "except nezha.Unsupported as error:\n"
             "    print(json.dumps([str(error), ask('aggregator'), ask('job_key')]))\n")
    refused, answer, none = shown(elsewhere, start, **node)
    assert missing in refused and none == {"job_key": ""}
    assert answer["reachable"] is False and missing in answer["reason"]


def test_info_says_which_modules_are_there(elsewhere):
    def build():
        done = subprocess.run([*NEZHA, "info", "--json", "-"], capture_output=True, text=True,
                              timeout=PATIENCE_S, env={**os.environ, "PYTHONPATH": str(elsewhere)})
        return json.loads(done.stdout)["build"]

    there = {path.name for path in (elsewhere / "nezha").glob("libnezha_*.so")}
    assert {f"libnezha_{name}.so" for name in build()["modules"]} == there
    (elsewhere / "nezha" / "libnezha_proof.so").unlink()
    assert "proof" in build()["missing modules"] and "proof" not in build()["modules"]


def test_a_module_is_not_taken_for_another_one():
    said, errors = job("aggregation:eth0")
    assert said == [] and "rails: 'aggregation:eth0': the module aggregation has no rails" in errors


def test_a_job_and_a_question_without_their_module_say_so(elsewhere, ring):
    for module in (elsewhere / "nezha").glob("libnezha_*.so"):
        module.unlink()
    assert job(folder=elsewhere)[0] == ["0", "1"]
    said, errors = job(folder=elsewhere, NEZHA_ALGORITHM_FILE=str(ring))
    assert said == []
    assert f": algorithm_file {ring}: the module proof is not there" in errors, errors
    for topic, request in FOR_PLANS:
        sentence, opened = asked(topic, request, elsewhere)
        assert opened == [] and sentence.startswith("the module queries is not there"), sentence
        assert "README says under Install" in sentence and "\n" not in sentence
    assert "identity" in asked("host", {}, elsewhere)[0]


def test_the_proof_is_no_kind_of_rail():
    said, errors = job("proof:x")
    assert said == [] and "rails: 'proof:x': the module proof has no rails" in errors


def test_a_module_of_another_version_is_refused(elsewhere):
    source, module = elsewhere / "other.c", elsewhere / "nezha" / "libnezha_ofi.so"
    source.write_text("const void *nezha_module(const void *host) { (void)host; return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(module), str(source)], check=True)
    said, errors = job("ofi:", elsewhere)
    assert said == [] and f"libnezha_ofi.so is no module of Nezha {nezha.__version__}" in errors


def configured(folder, without):
    """CMake's outcome for a build in `folder` without these modules."""
    return subprocess.run(["cmake", "-S", str(ROOT), "-B", str(folder), "-DNEZHA_TESTS=OFF",
                           f"-DNEZHA_WITHOUT={without}"], capture_output=True, text=True,
                          timeout=PATIENCE_S)


def test_a_build_leaves_out_what_it_is_told_to(tmp_path):
    configured(tmp_path, "ofi;aggregation").check_returncode()
    listed = subprocess.run(["cmake", "--build", str(tmp_path), "--target", "help"], capture_output=True,
                            text=True, check=True, timeout=PATIENCE_S).stdout
    built = set(re.findall(r"\bmodule_(\w+)", listed))
    assert "proof" in built and not built & {"ofi", "aggregation"}
    refused = configured(tmp_path, "rdma")
    assert refused.returncode != 0 and "there is no module 'rdma'" in refused.stderr


@pytest.mark.parametrize("library", ["libnezha.so", "libnezha_aggregation.so", "libnezha_allocation.so",
                                     "libnezha_ofi.so", "libnezha_proof.so", "libnezha_protection.so",
                                     "libnezha_queries.so", "libnezha_redis.so", "libnezha_table.so"])
def test_libraries_export_the_c_api_and_no_more(library):
    built = BUILD / "src" / library
    if not built.exists():
        pytest.skip(f"{library} is not built: cmake --build build/release --target for_python_tests")
    listed = subprocess.run(["nm", "-D", "--defined-only", str(built)], capture_output=True, text=True,
                            check=True).stdout.split("\n")
    names = {line.split()[-1] for line in listed if line}
    names.remove("NEZHA_0")  # the version itself
    assert {name.partition("@@")[2] for name in names} == {"NEZHA_0"}
    names = {name.partition("@@")[0] for name in names}
    if library == "libnezha.so":
        assert names and all(name.startswith("nezha_") for name in names), names
        needed = subprocess.run(["readelf", "-d", str(built)], capture_output=True, text=True,
                                check=True).stdout
        assert "libcrypto" in needed and "libssl" not in needed  # TLS is for modules
    else:
        assert names == {"nezha_module"}
