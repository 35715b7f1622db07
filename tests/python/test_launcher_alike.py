"""What several ranks of `nezha run` say alike is printed once, and nothing else is left out."""

import io
import subprocess
import sys

import pytest

from nezha import launcher
from nezha.launcher.alike import Alike

PATIENCE_S = 60.0
TRACEBACK = ["Traceback (most recent call last):", '  File "job.py", line 3, in <module>', "    start()",
             "    ~~~~~^^"]


class Launcher:
    """Ranks that print, and what comes out, on a clock that the test moves."""

    def __init__(self, ranks):
        self.now = 0.0
        self._target = io.BytesIO()
        self.alike = Alike(self._target, ranks, lambda: self.now)
        self._ranks = [self.alike.lines_of(rank) for rank in range(ranks)]

    def say(self, rank, *lines):
        self._ranks[rank]([line.encode() for line in lines])

    def out(self):
        return self._target.getvalue().decode().splitlines()


def log_line(rank, text, level="warn", moment="00.1"):
    return f"2026-01-31T12:00:{moment}Z node{rank}:{4711 + rank} [rank {rank}] {level} rails: {text}"


@pytest.mark.parametrize("last", ["ValueError: the same", "nezha.errors.TimedOut: rank {}: lost rank 1"])
@pytest.mark.parametrize("mark", ["", "[rank{}]: "], ids=["plain", "torch"])
def test_a_traceback_of_many_ranks_is_printed_once(mark, last):
    job = Launcher(64)
    for rank in range(64):
        job.say(rank, *(mark.format(rank) + line for line in [*TRACEBACK, last.format(rank)]))
    assert job.out() == [f"[ 0] {mark.format(0)}{line}" for line in [*TRACEBACK, last.format(0)]]
    job.alike.close()
    assert job.out()[5:] == [f"and 63 others, ranks 1-63: {mark.format(0)}{last.format(0)}"]


def test_what_differs_is_printed():
    job = Launcher(6)
    for rank, words in enumerate(["index 7", "index 8", "index 7", "rank 1", "index 4", "index 5"]):
        job.say(rank, *TRACEBACK, f"IndexError: {words}")
    job.alike.close()
    assert [line for line in job.out() if "Error" in line] == [
        "[0] IndexError: index 7", "[1] IndexError: index 8", "[3] IndexError: rank 1",
        "[4] IndexError: index 4", "[5] IndexError: index 5",
        "and 1 other, rank 2: IndexError: index 7"]


def test_all_else_is_printed_as_it_comes():
    job = Launcher(2)
    for rank in range(2):
        job.say(rank, "the same words", "", log_line(rank, "x", level="info"), "  more")
    assert len(job.out()) == 8
    job.alike.close()
    assert len(job.out()) == 8


def test_what_a_rank_says_again_is_printed_again():
    job = Launcher(2)
    for rank in (0, 1, 0, 1):
        job.say(rank, *TRACEBACK, "OSError: no")
    assert job.out().count("[0] OSError: no") == 2 and job.out().count("[1] OSError: no") == 1


def test_a_cause_belongs_to_its_traceback():
    job = Launcher(2)
    between = ["", "The above exception was the direct cause of the following exception:", ""]
    for rank in range(2):
        job.say(rank, *TRACEBACK, "KeyError: 'x'", *between, *TRACEBACK, "OSError: no", "after")
    job.alike.close()
    once = [*TRACEBACK, "KeyError: 'x'", *between, *TRACEBACK, "OSError: no", "after"]
    assert job.out() == [f"[0] {line}" for line in once] + [
        "[1] after", "and 1 other, rank 1: KeyError: 'x'", "and 1 other, rank 1: OSError: no"]


def test_a_new_cause_of_the_same_error_is_printed_with_the_lines_between():
    job = Launcher(2)
    between = ["", "During handling of the above exception, another exception occurred:", ""]
    for rank, second in enumerate(["OSError: no", "OSError: other"]):
        job.say(rank, *TRACEBACK, "KeyError: 'x'", *between, *TRACEBACK, second)
    assert job.out()[13:] == [f"[1] {line}" for line in [*between, *TRACEBACK, "OSError: other"]]


def test_warnings_of_the_log_are_alike_whatever_their_heads():
    job = Launcher(3)
    for rank in range(3):
        job.say(rank, log_line(rank, "eth9 is no rail", moment=f"0{rank}.5"))
    job.alike.close()
    assert job.out() == [f"[0] {log_line(0, 'eth9 is no rail', moment='00.5')}",
                         "and 2 others, ranks 1, 2: warn rails: eth9 is no rail"]


def test_after_a_while_the_others_are_counted_and_the_words_are_news_again():
    job = Launcher(3)
    for rank in (0, 1):
        job.say(rank, log_line(rank, "down"))
    assert len(job.out()) == 1 and job.alike.next() == 10.0
    job.now = 9.0
    job.alike.tell()
    assert len(job.out()) == 1
    job.now = 10.0
    job.alike.tell()
    assert job.out()[1:] == ["and 1 other, rank 1: warn rails: down"]
    job.say(2, log_line(2, "down"))
    assert job.out()[2:] == [f"[2] {log_line(2, 'down')}"]


def test_a_traceback_that_does_not_end_is_printed():
    job = Launcher(2)
    job.say(0, *TRACEBACK)
    assert job.out() == []
    job.alike.close()
    assert job.out() == [f"[0] {line}" for line in TRACEBACK]
    job.say(1, TRACEBACK[0], *["  deep"] * 5000)
    assert len(job.out()) == 4 + 5001


def test_the_words_of_a_process_that_ends_in_them_are_printed_by_the_launcher():
    out, err = io.BytesIO(), io.BytesIO()
    lines = [f"echo '{line}' >&2" for line in TRACEBACK]
    script = "; ".join([*lines, "echo Error: rank $RANK >&2", "exit 3"])
    outcome = launcher.launch(launcher.on_this_host(16, ["sh", "-c", script], {}), grace_s=PATIENCE_S,
                               out=out, err=err)
    lines = err.getvalue().decode().splitlines()
    assert len(lines) == 6 and lines[5].startswith("and 15 others, ranks "), lines
    assert outcome.exit_codes == [3] * 16
    assert outcome.first_failure.last_lines[-1] == f"Error: rank {outcome.first_failure.rank}"


JOB = """
import os, time, nezha
if os.environ["RANK"] == "3":
    time.sleep(1000)
nezha.init(config={"connect_timeout_s": 2})
"""


def test_a_job_that_does_not_start_says_so_once(tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    command = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, "run", "-n", "8", "--grace", "20", sys.executable,
         str(tmp_path / "job.py")], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    said = done.stderr.partition("nezha run: ")[0]
    assert said.count("Traceback (most recent call last)") <= 3, done.stderr
    assert said.count("but rank 3 of 8 did not join; check that each runs") == 1, done.stderr
    assert "\nand " in said, done.stderr
