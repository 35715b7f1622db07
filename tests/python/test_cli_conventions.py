"""What all commands have in common: exit codes, -h, --json, tables at any width."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
import typer
from typer.testing import CliRunner

from nezha_tools.cli import console
from nezha_tools.commands import app
from nezha_tools.chaos import command as chaos

CODE = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"
PATIENCE_S = 120


def nezha(*arguments, **options):
    return subprocess.run([sys.executable, "-c", CODE, *map(str, arguments)], text=True,
                          capture_output=True, timeout=PATIENCE_S, **options)


def inside(*arguments):
    """The same in this process; quick, for commands that start nothing."""
    return CliRunner().invoke(app, [str(each) for each in arguments], prog_name="nezha")


def commands(command=None, path=()):
    """(words, command) of every command, the groups included, except for the launcher's, `nezha run`."""
    command = typer.main.get_command(app) if command is None else command
    yield path, command
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            if (*path, name) != ("run",):
                yield from commands(command.get_command(None, name), (*path, name))


# ---- the options


@pytest.mark.parametrize("path", [path for path, _ in commands()], ids=" ".join)
def test_h_is_help(path):
    done = inside(*path, "-h")
    assert done.exit_code == 0 and "-h, --help" in done.stdout
    assert done.stdout == inside(*path, "--help").stdout


@pytest.mark.parametrize("path, command", list(commands()), ids=lambda each: " ".join(each) if isinstance(
    each, tuple) else "")
def test_every_command_explains_itself(path, command):
    """In its help: what it does in a sentence, and every command, option and argument that it takes."""
    summary = (command.help or "").strip().partition("\n\n")[0]
    assert len(summary.split()) > 1 and summary.endswith((".", ":")), summary
    shown = inside(*path, "--help").stdout
    assert " ".join(("nezha", *path)) in shown
    assert " ".join(summary.split()[:4]) in " ".join(shown.split())
    for param in command.params:
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            assert (param.metavar or param.name).strip("[]. ").upper() in shown.upper(), param.name
            continue
        assert max(param.opts, key=len) in shown, param.name
        assert param.help and param.help.split()[0] in shown, f"{param.opts} says nothing"
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            assert re.search(rf"^ +{name}  +\S", shown, re.MULTILINE), name


def test_options_mean_the_same_in_all_commands():
    by_name = {}
    for path, command in commands():
        for param in command.params:
            for name in param.opts:
                by_name.setdefault(name, {})[" ".join(path)] = param
    assert len(by_name["--json"]) > 20
    assert all(param.metavar == "[=FILE]" and not param.is_flag for param in by_name["--json"].values())
    assert set(by_name["--rails"]) == {"plan rails", "sim rails"}  # how many
    assert {"lab up", "chaos", "explain"} <= set(by_name["--rates"])


def test_the_exit_codes_are_documented():
    text = inside("--help").stdout
    assert all(re.search(rf"^ +{code}  ", text, re.MULTILINE) for code in (0, 1, 2, 125))


# ---- --json


def test_json_goes_to_standard_output_or_into_a_file(tmp_path):
    printed = inside("explain", "all_reduce", "--json").stdout
    assert json.loads(printed)["text"]
    assert inside("explain", "--json", "all_reduce").stdout == printed  # as before: no file is meant
    assert inside("explain", "all_reduce", "--json", "-").stdout == printed
    for words in ([f"--json={tmp_path}/new/a.json"], ["--json", f"{tmp_path}/new/b.json"]):
        done = inside("explain", "all_reduce", *words)
        assert done.exit_code == 0 and "chosen" in done.stdout
        assert (tmp_path / "new" / words[-1][-6:]).read_text() == printed


def test_words_behind_json_are_no_file_where_they_may_be_something_else(tmp_path):
    dump = tmp_path / "rank0.json"
    dump.write_text("{}")
    done = inside("flight", "--json", dump)
    assert dump.read_text() == "{}" and "rank0.json is no flight dump" in done.stderr
    done = nezha("run", "--json", "sh", "-c", "exit 0")
    assert json.loads(done.stdout)["exit_code"] == 0


def test_the_summary_of_a_run_in_a_file(tmp_path):
    done = nezha("run", f"--json={tmp_path}/a.json", "echo", "words")
    assert done.stdout == "[0] words\n"
    assert json.loads((tmp_path / "a.json").read_text())["exit_code"] == 0


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    done = inside("plan", "links", f"--json={tmp_path}/file/a.json")
    assert done.exit_code == 1 and done.stderr.startswith("nezha plan links: cannot write ")
    assert len(done.stderr.splitlines()) == 1


def test_lines_of_a_node_go_into_a_file(tmp_path):
    path = tmp_path / "lines.json"
    path.write_text("of a run before\n")
    console.write_json_line({"port": 1}, str(path), first=True)
    console.write_json_line({"seconds": 2}, str(path), first=False)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"port": 1}, {"seconds": 2}]


# ---- programs


@pytest.mark.parametrize("words, to", [
    (("--json=b.json",), "b.json"), (("--json",), "-"), (("--json", "-"), "-"), ((), None),
    (("--nodes", "2", "--json", "--allow-all-down"), "-")])
@pytest.mark.parametrize("dashes", [("--",), ()])
def test_the_words_of_a_program_are_its_own(monkeypatch, words, to, dashes):
    asked = []
    monkeypatch.setattr(chaos, "_perform", lambda request, to_stderr: asked.append(request) or {
        "exit_code": 0})
    monkeypatch.setattr(console, "answer", lambda document, json_to, show: asked.append(json_to))
    monkeypatch.setattr(chaos, "_draw", lambda document, plot: None)
    program = ["job", "--rails", "x", "--json", "-h", "--", "--nodes"]
    assert inside("chaos", *words, *dashes, *program).exit_code == 0
    assert asked[0].command == program and asked[1] == to


