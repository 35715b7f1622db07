"""Who can join a job that `nezha run` started, and who cannot."""

import io
import os
import sys

import pytest

import nezha
from nezha import _launcher

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
    ranks = _launcher.on_this_host(2, [sys.executable, "-c", _ATTACK], {})
    outcome = _launcher.launch(ranks, grace_s=0.2, out=out, err=err)
    lines = out.getvalue().decode()
    assert outcome.exit_code == 0, lines + err.getvalue().decode()
    assert lines.count("REFUSED") == 2 and "JOINED" not in lines
    assert lines.count("SUM 2 BY secret") == 2


@pytest.mark.parametrize("option", [{"tls": "on"}, {"integrity": "on"}, {"authentication": "required"}])
def test_what_needs_a_secret_is_refused_without_one(option, tmp_path):
    with pytest.raises(nezha.InvalidArgument, match="NEZHA_SECRET_FILE"):
        nezha.init(0, 2, f"file://{tmp_path}/store", timeout=1, config=option)


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
    from nezha._cli.info import _who_can_join

    def found():
        return json.loads(_native.query("authentication", "{}"))

    assert found() == {"secret": "", "origin": "", "required": False, "reason": ""}
    assert "everybody who can reach its store" in _who_can_join(found())
    path = tmp_path / "secret"
    path.write_text("a secret that is long enough")
    path.chmod(0o600)
    monkeypatch.setenv("NEZHA_SECRET_FILE", str(path))
    assert found()["secret"] == "secret_file" and not found()["reason"]
    assert "who has the secret (secret_file, from environment" in _who_can_join(found())
    os.chmod(path, 0o644)
    assert "chmod 600" in _who_can_join(found())
    monkeypatch.delenv("NEZHA_SECRET_FILE")
    monkeypatch.setenv("NEZHA_AUTHENTICATION", "required")
    assert "cannot start without a secret" in _who_can_join(found())
