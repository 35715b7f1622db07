"""algorithm_file: a user's own schedules, from the command that prints them to the job."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy
import pytest
from typer.testing import CliRunner

import nezha
from nezha_tools.commands import app

EXAMPLE = Path(__file__).parents[2] / "examples" / "all_reduce_star.txt"


def run(*words):
    return CliRunner().invoke(app, [str(each) for each in words], prog_name="nezha")


def test_what_explain_prints_is_an_algorithm_that_a_job_runs_by(world, tmp_path):
    path = tmp_path / "mine.txt"
    printed = run("explain", "all_reduce", "-n", 3, "--algorithm", "halving_doubling", "--print")
    assert printed.exit_code == 0
    assert printed.stdout.startswith("all_reduce by halving_doubling: rank 0 of 3, root 0\n")
    path.write_text(printed.stdout)
    checked = run("algorithm", "check", path)
    assert checked.exit_code == 0 and "proved. all_reduce of 3 ranks" in checked.stdout

    def body(comm):
        out = comm.all_reduce(numpy.arange(1000, dtype=numpy.int64) * (comm.rank + 1))
        return out.tolist(), comm.flight()["operations"][0]["algorithm"]

    assert world(3, body, config={"algorithm_file": str(path)}) == 3 * [
        ([6 * i for i in range(1000)], "file")]


def test_explain_of_a_file_shows_it_and_prints_it_again(tmp_path):
    shown = run("explain", "all_reduce", "--world-size", 3, "--algorithm-file", EXAMPLE, "--schedule",
                "--rank", 1)
    assert "chosen: file" in shown.stdout and "all_reduce by file: rank 1 of 3" in shown.stdout
    printed = run("explain", "all_reduce", "-n", 3, "--algorithm-file", EXAMPLE, "--print").stdout
    path = tmp_path / "again.txt"
    path.write_text(printed)
    assert run("explain", "all_reduce", "-n", 3, "--algorithm-file", path, "--print").stdout == printed


@pytest.mark.parametrize("words, sentence", [
    (("all_reduce", "-n", "4"), "of 3 ranks with root 0, and the operation is all_reduce of 4"),
    (("broadcast", "-n", "3"), "the operation is broadcast of 3"),
    (("all_reduce", "-n", "3", "--algorithm", "ring"), "--algorithm NAME or --algorithm-file FILE")])
def test_explain_refuses_a_file_of_another_operation(words, sentence):
    done = run("explain", *words, "--algorithm-file", EXAMPLE)
    assert done.exit_code == 2 and sentence in done.stderr


def test_the_example_is_proved():
    done = run("algorithm", "check", EXAMPLE, "--json")
    found = json.loads(done.stdout)
    assert (found["collective"], found["world_size"], found["messages"]) == ("all_reduce", 3, 4)


def test_a_wrong_file_is_refused_with_the_step(tmp_path):
    path = tmp_path / "wrong.txt"
    lines = EXAMPLE.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if "to rank 0" in line)
    lines[number] = lines[number].replace(", from_input", "")
    path.write_text("\n".join(lines))
    words = f"line {number + 1}, rank 1, slice 0, round 0, step 0 .*reads a range that nothing"
    done = run("algorithm", "check", path)
    assert done.exit_code == 1 and done.stdout == "" and re.search(words, done.stderr)
    with pytest.raises(nezha.InvalidArgument, match=f"algorithm_file {path}: {words}"):
        nezha.init(0, 3, store="tcp://127.0.0.1:1", config={"algorithm_file": str(path)})
    assert run("algorithm", "check", tmp_path / "none").exit_code == 2


def test_ranks_with_different_files_are_told(world, tmp_path):
    for rank in range(3):
        (tmp_path / f"{rank}.txt").write_text(EXAMPLE.read_text() + f"# {rank // 2}\n")
    words = r"rank 2 .*algorithm_file=\w{8}\b.*, but rank 0 .*algorithm_file=\w{8}\b"
    with pytest.raises(nezha.Mismatch, match=words):
        world(3, lambda comm: comm.rank, config={"algorithm_file": str(tmp_path / "%r.txt")})
