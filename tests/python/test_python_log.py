"""The library's log lines in Python's logging."""

import os
import subprocess
import sys

LINES = """
import logging, sys, threading
import numpy, nezha

records = []
class Keep(logging.Handler):
    def emit(self, record):
        records.append((record.name, record.levelno, record.getMessage(), record.nezha_rank))
        nezha.init().close()  # a handler may use the library

logger = logging.getLogger("nezha")
logger.addHandler(Keep())
logger.setLevel(1)
logger.propagate = False
nezha.log_to_python(sys.argv[1] == "python")

def rank(r):
    with nezha.init(r, 2, "hash://log") as comm:
        comm.all_reduce(numpy.ones(10))

threads = [threading.Thread(target=rank, args=(r,)) for r in (0, 1)]
for each in threads: each.start()
for each in threads: each.join()
nezha._logging._end()
for record in records[:2000]:
    if record[3] is not None:
        print(record)
"""


def run(where, log_file=""):
    # Level and file are the process's: the handler's own init() needs the same.
    env = {**os.environ, "NEZHA_LOG_LEVEL": "debug", "NEZHA_LOG_FILE": str(log_file)}
    done = subprocess.run([sys.executable, "-c", LINES, where], capture_output=True, text=True,
                          timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_lines_have_logger_level_and_rank():
    said, errors = run("python")
    assert errors == ""
    records = [eval(line) for line in said.strip().split("\n")]
    assert records and all(name.startswith("nezha.") for name, *_ in records)
    assert {level for _, level, *_ in records} <= {10, 20, 30, 40}
    assert {rank for *_, rank in records} == {0, 1}
    assert all(text.startswith(f"[rank {rank}] ") for _, _, text, rank in records)


def test_without_it_they_go_to_stderr():
    said, errors = run("stderr")
    assert said == "" and "[rank 1] info " in errors


def test_a_named_file_gets_them_too(tmp_path):
    said, errors = run("python", tmp_path / "log")
    assert said and errors == "" and "[rank 1]" in (tmp_path / "log").read_text()


def test_the_interpreter_ends_with_lines_on_their_way():
    code = "import logging, nezha\nlogging.basicConfig(level=1, format='%(name)s %(message)s')\n" \
           "nezha.log_to_python()\nnezha.init(config={'weights': '1:1'}).close()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr.startswith("nezha.config [rank 0] configuration")


def test_a_child_of_fork_goes_on_alone():
    code = "import os, logging, nezha\nnezha.log_to_python()\nif os.fork() == 0:\n" \
           "    nezha.init(config={'log_level': 'debug'}).close()\n    os._exit(0)\n" \
           "raise SystemExit(os.waitstatus_to_exitcode(os.wait()[1]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Traceback" not in done.stderr
