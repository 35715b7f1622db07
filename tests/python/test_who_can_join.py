"""Who can join a job that `nezha run` started, and who cannot."""

import io
import os
import socket
import sys
import threading

import pytest
from conftest import run_threads

import nezha
from nezha import launcher

# Before it joins, rank 1 tries the same without the job's secret, then with another one.
_ATTACK = """
import os, sys
import nezha

secret = os.environ["NEZHA_SECRET"] if "NEZHA_SECRET" in os.environ else None
if os.environ["RANK"] == "1":
    for other in (None, "0123456789abcdef0123456789abcdef"):
        os.environ.pop("NEZHA_SECRET", None)
        if other:
            os.environ["NEZHA_SECRET"] = other
        try:
            nezha.init(timeout=20).close()
            print("JOINED")
            sys.exit(3)
        except nezha.InvalidArgument as error:
            print("REFUSED", error)
    os.environ["NEZHA_SECRET"] = secret
with nezha.init(timeout=60) as comm:
    total = comm.all_reduce(bytearray([1]))
    print("SUM", total[0], "BY", comm.stats()["authentication"])
"""


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("NEZHA_RAILS", "127.1.0.1/32")


def test_nobody_joins_a_job_of_nezha_run_without_its_secret():
    out, err = io.BytesIO(), io.BytesIO()
    ranks = launcher.on_this_host(2, [sys.executable, "-c", _ATTACK], {})
    outcome = launcher.launch(ranks, grace_s=0.2, out=out, err=err)
    lines = out.getvalue().decode()
    assert outcome.exit_code == 0, lines + err.getvalue().decode()
    assert lines.count("REFUSED") == 2 and "JOINED" not in lines
    assert lines.count("SUM 2 BY secret") == 2


@pytest.mark.parametrize("option", [{"tls": "on"}, {"integrity": "on"}, {"authentication": "required"}])
def test_what_needs_a_secret_is_refused_without_one(option, tmp_path):
    with pytest.raises(nezha.InvalidArgument, match="NEZHA_SECRET_FILE"):
        nezha.init(0, 2, f"file://{tmp_path}/store", timeout=1, config=option)


class DictStore:
    """A store of the caller's own, and all that was written there."""

    def __init__(self):
        self.values, self.written, self.lock = {}, [], threading.Lock()

    def set(self, key, value):
        with self.lock:
            self.values[key] = bytes(value)
            self.written.append((key, bytes(value)))

    def get(self, key):
        return self.values[key]

    def compare_set(self, key, expected, desired):
        with self.lock:
            return self.values.setdefault(key, bytes(desired))

    def delete_key(self, key):
        self.values.pop(key, None)


def on_two_hosts(store, **config):
    """The errors of two ranks without a secret, of which each says that it is on a host of its own; None
    for one that met the other. Two processes, as far as the library can tell."""
    def body(rank):
        try:
            with nezha.init(rank, 2, store, timeout=60, rails="lo",
                            config={"host_id": f"host{rank}", **config}) as comm:
                comm.barrier()
                assert comm.stats()["authentication"] == "store"
        except nezha.Error as error:
            return error

    return run_threads(2, body)


@pytest.fixture(params=["file", "python", "tcp"])
def open_store(request, tmp_path):
    """A meeting point that has no secret, and that others could reach."""
    if request.param == "python":
        return DictStore()
    if request.param == "file":
        return f"file://{tmp_path}/store"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{probe.getsockname()[1]}"


def test_ranks_on_two_hosts_need_a_secret(open_store):
    for rank, error in enumerate(on_two_hosts(open_store)):
        assert isinstance(error, nezha.InvalidArgument) and error.ranks == (0, 1)
        said = str(error)
        assert f"rank {rank}: rank 0 is on the host host0 and rank 1 on another, host1" in said
        assert "openssl rand -hex 32" in said and "NEZHA_SECRET_FILE" in said
        assert "NEZHA_AUTHENTICATION=off" in said


def test_and_none_is_handed_out():
    """Nobody who reads the store finds anything that was made of a key of the job's, at any time."""
    store = DictStore()
    on_two_hosts(store)
    parts = [value for key, value in store.written if "/welcome/" in key]
    on_two_hosts(store, authentication="off")
    later = [value for key, value in store.written if "/welcome/" in key][len(parts):]
    secret = 32  # what rank 1 is told of it
    assert parts and later and {len(part) for part in parts} == {len(later[0]) - secret}


def test_an_option_goes_without(open_store):
    assert on_two_hosts(open_store, authentication="off") == [None, None]


def test_ranks_that_disagree_about_it_say_so(tmp_path):
    def body(rank):
        with pytest.raises(nezha.Mismatch, match="authentication=auto.*authentication=off"):
            nezha.init(rank, 2, f"file://{tmp_path}/store", timeout=60,
                       config={"host_id": f"host{rank}", "authentication": ("off", "auto")[rank]})

    run_threads(2, body)


@pytest.mark.parametrize("text, mode", [("\n", 0o600), ("word\n", 0o600), ("k" * 32, 0o644)])
def test_secrets_that_protect_nothing_are_refused(text, mode, tmp_path):
    path = tmp_path / "secret"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(nezha.InvalidArgument, match="secret_file"):
        nezha.init(0, 2, f"file://{tmp_path}/store", timeout=1, config={"secret_file": str(path)})


def test_info_says_who_can_join(monkeypatch, tmp_path):
    import json

    from nezha import _native
    from nezha_tools.info.command import _who_can_join

    def found():
        return json.loads(_native.query("authentication", "{}"))

    def said():
        return " ".join(_who_can_join(found()))

    assert found() == {"secret": "", "origin": "", "option": "auto", "reason": ""}
    assert "starts on one host only, and takes all who can reach its store" in said()
    assert all(len(line) <= 80 for line in _who_can_join(found()))
    monkeypatch.setenv("NEZHA_AUTHENTICATION", "off")
    assert "Everybody who can reach its store can join any other job (authentication=off)" in said()
    assert all(len(line) <= 80 for line in _who_can_join(found()))
    monkeypatch.delenv("NEZHA_AUTHENTICATION")
    path = tmp_path / "secret"
    path.write_text("a secret that is long enough")
    path.chmod(0o600)
    monkeypatch.setenv("NEZHA_SECRET_FILE", str(path))
    assert found()["secret"] == "secret_file" and not found()["reason"]
    assert "Whoever has the secret can join" in said()
    assert "The secret is secret_file, from environment" in said()
    os.chmod(path, 0o644)
    assert "chmod 600" in said()
    monkeypatch.delenv("NEZHA_SECRET_FILE")
    monkeypatch.setenv("NEZHA_AUTHENTICATION", "required")
    assert "No job starts here without a secret" in said()
