"""What others could have put there is not believed, loaded or followed."""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

import nezha
import nezha_study
import nezha_tools
from nezha_tools.cli import console
from nezha_tools.aggregator import metrics
from nezha_tools.lab import _state, _lifetime
from nezha_tools.aggregator.options import read_topology
from nezha_tools.cli.errors import AggregatorError, LabError, PlanError
from nezha_tools.explain.algorithm_command import read_algorithm
from nezha.files import distrusted, read_text, whole_file, whole_folder
from nezha_tools.flight import read_files
from nezha_study.plan.documents import read_json

PATIENCE_S = 60.0
ROOT = Path(__file__).resolve().parents[2]
SOMEBODY = 12345
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")


def test_nothing_waits_for_the_writer_of_a_pipe(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, "/dev/zero"):
        with pytest.raises(OSError, match="not a regular file"):
            read_text(path)
    assert "not a regular file" in read_files([str(tmp_path)])[1][0]
    with pytest.raises(PlanError, match="not a regular file"):
        read_json(pipe)
    with pytest.raises(AggregatorError, match="not a regular file"):
        read_topology(str(pipe), "root")
    with pytest.raises(ValueError, match="not a regular file"):
        read_algorithm(pipe)
    pipe.unlink()
    pipe.write_text("content", encoding="utf-8")
    assert read_text(pipe, 7) == "content"
    with pytest.raises(OSError, match="larger than 6 bytes"):
        read_text(pipe, 6)


