"""The house rules: the project keeps them, and each check can fail."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


layers, tidy, test_runs = tool("check_layers"), tool("tidy"), tool("test_runs")
features, locks = tool("features"), tool("progress_lock")
promises = tool("promises")


def test_the_page_of_the_wire_format_has_the_roles_of_the_handshake():
    shown, used = (set(re.findall('"(nezha1 [a-z]+)"', (ROOT / name).read_text("utf-8")))
                   for name in ("docs/wire_format.md", "src/wire/handshake.cc"))
    assert {"nezha1 acceptor", "nezha1 dialer"} <= shown <= used


@pytest.mark.parametrize("path, include", [
    ("base/clock.cc", '"base/clock.h"'),
    ("base/clock.cc", "<chrono>"),
    ("schedule/algorithms/ring.cc", '"schedule/builder.h"'),
    ("rails/policies/pull.cc", '"rails/policy.h"'),
    ("transport/tcp/tcp_wire.cc", '"transport/tcp/tcp_wire.h"'),
    ("transport/tcp/tcp_wire.cc", '"transport/connection.h"'),
    ("context/context.cc", '"transport/tcp/tcp_transport.h"'),
    ("context/context.cc", '"context/aggregation.h"'),
    ("engine/membership/losses.cc", '"engine/flow/transfers.h"'),
    ("engine/arrivals.cc", '"engine/membership/losses.h"'),
    ("capi/communicator.cc", '"nezha/nezha.h"'),
])
def test_allowed_includes(path, include):
    assert layers.offence(path, include) is None


@pytest.mark.parametrize("path, include", [
    ("base/clock.cc", '"wire/frame.h"'),
    ("schedule/plan.cc", '"base/clock.h"'),
    ("schedule/plan.cc", "<thread>"),
    ("schedule/plan.cc", "<sys/socket.h>"),
    ("rails/policies/pull.cc", '"base/log.h"'),
    ("rails/policies/pull.cc", '"engine/engine.h"'),
    ("rails/rail_selector.cc", '"transport/rail.h"'),
    ("transport/tcp/tcp_wire.cc", '"transport/shm/shm_wire.h"'),
    ("transport/connection.cc", '"transport/tcp/tcp_wire.h"'),
    ("engine/engine.cc", '"transport/tcp/tcp_wire.h"'),
    ("engine/engine.cc", '"context/context.h"'),
    ("engine/flow/transfers.cc", '"engine/membership/supervisor.h"'),
    ("engine/membership/losses.cc", '"engine/operation/collectives.h"'),
    ("engine/messages/outbox.cc", '"engine/engine.h"'),
    ("context/context.cc", '"aggregation/client/client.h"'),
    ("engine/engine.cc", '"nezha/nezha.h"'),
    ("engine/engine.cc", '"engine.h"'),
    ("context/load_algorithm.cc", '"proof/algorithm_file.h"'),
])
def test_forbidden_includes(path, include):
    assert layers.offence(path, include)


def test_a_module_sees_what_its_list_names():
    for include in ('"context/aggregation.h"', '"aggregation/client/session.h"', "<vector>"):
        assert layers.offence_of_module("aggregation/client/client.cc", include) is None
    for include in ('"context/context.h"', '"fabric/fabric_kind.h"'):
        assert layers.offence_of_module("aggregation/client/client.cc", include)


def test_what_modules_see():
    refused = layers.offence_of_module
    assert refused("fabric/ofi_wire.cc", '"transport/wire.h"') is None
    assert refused("queries/plan_query.cc", '"proof/algorithm_file.h"') is None
    assert refused("proof/module.cc", '"base/module.h"') is None
    assert refused("proof/flow.cc", "<vector>") is None
    assert refused("queries/plan_query.cc", '"engine/engine.h"')
    assert refused("proof/flow.cc", '"queries/queries.h"')
    assert refused("proof/flow.cc", "<thread>") and refused("proof/flow.cc", '"base/log.h"')


def test_the_module_sees_the_c_api_only():
    assert layers.module_offence('"nezha/nezha.h"') is None
    assert layers.module_offence('"engine/engine.h"')


@pytest.mark.parametrize("path, module, at_once", [
    ("nezha/communicator.py", "json", True),
    ("nezha/communicator.py", "nezha._native", True),
    ("nezha/_arrays.py", "numpy", False),
    ("nezha/torch/_work.py", "torch", True),
    ("nezha_tools/bench/measure.py", "numpy", True),
    ("nezha_tools/bench/lab_runner.py", "nezha.launcher", True),
    ("nezha_study/sim/measuring.py", "nezha_tools.bench.spec", True),
])
def test_allowed_imports(path, module, at_once):
    assert layers.package_offence(path, module, at_once) is None


@pytest.mark.parametrize("path, module, at_once", [
    ("nezha/communicator.py", "nezha_tools.lab", True),
    ("nezha/launcher/placement.py", "nezha_tools.lab", False),
    ("nezha/communicator.py", "nezha_study", False),
    ("nezha/communicator.py", "numpy", True),
    ("nezha_tools/explain/command.py", "nezha_study.plan.library", False),
    ("nezha_tools/explain/command.py", "nezha._native", False),
    ("nezha_study/sim/measuring.py", "nezha_tools.lab._state", True),
])
def test_forbidden_imports(path, module, at_once):
    assert layers.package_offence(path, module, at_once)


def test_a_tree_with_an_offence(tmp_path):
    (tmp_path / "src/wire").mkdir(parents=True)
    (tmp_path / "src/newcomer").mkdir()
    (tmp_path / "src/wire/frame.h").write_text('#pragma once\n#include "engine/engine.h"\n')
    (tmp_path / "src/newcomer/a.cc").write_text('#include "base/status.h"\n')
    (tmp_path / "python/nezha").mkdir(parents=True)
    (tmp_path / "python/nezha/a.py").write_text("def f():\n    from nezha_tools import lab\n    lab\n")
    (tmp_path / "src/engine/flow").mkdir(parents=True)
    (tmp_path / "src/engine/membership").mkdir()
    (tmp_path / "src/engine/flow/a.h").write_text("class Above;\nclass Beside;\nclass Beside {};\n")
    (tmp_path / "src/engine/membership/b.h").write_text("class Above final : public B {\n};\n")
    problems = "\n".join(layers.check(tmp_path))
    assert "src/engine/flow/a.h: declares Above of engine/membership" in problems
    assert "Beside" not in problems
    assert "src/wire/frame.h:2" in problems and "new layer" in problems
    assert "python/nezha/a.py:2" in problems


def test_each_room_of_the_engine_names_tests_that_exist(tmp_path):
    for room in ("flow", "group", "observer"):
        (tmp_path / "src/engine" / room).mkdir(parents=True)
    (tmp_path / "tests/unit").mkdir(parents=True)
    (tmp_path / "tests/unit/flow_test.cc").touch()
    (tmp_path / "docs").mkdir()
    (tmp_path / layers.PAGE_OF_ROOMS).write_text(
        f"{layers.TESTS_OF_ROOMS}|---|---|\n| `flow` | `flow_test.cc` |\n"
        "| `group` | `old_test.cc` |\n\n| `observer` | `flow_test.cc` |\n")
    assert layers.untested_rooms(tmp_path) == [
        "docs/architecture.md: names no test of src/engine/observer",
        "docs/architecture.md: group has no test old_test.cc"]


LONG_BODY = "  f();\n" * 80


@pytest.mark.parametrize("suffix, text, words", [
    (".cc", f"void long_one() {{\n{LONG_BODY}}}\n", "long_one has 82 lines"),
    (".cc", f"namespace n {{\nclass A {{\n void g() const {{\n{LONG_BODY} }}\n}};\n}}", "g has 82"),
    (".cc", "int x;\n" * 601, "601 lines"),
    (".py", "def long_one():\n" + "    f()\n" * 80, "long_one has 81 lines"),
    (".cc", 'auto p = getenv("HOME");\n', "environment"),
    (".cc", "x" * 120 + "\n", "120 columns"),
    (".md", "TO" + "DO: later\n", "does not belong"),
    (".cc", "// FIX" + "ME\n", "does not belong"),
    (".md", "`pip install nez" + "ha`\n", "somebody else"),
    (".py", "raise E(\"pip install -U 'nez" + "ha[metrics]'\")\n", "somebody else"),
])
def test_offences(suffix, text, words):
    assert any(words in problem for problem in tidy.check_text("a" + suffix, suffix, text))


@pytest.mark.parametrize("suffix, text", [
    (".cc", f"namespace n {{\n{LONG_BODY}}}\n"),
    (".cc", f"const int table[] = {{\n{'  f(1),' * 3}\n" + "  1,\n" * 80 + "};\n"),
    (".cc", 'const char* s = "void f() {";\n// void g() {\n'),
    (".cc", "#define F(x) {\n" + "int a;\n" * 80),
    (".cc", "void environment_text();\n"),
    (".py", "x = 1\n" * 100),
    (".md", "pip install '.[metrics]', pip install /src/nez" + "ha\n"),
])
def test_no_offences(suffix, text):
    assert list(tidy.check_text("a" + suffix, suffix, text)) == []


def test_names_and_prose_use_the_words_of_the_field():
    text = "class RailTrial final {\n};\n"
    for name in ("src/transport/a.h", "tests/unit/a.cc"):
        assert list(tidy.check_text(name, name[name.rindex("."):], text)) != []
    assert list(tidy.check_text("python/a.py", ".py", "class RailTrial:\n    ranks = 2\n")) != []
    assert list(tidy.check_text("src/transport/a.h", ".h", text.replace("Trial", "Handshake"))) == []
    for text in ("A rank knocks.", '{"hub_us": 1}', "Hung up.", "the dialler"):
        assert list(tidy.check_text("docs/a.md", ".md", text)) != []
    for text in ("github.com", "indoors", "A command", "hubris"):
        assert list(tidy.check_text("docs/a.md", ".md", text)) == []


def test_examples_may_read_the_environment():
    text = 'const char* home = getenv("HOME");\n'
    assert list(tidy.check_text("examples/a.c", ".c", text)) == []
    assert list(tidy.check_text("src/examples/a.c", ".c", text)) != []


RUNNER = '''declare -A SUITES=(
  [release]='property'
  [tsan]='unit fault'
)
LEFT='unit\\.(Values/Some\\.Left'
LEFT+='|Whole)'
declare -A BUT=([tsan]="^($LEFT)")
python() { pytests tests/python; }
'''


def tree_with_features(root, rows):
    (root / "docs").mkdir()
    (root / "tests/unit").mkdir(parents=True)
    (root / "tests/python").mkdir()
    (root / "tools").mkdir()
    (root / test_runs.RUNNER).write_text(RUNNER)
    (root / "pyproject.toml").write_text('test = ["pytest>=7", "ml-dtypes"]\n')
    (root / "docs/features.toml").write_text(rows)
    (root / features.PAGE).write_text(f"above\n{features.BEGIN}\n{features.END}\nbelow\n")
    (root / "tests/unit/a_test.cc").write_text("TEST(Suite, Works) {}\nTEST(Suite, DISABLED_Not) {}\n")
    (root / "tests/python/test_a.py").write_text("def test_works():\n    pass\n")


def row(tests):
    return f'[[feature]]\nname = "n"\nstate = "It works."\ntests = {tests}\n'


def test_a_table_of_features_is_written_once(tmp_path):
    tree_with_features(tmp_path, row('["Suite.Works", "tests/python/test_a.py::test_works"]'))
    assert "--write" in features.check(tmp_path)[0]
    assert features.check(tmp_path, write=True) == []
    assert features.check(tmp_path) == []
    page = (tmp_path / features.PAGE).read_text()
    assert page.startswith("above\n") and page.endswith("\nbelow\n")
    assert ("| n | It works. | [Suite.Works](../tests/unit/a_test.cc), "
            "[test_works](../tests/python/test_a.py) |" in page)


@pytest.mark.parametrize("rows, words", [
    (row("[]"), "names no test"),
    (row('["Suite.Other"]'), "no test Suite.Other"),
    (row('["Suite.DISABLED_Not"]'), "no test"),
    (row('["tests/python/test_a.py::test_other"]'), "no test"),
    (row('["tests/gone.py"]'), "no test"),
    (row('["../README.md"]'), "no test"),
    ('[[feature]]\nname = "n"\ntests = ["Suite.Works"]\n', "row 1 must have exactly"),
    ("[[feature]\n", "Expected"),
])
def test_features_that_nothing_shows(tmp_path, rows, words):
    tree_with_features(tmp_path, rows)
    assert any(words in problem for problem in features.check(tmp_path, write=True))


CPP = """
class Base : public ::testing::Test {
  void SetUp() override { if (!is_there()) GTEST_SKIP(); }
};
class Derived : public Base {};
TEST_F(Derived, Skips) {}
TEST(Some, Skips) { GTEST_SKIP() << "never here"; }
TEST(Some, Works) {}
TEST(Some, LeftOver) {}
TEST(Whole, Works) {}
TEST_P(Values, Works) {}
INSTANTIATE_TEST_SUITE_P(Few, Values, ::testing::Values(1));
TEST_P(Nothing, Works) {}
"""
PY = """
import pytest
ml = pytest.importorskip("ml_dtypes")
needs = pytest.mark.skipif(True, reason="none")
@pytest.fixture
def place(): return helper()
def helper(): pytest.skip("none")
@pytest.mark.long
def test_long(): pass
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.long)])
def test_all_long(x): pass
@pytest.mark.parametrize("x", [0, pytest.param(1, marks=pytest.mark.long)])
def test_some_long(x): pass
@needs
def test_needs(): pass
def test_uses(place): pass
@pytest.mark.usefixtures("place")
def test_marked(): pass
def test_calls(): helper()
def test_other_package(): pytest.importorskip("torch")
def test_works(): ml.float8
"""


@pytest.mark.parametrize("test, why", [
    ("Derived.Skips", "may be skipped"), ("Some.Skips", "may be skipped"), ("Some.Works", None),
    ("Some.LeftOver", None), ("Whole.Works", "no build"), ("Values.Works", None),
    ("Nothing.Works", "no values"), ("tests/fuzz/a_fuzz.py::test_works", "does not run its folder"),
    ("tests/unit/a_test.cc", "program of its own"),
    *((f"tests/python/test_b.py::test_{name}", why) for name, why in [
        ("long", "marked long"), ("all_long", "marked long"), ("some_long", None),
        ("needs", "may be skipped"), ("uses", "may be skipped"), ("marked", "may be skipped"),
        ("calls", "may be skipped"), ("other_package", "may be skipped"), ("works", None)])])
def test_a_row_says_when_its_test_may_be_left_out(tmp_path, test, why):
    tree_with_features(tmp_path, row(f'["{test}"]'))
    (tmp_path / "tests/unit/b_test.cc").write_text(CPP)
    (tmp_path / "tests/python/test_b.py").write_text(PY)
    (tmp_path / "tests/fuzz").mkdir()
    (tmp_path / "tests/fuzz/a_fuzz.py").write_text("def test_works():\n    pass\n")
    problems = features.problems_of(tmp_path, features.read(tmp_path))
    assert [why in problem for problem in problems] == ([True] if why else []), problems
    condition = f'[conditions]\n"{test[:6]}" = "needs luck, in `make test-long`"\n'
    (tmp_path / features.SOURCE).write_text(condition + row(f'["{test}"]'))
    problems = features.check(tmp_path, write=True)
    assert problems == [] if why else "is no test's" in problems[0], problems
    assert ("(needs luck" in (tmp_path / features.PAGE).read_text()) == bool(why)
    (tmp_path / features.SOURCE).write_text(condition.replace("test-long", "more") + row(f'["{test}"]'))
    assert (features.check(tmp_path, write=True) != []) == (why in (None, "marked long"))


@pytest.mark.parametrize("runner", ["", RUNNER.replace("BUT", "OUT"), RUNNER.replace("SUITES", "KINDS")])
def test_a_runner_that_cannot_be_read_is_said(tmp_path, runner):
    tree_with_features(tmp_path, row('["Suite.Works"]'))
    (tmp_path / test_runs.RUNNER).write_text(runner)
    assert "its lists SUITES and BUT" in features.check(tmp_path)[0]


@pytest.mark.parametrize("shown, words", [
    ("`Suite.Works`, `tests/python/test_a.py`, `a_test`, `one_bug`", None),
    ("by reading", "nothing is named"),
    ("`a_test` and `Suite.Other`", "test, file of tests or planted bug Suite.Other"),
    ("`Suite.DISABLED_Not`", "planted bug Suite.DISABLED_Not"),
    ("`Suite.Works`; `tests/gone.py`", "planted bug tests/gone.py"),
    ("`Suite.Works`; planted bug `another_bug`", "planted bug another_bug"),
])
def test_promises_that_nothing_shows(tmp_path, shown, words):
    tree_with_features(tmp_path, "")
    (tmp_path / "tests/planted").mkdir()
    (tmp_path / "tests/planted/bugs.py").write_text('BUGS = [Bug("one_bug", FILE, "a", "b", "c")]\n')
    head = "| who | what |\n|---|---|\n| `not_this` | nothing |\n\n"
    page = f"| promise | tested by |\n|---|---|\n| it holds | {shown} |\n"
    for name in promises.PAGES:
        (tmp_path / name).write_text(head + page)
    problems = promises.check(tmp_path)
    assert sum(words is not None and words in problem for problem in problems) == (2 if words else 0)
    assert bool(problems) == bool(words)


FIGURES = ("## One\n\n{said}\n\n| size | time |\n|---|---|\n| 4 B | {cell} |\n\n"
           "## Two\n\n`nezha bench train`\n")


@pytest.mark.parametrize("said, cell, found", [
    ("In the lab.", "39 us", [7]), ("In the lab.", "1.4 to 1.6 ms", [7]), ("In the lab.", "93.6 %", [7]),
    ("In the lab.", "exact", []), ("By `nezha bench all_reduce`.", "39 us", []),
    ("By `bench/short_path.py`.", "39 us", []),
])
def test_figures_have_a_command_in_their_section(said, cell, found):
    page = FIGURES.format(said=said, cell=cell)
    assert list(promises.without_command(page)) == found
    marked = page.replace("| size", "<!-- figures: x -->\n| size").replace(
        "\n\n## Two", "\n<!-- end of figures -->\n\n## Two")
    assert list(promises.without_command(marked)) == []


def test_this_project():
    assert layers.check(ROOT) == []
    assert tidy.check(ROOT) == []
    assert features.check(ROOT) == []
    assert promises.check(ROOT) == []
    assert promises.check_figures(ROOT) == []


@pytest.mark.parametrize("text, rule", [
    ("import os\n", "F401"), ("x = 1  " + "#" * 120 + "\n", "E501"), ("def f():\n    return 1\n", "D103"),
])
def test_linters_find_what_they_are_there_for(text, rule):
    pytest.importorskip("ruff", reason="ruff is not installed here")
    found = subprocess.run([sys.executable, "-m", "ruff", "check", "--output-format", "concise",
                            "--stdin-filename", "python/nezha/new.py", "-"],
                           input='"""New."""\n\n' + text, capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 1 and rule in found.stdout


@pytest.mark.skipif(not locks.CLANG_TIDY.exists(), reason="clang-tidy is not installed here")
def test_the_progress_lock_is_checked():
    good = [
        '#include "progress/loop.h"', "using namespace nezha::progress;",
        "void take(Loop& loop) NEZHA_EXCLUDES_LOCK { Loop::Lock lock(loop); }",
        "void add(Loop& loop, Polled* polled) NEZHA_REQUIRES_LOCK { loop.add_polled(polled); }",
        "void call(Loop& loop, Polled* it) NEZHA_EXCLUDES_LOCK { Loop::Visit v(loop); add(loop, it); }",
    ]
    bad = {
        "void f1(Loop& loop) NEZHA_EXCLUDES_LOCK { Loop::Lock lock(loop); Loop::Visit again(loop); }":
            "acquiring lock 'kProgressLock' that is already held",
        "void f2(Loop& loop) NEZHA_EXCLUDES_LOCK { Loop::Lock lock(loop); take(loop); }":
            "cannot call function 'take' while lock 'kProgressLock' is held",
        "void f3(Loop& loop) NEZHA_REQUIRES_LOCK { take(loop); }": "cannot call function 'take' while",
        "void f4(Loop& loop, Polled* polled) { add(loop, polled); }":
            "calling function 'add' requires holding lock 'kProgressLock'",
        "void f5(Loop& loop) { take(loop); }": "calling function 'take' requires NEZHA_EXCLUDES_LOCK",
        "void f6(Loop& loop) { Loop::Lock lock(loop); }": "requires NEZHA_EXCLUDES_LOCK",
    }
    found = "\n".join(locks.offences(ROOT, "\n".join([*good, *bad])))
    lines = {int(line) for line in re.findall(r"sources\.cc:(\d+): ", found)}
    assert lines == set(range(len(good) + 1, len(good) + len(bad) + 1)), found
    for line, words in enumerate(bad.values(), len(good) + 1):
        assert re.search(rf":{line}: .*{re.escape(words)}", found), (words, found)


def test_the_slowest_cases_come_from_both_kinds_of_logs(tmp_path):
    (tmp_path / "ctest-asan.log").write_text(
        " 1/2 Test   #7: unit.Frame.IsRead .......   Passed    0.02 sec\n"
        " 2/2 Test #1203: fault.Worlds/RailDown.Ends/0 ...***Failed   12.50 sec\n")
    (tmp_path / "pytest-lab.log").write_text("..\n3.25s call     tests/lab/test_x.py::test_y[a]\n")
    assert tool("report_tests").slowest(tmp_path) == [
        "  12.5 s  asan: fault.Worlds/RailDown.Ends/0", "   3.2 s  tests/lab/test_x.py::test_y[a]",
        "   0.0 s  asan: unit.Frame.IsRead"]


def test_what_was_skipped_is_told_with_its_reason_by_every_kind_of_log(tmp_path):
    told = tmp_path / "asan" / "Testing" / "Temporary"
    told.mkdir(parents=True)
    (tmp_path / "ctest-asan.log").write_text("1 test\n")
    case = "/x/tests/unit/file_test.cc:101: Skipped\nonly root can\n[  SKIPPED ] F\n"
    (told / "LastTest.log").write_text(case * 2)
    (tmp_path / "pytest-lab.log").write_text("SKIPPED [3] tests/lab/test_x.py:143: no netem\n")
    (tmp_path / "rdma.log").write_text("skipped: missing qemu\n")
    assert tool("report_tests").skipped(tmp_path) == [
        "  1 x  RDMA in a guest: missing qemu", "  2 x  asan: file_test.cc: only root can",
        "  3 x  tests/lab/test_x.py: no netem"]


@pytest.mark.parametrize("line", [
    "  out.append(reinterpret_cast<const char*>(&message), sizeof(message));",
    "  std::memcpy(&message, bytes.data(), sizeof(message));"])
def test_a_struct_on_the_wire_is_refused(line):
    (problem,) = tidy.check_text("src/wire/a.cc", ".cc", line)
    assert "as it lies in memory" in problem
    assert list(tidy.check_text("src/memory/a.cc", ".cc", line)) == []
    bytes_only = "  std::memcpy(&bytes[kAt], mac.data(), 32);"
    assert list(tidy.check_text("src/wire/a.cc", ".cc", bytes_only)) == []
