"""Every command where a user has no name, no home, no terminal, no temporary directory or no space: what
cannot be done is one sentence that says why and what to do, and never a traceback.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli_conventions import commands

HELPER = Path(__file__).with_name("surroundings.py")
PATIENCE_S = 1200
COMMAND_S = 120

_PLOT = "--nodes 2 --rates 25G:20us -e 1K --plot"
_LAB = "--nodes 2 --rates 1gbit"
_BENCH = f"{_LAB} -b 4 -e 4 --iters 5 --no-gain"
_ROOTED = ["", "--json=out/a.json"]

# Words that come after each command, so that it does what it is for, and writes what it can write.
WORDS = {
    "run": ["-n 2 --json=out/a.json true", "-n 2 no-such-program", "--hostfile hosts true",
            "--lab x true"],
    "info": ["", "--json", "--config", "--peer 127.0.0.1 --timeout 0.1", "--json=out/a.json"],
    "explain": ["all_reduce", "all_reduce --json=out/a.json"],
    "algorithm check": ["no-such-file"],
    "plan links": _ROOTED,
    "plan rails": ["--nodes 12"],
    "plan algorithm": [f"{_PLOT} out/a.png", f"{_PLOT} a.png --json"],
    "plan check": ["", "no-such-table"],
    "plan offload": ["--processes 2", "--processes 4 --copy 10GB/s --adapters 2 --adapter 100Gbit/s"],
    "plan job": ["--params 1B --nodes 2 --gpus 8 --nics 400Gbit/s --peak 1TFLOPS --seq 4096 --batch 64"],
    "sim collective": ["all_reduce --nodes 4 --rates 1G:20us"],
    "sim scale": ["--nodes 4 --size 1M --json=out/a.json"],
    "sim study": ["--rates 1gbit --nodes 2 --passes 1 --seconds 0.01"],
    "sim balancer": ["--nodes 2 --rates 1G:20us,1G:20us --operations 20 -b 1M -e 1M"],
    "sim aggregation": ["--nodes 2 --rates 1G:20us,1G:20us"],
    "sim paper": ["--nodes 4 -e 512K --json=out/a.json"],
    "study paper": ["--only table2 --rate 1gbit --json=out/a.json"],
    "sim rails": ["--nodes 4 --messages 5 --loads 0.2 --policies modulo"],
    "sim switch": ["--nodes 2 --plot out/a.png"],
    "calibrate": ["--nodes 2 --rates 1gbit --passes 1 --seconds 0.01 -e 1M"],
    "flight": ["no-such-dump", "."],
    **{f"bench {each}": [f"{_BENCH} --json=out/a.json"] for each in (
        "all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "gather", "scatter",
        "all_to_all")},
    "bench barrier": [f"{_LAB} --iters 5 --no-gain"],
    "bench train": ["--model vgg11 --replay --nodes 2 --schedule s.json --json=out/a.json"],
    "bench messages": ["--nodes 2 --seconds 0.1 --mean 4K --load 0.2 --policy pull"],
    "bench matvec": ["--nodes 1 --launches 1 --iters 2 --rates 1gbit"],
    "bench pieces": [f"{_LAB} --size 64K --pieces 4 --iters 2 --plot out/a.png"],
    "bench p2p": [f"{_LAB} --size 64K --seconds 0.01 --plot out/a.png"],
    "bench interference": ["--rates 1gbit,1gbit --seconds 0.01 --passes 1 -e 1M"],
    "bench switch": ["--nodes 2 --sizes 8 --seconds 0.01"],
    "bench table1": ["--nodes 2 --sizes 1K --operations 5 --seconds 0.01"],
    "lab up": [f"{_LAB} --mode loopback --name a", f"{_LAB} --name b"],
    "lab down": ["--name x"],
    "lab exec": ["--name x 0 true"],
    "lab shape": ["--name x 1gbit"],
    "lab slow": ["--name x 0 0 1mbit"],
    "lab cut": ["--name x 0 0"],
    "lab restore": ["--name x 0 0"],
    "lab status": ["--name x", ""],
    "aggregator": ["--key-file no-such-file"],
    "aggregator status": ["127.0.0.1:1"],
    "aggregator job-key": ["--key-file no-such-file"],
    "chaos": ["--nodes 2 --count 1 --every 100ms true"],
    "demo": [""],
}

# Those that build labs, which takes long where it works.
LABS = tuple(name for name in WORDS if name.startswith("bench ")) + (
    "calibrate", "chaos", "demo", "lab up", "sim study")

# What root of a mount namespace does before a user without a name takes over.
ROOM = "mount -t tmpfs tmpfs /tmp; mount -t tmpfs tmpfs /run; cd /tmp"
CLOSE = ("awk '{print $5}' /proc/self/mountinfo | grep -Ev '^/(proc|sys|dev/pts)' | while read -r place; "
         "do mount -o remount,bind,ro \"$place\" 2>/dev/null; done")
FULL = (f"{CLOSE}; mount -t tmpfs -o size=64k tmpfs /tmp; cd /tmp; cat /dev/zero > full 2>/dev/null; "
        "export XDG_RUNTIME_DIR=/tmp")
NOBODY = ("exec unshare --user --map-user=54321 --map-group=54321 env -i PATH=/usr/bin:/bin "
          "${XDG_RUNTIME_DIR:+XDG_RUNTIME_DIR=/tmp} \"$@\"")


def leaves():
    """Words of every command that is no mere group of others."""
    for path, command in commands():
        if path and (not hasattr(command, "list_commands") or command.invoke_without_command):
            yield " ".join(path)


def outcomes(prepare, output="", labs=True):
    """{words: (exit code, standard output, standard error)} of all commands there; labs: also of those
    that would build one."""
    names = [name for name in WORDS if labs or name not in LABS]
    words = [f"{name} {more}".split() for name in names for more in WORDS[name]]
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        unshare += ["--user", "--map-root-user"]
    done = subprocess.run(
        [*unshare, "sh", "-c", f"{prepare}; {NOBODY}", "sh",
         sys.executable, HELPER, output, str(COMMAND_S)],
        input=json.dumps(words), capture_output=True, text=True, timeout=PATIENCE_S)
    if "unshare: " in done.stderr or "mount: " in done.stderr:
        pytest.skip(f"no namespaces: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return {" ".join(line): said for line, said in zip(words, json.loads(done.stdout))}


def is_orderly(code, err):
    """Whether a command ended by itself, and said in its own words why where it did not do its work."""
    if code == 0:
        return "Traceback" not in err and "Exception ignored" not in err
    lines = [line for line in err.splitlines() if line and not line.startswith("Matplotlib created")]
    return code in (1, 2, 125, 127) and lines and all(line.startswith("nezha ") for line in lines)


def test_no_command_is_left_out():
    assert sorted([*leaves(), "run"]) == sorted(WORDS)
    assert set(LABS) < set(WORDS)


@pytest.mark.parametrize("prepare, labs", [
    pytest.param(ROOM, False, id="nobody", marks=pytest.mark.long),
    pytest.param(f"{CLOSE}; cd /", True, id="read-only"),
    pytest.param(FULL, True, id="full-disk", marks=pytest.mark.long)])
def test_what_cannot_be_done_is_a_sentence(prepare, labs):
    said = outcomes(prepare, labs=labs)
    assert not {words: each for words, each in said.items() if not is_orderly(each[0], each[2])}
    works, out, _ = said["info"]
    assert works == 0 and ("could not be tried" in out and "set TMPDIR" in out) is labs
    if labs:
        assert all(each[0] == 1 for words, each in said.items() if words.startswith("bench "))


@pytest.mark.long
def test_an_output_that_is_full_is_a_sentence():
    said = outcomes(ROOM, "/dev/full", labs=False)
    assert not {words: each for words, each in said.items() if not is_orderly(each[0], each[2])}
    for words in ("info", "plan links", "explain all_reduce", "lab status"):
        assert said[words][0] == 1 and "standard output: No space left on device; " in said[words][2]
