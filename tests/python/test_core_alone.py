"""Programs that import nezha, and `nezha run`, need Python alone; other commands say what they lack."""

import subprocess
import sys

import pytest

# As where these were never installed.
LIBRARIES = ("numpy", "typer", "click", "rich", "pyroute2", "yaml", "simpy", "matplotlib", "torch")
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"
COMMAND = "import sys; sys.argv[0] = 'nezha'\nfrom nezha_tools.main import main\nmain()\n"
PATIENCE_S = 60


def run(code, *words, names=LIBRARIES):
    return subprocess.run([sys.executable, "-c", WITHOUT.format(names=names) + code, *words],
                          capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_program_needs_python_alone():
    done = run("import array, nezha\n"
               "x = array.array('f', [1.0, 2.0])\n"
               "with nezha.init() as comm:\n"
               "    comm.all_reduce(x)\n"
               "print(list(x), [name for name in sys.modules if name.startswith(('nezha_', 'numpy.'))])")
    assert (done.returncode, done.stdout) == (0, "[1.0, 2.0] []\n"), done.stderr


def test_ranks_are_started_without_a_library():
    done = run(COMMAND, "run", "-n", "2", "sh", "-c", "echo $RANK/$WORLD_SIZE")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] 0/2", "[1] 1/2"]), done.stderr
    assert run(COMMAND, "run", "false").returncode == 1


def test_the_help_of_run_names_what_it_takes():
    done = run(COMMAND, "run", "-h")
    assert done.returncode == 0 and done.stdout == run(COMMAND, "run", "--help").stdout
    for option in ("-n N", "--hostfile FILE", "--lab NAME", "--env NAME[=VALUE]", "--chdir FOLDER",
                   "--master-port PORT", "--grace S", "--json [=FILE]", "examples:\n  nezha run -n 4"):
        assert option in done.stdout, option


@pytest.mark.parametrize("words", [
    "", "-n 0 true", "-n x true", "-n", "--grace -1 true", "--grace inf true", "--rank 2 true",
    "--chdir / true", "--master-port 70000 --hostfile hosts true", "--lab a --hostfile hosts true",
    "--hostfile no-such-file true", "-x NOT_SET_HERE true"])
def test_a_bad_line_is_a_sentence_and_125(words):
    done = run(COMMAND, "run", *words.split())
    assert done.returncode == 125 and done.stdout == "" and len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("nezha run: ")


def test_what_stands_behind_the_program_is_its_own():
    for words in (["echo", "-n", "2", "--json", "-h"], ["--", "echo", "-n", "2", "--json", "-h"],
                  ["-n1", "--grace=0", "echo", "-n", "2", "--json", "-h"]):
        done = run(COMMAND, "run", *words)
        assert (done.returncode, done.stdout) == (0, "[0] 2 --json -h\n"), done.stderr


@pytest.mark.parametrize("words, lacks", [
    (("info",), "typer"), (("--help",), "typer"), (("plan", "job"), "typer")])
def test_a_command_says_which_library_it_lacks(words, lacks):
    done = run(COMMAND, *words)
    assert done.returncode == 1 and done.stdout == ""
    assert f"Python's {lacks} is not installed; pip install {lacks}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_package_of_a_library_may_have_another_name():
    done = run(COMMAND, "plan", "rails", "--file", __file__, names=("yaml",))
    assert "Python's yaml is not installed; pip install pyyaml" in done.stderr
    done = run(COMMAND, "sim", "rails", names=("simpy",))
    assert "Python's simpy is not installed; pip install simpy" in done.stderr


def test_the_lab_has_the_name_that_programs_import():
    import nezha.lab
    import nezha_tools.lab

    assert nezha.lab.__all__ == nezha_tools.lab.__all__
    assert all(getattr(nezha.lab, name) is getattr(nezha_tools.lab, name) for name in nezha.lab.__all__)
