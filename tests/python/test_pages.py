"""What pages show is there: names of the Python interface, programs, options of commands."""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, List, Set, Tuple

import pytest
import typer

import nezha
from nezha.launcher import command as launcher_command
from nezha_tools.commands import app

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
OTHERS = {"Get_rank", "Get_size", "Allreduce", "Bcast", "Allgather", "Alltoall", "Alltoallv", "Gather",
          "Iallreduce", "Iprobe", "Send", "Sendrecv", "bcast", "Split", "Shrink", "Reduce_scatter_block"}


@pytest.mark.parametrize("page, calls", [("python.md", 2), ("from_others.md", 20)])
def test_calls_of_a_page_exist(page, calls):
    """mpi4py's calls are on the left of its table."""
    text = (DOCS / page).read_text("utf-8")
    of_comm = set(re.findall(r"comm\.(\w+)\b", text)) - OTHERS
    assert len(of_comm) >= calls
    unknown = {name for name in of_comm if not hasattr(nezha.Communicator, name)}
    assert unknown <= {"rank", "world_size"}  # of objects
    of_nezha = set(re.findall(r"nezha\.(\w+)[(`]", text)) - {"h", "Error"}
    assert of_nezha and not {name for name in of_nezha if not hasattr(nezha, name)}


def test_every_call_of_a_communicator_is_on_a_page():
    text = "".join((DOCS / page).read_text("utf-8")
                   for page in ("python.md", "statistics.md", "debugging.md", "balancing.md"))
    calls = {name for name in dir(nezha.Communicator) if not name.startswith("_")}
    calls -= {"group", "create"}  # which go
    assert not {name for name in calls if not re.search(rf"\b{name}\b[(`_]", text)}


def blocks(language: str) -> List[Tuple[str, str]]:
    """(page, text) of every block of code in that language."""
    return [(path.name, block) for path in PAGES
            for block in re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.M | re.S)]


@pytest.mark.parametrize("page, block", [each for each in blocks("python") if each[1][:3] != ">>>"])
def test_python_of_a_page(page, block, tmp_path):
    """Every block is Python whose imports work; one that defines all its names runs, alone."""
    tree = ast.parse(block)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    given = {node.id for node in names if isinstance(node.ctx, ast.Store)} | set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(library in ast.unparse(node) for library in ("torchft",)):
                continue
            exec(ast.unparse(node), {})
            given |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            given.add(node.name)
    if {node.id for node in names} <= given and "nezha.init(" in block:
        done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout or "print" not in block
    else:
        assert page not in ("README.md", "quick_start.md") or "print" not in block


def commands() -> List[Tuple[str, List[str]]]:
    """(page, words) of every command line of ours in the pages, without what only the shell needs."""
    found = []
    for path in PAGES:
        text = path.read_text("utf-8")
        lines = re.findall(r"^(?:    )?(?:\$ )?((?:[A-Z_]+=\S+ )*nezha .*)$", text, re.M)
        lines += [each.replace("\n", " ") for each in re.findall(r"`(nezha [^`]+)`", text)]
        for line in lines:
            line = re.split(r" +# |   +|\||;|&&|>", line)[0].replace("\\", "")
            line = re.sub(r"\[([^]]*)\]", r"\1", line)
            try:
                words = shlex.split(line)
            except ValueError:  # goes on in the next line
                words = line.split()
            while "=" in words[0]:
                words.pop(0)
            found.append((path.name, words[1:]))
    return found


def known_options(words: List[str]) -> Tuple[Set[str], List[str], str]:
    """What the command at the beginning of `words` takes, the words behind its name, and its name. "..."
    and words in capitals stand for any command of a group."""
    command: Any = typer.main.get_command(app)
    name = []
    while words and hasattr(command, "get_command"):
        inner = command.get_command(None, words[0])
        if inner is None:
            break
        name.append(words[0])
        command, words = inner, words[1:]
    commands = [command]
    if words and (words[0] == "..." or words[0].isupper()) and hasattr(command, "get_command"):
        commands = [command.get_command(None, each) for each in command.list_commands(None)]
    known = {option for each in commands if each is not None for parameter in each.params
             for option in (*parameter.opts, *parameter.secondary_opts)}
    return known | {"-h", "--help", "--version"}, words, " ".join(name)


def test_options_of_a_page_exist():
    lines = commands()
    assert len(lines) > 100
    done = subprocess.run([Path(sys.executable).with_name("nezha"), "run", "--help"], text=True,
                          capture_output=True)
    of_run = set(re.findall(r"(?<![\w-])--?[a-zA-Z][-a-z]*", done.stdout))
    wrong = []
    for page, words in lines:
        if words[:1] == ["run"]:
            begin = launcher_command._program_begins(words[1:]) + 1
            asked, known, name = words[1:begin], of_run, "run"
        else:
            known, asked, name = known_options(words)
        for word in asked:
            option = word.partition("=")[0]
            if re.fullmatch(r"--?[a-z][-a-z]*", option) and option not in known:
                wrong.append(f"{page}: nezha {name} {option}")
    assert not wrong, "\n".join(wrong)


def test_the_version_is_one():
    root = DOCS.parent
    (built,) = re.findall(r"^project\(nezha VERSION (\S+)", (root / "CMakeLists.txt").read_text(), re.M)
    macros = re.findall(r"#define NEZHA_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                        (root / "include/nezha/nezha.h").read_text())
    (cited,) = re.findall(r"^version: (\S+)", (root / "CITATION.cff").read_text(), re.M)
    assert built == ".".join(macros) == cited