def test_what_is_trusted(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    assert distrusted(str(folder)) is None
    assert distrusted(str(tmp_path / "nothing")) is None
    for mode in (0o777, 0o1777, 0o775, 0o702):
        folder.chmod(mode)
        assert "written by others" in distrusted(str(folder))
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert distrusted(str(link)) == "is a symbolic link"


@needs_root
def test_another_users_is_not(tmp_path):
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    assert distrusted(str(tmp_path)) == f"belongs to user {SOMEBODY}"


# ---- files that commands write

@pytest.fixture
def open_folder(tmp_path):
    """A folder like /tmp, and a file of this user elsewhere that another user would have written to."""
    folder, victim = tmp_path / "tmp", tmp_path / "victim"
    folder.mkdir()
    folder.chmod(0o1777)
    victim.write_text("precious", encoding="utf-8")
    return folder, victim


def link_of_somebody(link: Path, target: Path) -> None:
    link.symlink_to(target)
    os.lchown(link, SOMEBODY, SOMEBODY)


@needs_root
def test_no_link_of_another_user_is_followed(open_folder):
    folder, victim = open_folder
    link_of_somebody(folder / "a.json", victim)
    link_of_somebody(folder / "none.json", victim.with_name("new"))
    link_of_somebody(folder / "below", victim.parent)
    for path in (folder / "a.json", folder / "none.json", folder / "below" / "victim"):
        with pytest.raises(PermissionError, match=f"symbolic link of user {SOMEBODY}"), whole_file(path):
            pass
        for first in (True, False):
            with pytest.raises(console.OutputError, match=f"symbolic link of user {SOMEBODY}"):
                console.write_json_line({}, str(path), first)
    with pytest.raises(PermissionError, match="symbolic link"), whole_folder(folder / "below"):
        pass
    assert victim.read_text(encoding="utf-8") == "precious" and len(list(folder.parent.iterdir())) == 2


@needs_root
def test_a_file_of_another_user_is_replaced_and_not_written_to(open_folder):
    folder, _ = open_folder
    place = folder / "a.json"
    place.write_text("", encoding="utf-8")
    place.chmod(0o666)
    os.chown(place, SOMEBODY, SOMEBODY)
    with open(place, encoding="utf-8") as of_somebody:
        console.write_json({"key": 1}, str(place))
        assert of_somebody.read() == ""
    facts = place.stat()
    assert facts.st_uid == os.geteuid() and facts.st_mode & 0o022 == 0


@needs_root
def test_links_of_others_in_their_own_folders_lead_on(tmp_path):
    """A disk's administrator may have put them there."""
    (tmp_path / "real").mkdir()
    link_of_somebody(tmp_path / "current", tmp_path / "real")
    console.write_json({}, str(tmp_path / "current" / ".." / "current" / "new" / "a.json"))
    assert (tmp_path / "real" / "new" / "a.json").is_file()


def test_ones_own_links_lead_on_and_rings_end(tmp_path):
    (tmp_path / "link").symlink_to("real")
    console.write_json({}, str(tmp_path / "link"))
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").is_file()
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(console.OutputError, match="symbolic links"):
        console.write_json({}, str(tmp_path / "ring"))


def test_json_goes_into_a_pipe_by_its_name(tmp_path):
    said = subprocess.run(
        [sys.executable, "-c",
         "from nezha_tools.cli import console; console.write_json({}, '/dev/stdout')"],
        capture_output=True, text=True, check=True)
    assert said.stdout == "{}\n"


WRITERS = re.compile(r"\.write_text\(|open\([^\n]*[\"'][wa]b?[\"']")
# Pipes, the kernel's own files, and files in folders that this user made or _state.directory() has found
# closed to others.
IN_OWN_FOLDERS = {"nezha_study/paper/cpu_share.py", "nezha_tools/bench/libraries/mlx_ring.py",
                  "nezha_tools/bench/libraries/mpi.py", "nezha_tools/bench/worker_records.py",
                  *(f"nezha_tools/lab/{name}.py" for name in (
                      "_aggregator_key", "_aggregator_processes", "_state", "_userns"))}


def test_every_file_that_a_user_names_is_written_so():
    """`place` is what whole_file() and whole_folder() hand out."""
    packages = [Path(each.__file__).parent for each in (nezha, nezha_tools, nezha_study)]
    found = {str(source.relative_to(package.parent)) for package in packages
             for source in package.rglob("*.py")
             if any(WRITERS.search(line) and "place" not in line
                    for line in source.read_text(encoding="utf-8").splitlines())}
    assert {name for name in found if not name.startswith("nezha_tools/examples/")} == IN_OWN_FOLDERS


# ---- labs of users without root

@pytest.fixture
def no_run_folder(tmp_path, monkeypatch):
    """As for a user who can write neither to /run nor to a folder of the session; returns the folder in
    /tmp that another user knows the name of."""
    monkeypatch.setattr(_state.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    real = os.access
    monkeypatch.setattr(_state.os, "access", lambda path, mode: path != "/run" and real(path, mode))
    return tmp_path / f"nezha-{os.getuid()}"


def planted_lab(folder: Path, victim: Path) -> None:
    """What an attacker writes: a lab whose removal unlinks `victim`."""
    (folder / "nezha-lab").mkdir(parents=True)
    lab = _state.LabState("trap", "userns", 0, 0, str(victim), [], [], "", 0.0, "exact", 0, 0)
    (folder / "nezha-lab" / "trap.json").write_text(
        _state.json.dumps(_state.dataclasses.asdict(lab)), encoding="utf-8")


@pytest.mark.parametrize("opened", ["", "nezha-lab"])
def test_a_lab_that_others_could_have_written_is_not_taken_down(no_run_folder, tmp_path, opened):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    planted_lab(no_run_folder, victim)
    (no_run_folder / opened).chmod(0o777)
    for refused in (lambda: _lifetime.tear_down("trap"), _state.names, lambda: _state.load("trap")):
        with pytest.raises(LabError, match="can be written by others"):
            refused()
    assert victim.exists()


@needs_root
def test_another_users_lab_is_not_taken_down(no_run_folder, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="utf-8")
    planted_lab(no_run_folder, victim)
    for path in (no_run_folder, no_run_folder / "nezha-lab", no_run_folder / "nezha-lab" / "trap.json"):
        os.chown(path, SOMEBODY, SOMEBODY)
    with pytest.raises(LabError, match=f"belongs to user {SOMEBODY}"):
        _lifetime.tear_down("trap")
    assert victim.exists()


def test_ones_own_lab_is_believed(no_run_folder):
    old = os.umask(0o002)
    try:
        lab = _state.LabState("own", "loopback", 0, 0, "", [], [], "", 0.0, "exact", 0, 0)
        with _state.locked():
            _state.reserve(lab)
    finally:
        os.umask(old)
    assert _state.names() == ["own"] and _state.load("own") == lab
    assert (no_run_folder / "nezha-lab").stat().st_mode & 0o777 == 0o700
    assert no_run_folder.stat().st_mode & 0o777 == 0o700


# ---- the compiled part for torch

@pytest.fixture
def build(tmp_path, monkeypatch):
    """nezha.torch._native.build with a cache of this test's own; torch itself is not needed."""
    import importlib.util

    torch = types.ModuleType("torch")
    torch.__version__ = "0"
    monkeypatch.setitem(sys.modules, "torch", sys.modules.get("torch", torch))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NEZHA_TORCH_NATIVE", raising=False)
    import nezha

    path = Path(nezha.__file__).with_name("torch") / "_native" / "build.py"
    spec = importlib.util.spec_from_file_location("nezha.torch._native.build", path)
    module = importlib.util.module_from_spec(spec)
    for name in ("nezha.torch", "nezha.torch._native"):
        package = types.ModuleType(name)
        package.__path__ = []
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, package))
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("opened", ["nezha", "nezha/torch", None, "file"])
def test_code_that_others_could_have_put_there_is_not_loaded(build, tmp_path, opened):
    from nezha import errors

    directory = build.cache_directory()
    directory.mkdir(parents=True)
    for folder in build._folders(directory):
        folder.chmod(0o700)
    planted = directory / "nezha_torch_bridge.so"
    planted.write_bytes(b"code of somebody else")
    target = {None: directory, "file": planted}.get(opened) or tmp_path / opened
    target.chmod(0o777)
    with pytest.raises(errors.InvalidArgument, match="can be written by others"):
        build.loaded()
    target.chmod(0o755)
    with pytest.raises(ImportError):  # now it is believed, and is no module
        build.loaded()