# ---- exit codes


@pytest.mark.parametrize("code", [0, 1, 2, 3, 125])
def test_run_passes_the_code_of_its_program_on(code):
    assert nezha("run", "sh", "-c", f"exit {code}").returncode == code


@pytest.mark.parametrize("words", [
    ("lab", "exec", "0"), ("lab", "exec", "--nonsense", "0", "true"),
    ("lab", "exec", "--name", "no-such-lab", "0", "true"), ("chaos",), ("chaos", "--nonsense", "true")])
def test_what_runs_programs_has_a_code_of_its_own_for_its_own_failures(words):
    done = inside(*words)
    assert done.exit_code == 125 and done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [
    ("bench", "all_reduce", "-d", "int7"), ("bench", "switch", "--nodes", "one"),
    ("bench", "--nonsense"), ("bench", "all_reduce", "--rails", "1gbit"), ("info", "--port", "0"),
    ("explain", "all_reduce", "--bytes", "many"), ("info", "a.json"),
    ("info", "--json", "a.json", "b.json"), ("aggregator", "--name", "a"),
    ("lab", "up", "--rates", "fast"), ("plan", "links", "--nonsense")])
def test_a_command_line_without_sense_is_2(words):
    done = inside(*words)
    assert done.exit_code == 2 and done.stderr and done.stdout == ""


def test_a_peer_that_does_not_answer_is_1():
    common = ("info", "--filter", "lo", "--port", "1", "--timeout", "0.1", "--json", "--peer")
    done = inside(*common, "203.0.113.9")
    assert json.loads(done.stdout)["peer"][0]["ms"] is None
    assert done.exit_code == 1 and "no rail of this host gets an answer from 203.0.113.9" in done.stderr
    assert inside(*common, "127.0.0.1").exit_code == 0  # refused is an answer


# ---- tables


def on_terminal(columns, *command):
    """What a command writes to a terminal of so many columns, without colours."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.PIPE,
                             env={**env, "TERM": "xterm"})
    os.close(terminal)
    data = b""
    try:
        while True:
            data += os.read(reader, 1 << 16)
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(reader)
        _, said = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, said
    return re.sub(r"\x1b\[[0-9;]*m", "", data.decode()).splitlines()


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("words", [
    ("info",), ("info", "--config"), ("plan", "links"), ("plan", "rails", "--nodes", "12"),
    ("plan", "algorithm", "--nodes", "4", "--rates", "25G:20us,10G:50us")], ids=" ".join)
def test_tables_fit_and_keep_their_words(words, columns):
    lines = on_terminal(columns, sys.executable, "-c", CODE, *words)
    rules = [number for number, line in enumerate(lines) if line.startswith("──")]
    assert rules and all(len(lines[number]) <= columns for number in rules)
    for rule in rules:
        end = next((each for each in range(rule, len(lines)) if not lines[each].strip()), len(lines))
        table = lines[rule - 1:end]
        assert table[0].strip() and max(len(line.rstrip()) for line in table) <= columns, table
    known = set(nezha(*words).stdout.split())
    cut = {word for line in lines for word in line.split()} - known
    assert all(set(word) == {"─"} for word in cut), cut


TABLE = """
from nezha_tools.bench import collective_report
row = {"size": 1 << 20, "count": 1 << 18, "type": "float32", "redop": "sum", "time_us": 13212.0,
       "p50_us": 13212.0, "p99_us": 14000.0, "algbw_gbps": 0.635, "busbw_gbps": 0.952,
       "limit_us": 12582.9, "of_limit": 0.952, "wrong": 0, "cpu_s_per_gb": 4.1,
       "rails": [{"name": "eth0", "transport": "tcp", "rate_gbps": 1.0, "share": 1.0}]}
collective_report.show([row, {**row, "size": 4 << 20, "wrong": 3}])
"""


def test_a_table_of_the_bench_goes_on_below():
    lines = on_terminal(60, sys.executable, "-c", TABLE)
    headings = [line.split() for line in lines if line.strip().startswith("size")]
    assert len(headings) == 3 and "busbw" in sum(headings, [])
    assert sum(line.strip().startswith("1048576") for line in lines) == len(headings)
    piped = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True).stdout
    assert [line[0] for line in piped.splitlines()] == ["#", "#", " ", " "]


def test_a_column_of_sentences_is_wrapped_between_words():
    said = "some words that need more room than a terminal of sixty columns has"
    code = ("from nezha_tools.cli import console\n"
            f"console.table(['rank', 'what happened'], [['0', '{said}'], ['1', 'a' * 50]])")
    lines = on_terminal(60, sys.executable, "-c", code)
    assert "a" * 50 in lines[-1] and len(lines) == 5
    assert " ".join(line[7:].strip() for line in lines[2:4]) == said


def test_nothing_is_wrapped_in_a_pipe(capsys):
    words = " ".join(["word"] * 100)
    console.table(["number", "text"], [["1", words], ["2", "-"]], title="a title")
    assert any(words in line for line in capsys.readouterr().out.splitlines())


# ---- completion


@pytest.mark.parametrize("line, wanted", [
    ("nezha ex", {"explain"}), ("nezha bench all_red", {"all_reduce"}),
    ("nezha bench all_reduce --rat", {"--rates"})])
def test_a_shell_can_complete(line, wanted):
    done = nezha(env={**os.environ, "_NEZHA_COMPLETE": "complete_bash", "COMP_WORDS": line,
                      "COMP_CWORD": str(len(line.split()) - 1)})
    assert set(done.stdout.split()) == wanted, done.stderr
