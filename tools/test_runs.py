"""Which tests `make test` runs on every machine, as far as their sources say: for tools/features.py.

A test of gtest runs where a build of tools/run_tests.sh has its folder among its suites and does not
leave it out by name; one of pytest where its folder is run and it is not marked long. Both may be skipped
by what they, their fixtures or the functions they use call: GTEST_SKIP, pytest.skip, pytest.importorskip
(of a package that tools/setup.sh does not install), skipif. Another file is run by a program of its own.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Set, Union

RUNNER = "tools/run_tests.sh"
SKIPPED = "it may be skipped"
LONG = "it is marked long"

_WORDS = re.compile(r"^([A-Z_]+)(\+?)='([^']*)'$", re.MULTILINE)
_SUITES = re.compile(r"^declare -A SUITES=\(\n((?:  \[\w+\]='[^']*'\n)+)\)$", re.MULTILINE)
_BUT = re.compile(r"^declare -A BUT=\((.*)\)$", re.MULTILINE)
_PLACE = re.compile(r"^(?:TEST(?:_F|_P)?\(\s*(\w+)\s*,\s*(\w+)\s*\)"
                    r"|(?:class|struct) (\w+)(?:[^{;]*public (\w+))?)|GTEST_SKIP\(", re.MULTILINE)
_INSTANCE = re.compile(r"INSTANTIATE_TEST_SUITE_P\(\s*(\w+)\s*,\s*(\w+)\s*,")
_VALUED = re.compile(r"^TEST_P\(\s*(\w+)\s*,", re.MULTILINE)
_REQUIRED = re.compile(r"^(?:dependencies|demo|test|lint) = \[(.*?)\]", re.MULTILINE | re.DOTALL)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class _Build(NamedTuple):
    """A build of the runner: the folders of tests it runs, and which names it leaves out."""

    kinds: Set[str]
    left_out: Optional["re.Pattern[str]"]


def builds(runner: str) -> List[_Build]:
    """Those of `make test`, of the text of its program. Raises ValueError when it does not have them."""
    words: Dict[str, str] = {}
    for name, more, text in _WORDS.findall(runner):
        words[name] = (words.get(name, "") if more else "") + text
    suites, but = _SUITES.search(runner), _BUT.search(runner)
    if suites is None or but is None:
        raise ValueError(f"{RUNNER}: it must have its lists SUITES and BUT, by build")
    left_out = {build: re.sub(r"\$([A-Z_]+)", lambda name: words[name[1]], pattern)
                for build, pattern in re.findall(r'\[(\w+)\]="([^"]*)"', but[1])}
    return [_Build(set(kinds.split()), re.compile(left_out[name]) if name in left_out else None)
            for name, kinds in re.findall(r"\[(\w+)\]='([^']*)'", suites[1])]


class _Gtests:
    """What the C++ sources below tests/ say."""

    def __init__(self, root: Path) -> None:
        self.skipping: Set[str] = set()  # Suite.Name, and the names of fixtures
        self.base: Dict[str, str] = {}  # of a fixture
        self.instances: Dict[str, List[str]] = {}
        self.valued: Set[str] = set()
        self.builds = builds((root / RUNNER).read_text())
        for path in sorted((root / "tests").rglob("*")):
            if path.suffix in (".cc", ".h"):
                self._read(path.read_text())

    def _read(self, text: str) -> None:
        place = ""
        for found in _PLACE.finditer(text):
            suite, name, fixture, base = found.groups()
            if suite is None and fixture is None:
                self.skipping.add(place)
                continue
            place = f"{suite}.{name}" if suite else fixture
            if base:
                self.base[fixture] = base
        for instance, suite in _INSTANCE.findall(text):
            self.instances.setdefault(suite, []).append(instance)
        self.valued |= set(_VALUED.findall(text))

    def doubt(self, test: str, path: str) -> Optional[str]:
        suite = test.partition(".")[0]
        if suite in self.valued and suite not in self.instances:
            return "it has no values to run with"
        kind = path.split("/")[1]
        names = [f"{kind}.{instance}/{test}" for instance in self.instances.get(suite, [])]
        names = names or [f"{kind}.{test}"]
        if not any(kind in build.kinds and not (build.left_out and build.left_out.search(name))
                   for build in self.builds for name in names):
            return f"no build of {RUNNER} runs it"
        fixtures = [suite]
        while fixtures[-1] in self.base:
            fixtures.append(self.base[fixtures[-1]])
        return SKIPPED if self.skipping & {test, *fixtures} else None


class _Pytests:
    """One file of pytest, with the fixtures of its folder."""

    def __init__(self, root: Path, path: str) -> None:
        file = root / path
        shared = file.with_name("conftest.py")
        self._here = ast.parse(file.read_text())
        self._shared = ast.parse(shared.read_text() if shared.is_file() else "")
        self._installed = {re.split(r"[^\w-]", entry)[0].replace("-", "_").lower()
                           for group in _REQUIRED.findall((root / "pyproject.toml").read_text())
                           for entry in re.findall(r'"([^"]+)"', group)} | {"sklearn"}
        self._functions: Dict[str, Function] = {}
        self._values: Dict[str, ast.expr] = {}
        for tree in (self._shared, self._here):
            for node in tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    self._functions[node.name] = node
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self._values[node.targets[0].id] = node.value

    def doubt(self, name: str) -> Optional[str]:
        test = self._functions[name]
        marks = [*test.decorator_list, *self._marks_of_all()]
        if any(_is_mark(mark, "long") for mark in marks) or any(map(_is_long_only, marks)):
            return LONG
        if "collect_ignore_glob" in self._values:
            return SKIPPED
        if any(_is_mark(mark, "skip") or _is_mark(mark, "skipif") for mark in map(self._value, marks)):
            return SKIPPED
        used = [argument.value for mark in marks
                if isinstance(mark, ast.Call) and _is_mark(mark, "usefixtures")
                for argument in mark.args if isinstance(argument, ast.Constant)]
        used += [each.name for each in self._functions.values()
                 if any("autouse=True" in ast.unparse(mark) for mark in each.decorator_list)]
        at_import = [node for node in self._here.body if isinstance(node, (ast.Expr, ast.Assign))]
        if any(self._skips(node, set()) for node in at_import) or any(
                self._may_skip(each, set()) for each in [name, *used]):
            return SKIPPED
        return None

    def _marks_of_all(self) -> List[ast.expr]:
        mark = self._values.get("pytestmark")
        return mark.elts if isinstance(mark, ast.List) else [mark] if mark is not None else []

    # A mark that the file has given a name.
    def _value(self, mark: ast.expr) -> ast.expr:
        return self._values.get(mark.id, mark) if isinstance(mark, ast.Name) else mark

    def _may_skip(self, name: str, asked: Set[str]) -> bool:
        function = self._functions.get(name)
        if function is None or name in asked:
            return False
        asked.add(name)
        arguments = [each.arg for each in function.args.args]
        return any(self._may_skip(each, asked) for each in arguments) or any(
            self._skips(node, asked) for node in function.body)

    def _skips(self, part: ast.AST, asked: Set[str]) -> bool:
        for node in ast.walk(part):
            if isinstance(node, ast.Call) and self._is_skip(node):
                return True
            if isinstance(node, ast.Name) and self._may_skip(node.id, asked):
                return True
        return False

    def _is_skip(self, call: ast.Call) -> bool:
        called = ast.unparse(call.func)
        if called == "pytest.skip":
            return True
        if called != "pytest.importorskip":
            return False
        package = str(call.args[0].value) if isinstance(call.args[0], ast.Constant) else ""
        return package.partition(".")[0] not in self._installed | {"nezha"}


def _is_mark(mark: ast.expr, name: str) -> bool:
    return re.match(rf"pytest\.mark\.{name}\b", ast.unparse(mark)) is not None


# Whether it gives a test no value that is not marked long.
def _is_long_only(mark: ast.expr) -> bool:
    if not (isinstance(mark, ast.Call) and _is_mark(mark, "parametrize") and len(mark.args) > 1):
        return False
    values = mark.args[1]
    return isinstance(values, (ast.List, ast.Tuple)) and all(
        "pytest.mark.long" in ast.unparse(value) for value in values.elts)


class Runs:
    """What `make test` runs of the tests below ROOT."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._gtests = _Gtests(root)
        self._runner = (root / RUNNER).read_text()

    def doubt(self, test: str, path: str) -> Optional[str]:
        """Why `make test` might not run that test, which `path` has; None when it does."""
        if path.endswith(".cc") and test != path:
            return self._gtests.doubt(test, path)
        if "::" not in test:
            return "it is a program of its own"
        if not re.search(rf"\b{re.escape(path.rpartition('/')[0])}\b", self._runner):
            return f"{RUNNER} does not run its folder"
        return _Pytests(self._root, path).doubt(test.partition("::")[2])