# ---- the metrics of an aggregation node

def test_readers_of_the_metrics_ask_the_node_seldom():
    """Each question takes the locks of the node's workers: as many readers as there are places ask all
    the time, and the node is asked ten times a second."""
    asked = []

    def stats():
        asked.append(time.monotonic())
        return {"bytes_charged": len(asked)}

    collector = metrics.Collector(stats, {})
    answered = [0] * metrics._SCRAPERS_MAX
    stale = []
    began = time.monotonic()

    def read(place):
        while time.monotonic() < began + 1.0:
            before = len(asked)
            charged = next(family.samples[0].value for family in collector.collect()
                           if family.name.endswith("charged_bytes"))
            if charged < before:  # an answer of before the question
                stale.append(charged)
            answered[place] += 1

    readers = [threading.Thread(target=read, args=(place,)) for place in range(len(answered))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert min(answered) > 0
    assert not stale
    assert len(asked) <= (time.monotonic() - began) / metrics._INTERVAL_SECONDS + 1
    assert sum(answered) > len(asked)


def test_slow_readers_do_not_hold_the_places_of_the_metrics(monkeypatch):
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(metrics, "_PATIENCE_SECONDS", 1.0)
    server = metrics.MetricsServer(("127.0.0.1", 0), metrics.Collector(dict, {}))
    callers = [socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
               for _ in range(metrics._SCRAPERS_MAX)]
    stop = threading.Event()
    ended = []

    def dribble() -> None:
        left = list(callers)
        for caller in left:
            caller.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        while left and not stop.wait(0.1):
            for caller in list(left):
                try:
                    caller.sendall(b"x")
                except OSError:
                    ended.append(caller)
                    left.remove(caller)

    thread = threading.Thread(target=dribble)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while len(ended) < len(callers) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(ended) == len(callers), "somebody who never stops asking keeps his place"
    finally:
        stop.set()
        thread.join()
        for caller in callers:
            caller.close()
        server.close()


@pytest.mark.parametrize("example", ["Containerfile", "nezha-aggregator.service"])
def test_examples_of_nodes_show_their_figures_to_their_own_host(example):
    text = (ROOT / "examples/aggregator" / example).read_text(encoding="utf-8")
    places = re.findall(r"--metrics[\s\",]+([^\s\",\]]+)", text)
    assert places and all(place.rpartition(":")[0] == "127.0.0.1" for place in places)


def test_nothing_in_the_package_makes_code_of_data():
    """What comes from a connection, a store or a file is never pickled objects or a program."""
    makers = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
    calls = {"eval", "exec", "compile", "__import__"}
    sources = sorted(Path(nezha.__file__).parent.rglob("*.py"))
    assert len(sources) > 50
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not makers & {name.name.split(".")[0] for name in node.names}, source
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in makers, source
            elif isinstance(node, ast.Call):
                assert not (isinstance(node.func, ast.Name) and node.func.id in calls), source
                assert ast.unparse(node.func) not in {"torch.load", "numpy.load", "np.load"}, source
