"""The launcher: placement, output, deaths, signals, and nothing left behind."""

import io
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from nezha import launcher
from nezha.launcher import hostfile, placement, ssh
from nezha.launcher.reaper import Reaper
from nezha.launcher.rank_output import RankOutput, printed

PATIENCE_S = 30.0


def run(count, script, grace_s=0.2, env=None):
    out, err = io.BytesIO(), io.BytesIO()
    ranks = launcher.on_this_host(count, ["sh", "-c", script], env or {})
    outcome = launcher.launch(ranks, grace_s=grace_s, out=out, err=err)
    return outcome, sorted(out.getvalue().decode().splitlines()), err.getvalue().decode()


def ended(pid):
    """Whether the process has ended; a zombie that nobody collects has."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def gone(pid):
    """Whether the process ends."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and not ended(pid):
        time.sleep(0.02)
    return ended(pid)


def test_environment_and_prefixes():
    outcome, out, err = run(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR $X; echo no >&2",
                            env={"X": "y"})
    assert outcome.exit_code == 0 and outcome.first_failure is None
    assert out == [f"[{r}] {r}/3 {r} 127.0.0.1 y" for r in range(3)]
    assert sorted(err.splitlines()) == [f"[{r}] no" for r in range(3)]


def test_the_first_failure_is_reported_and_the_rest_ends():
    outcome, _, _ = run(3, "if [ $RANK = 1 ]; then echo oh no >&2; exit 7; fi; exec sleep 1000")
    failure = outcome.first_failure
    assert (outcome.exit_code, failure.rank, failure.exit_code) == (7, 1, 7)
    assert failure.last_lines == ["oh no"]
    assert outcome.exit_codes == [-signal.SIGTERM, 7, -signal.SIGTERM]
    assert "rank 1" in str(failure) and "exit code 7" in str(failure)


def test_a_killed_rank_is_reported_by_its_signal():
    outcome, _, _ = run(2, "[ $RANK = 0 ] || exec sleep 1000; kill -KILL $$")
    assert outcome.exit_code == 128 + signal.SIGKILL
    assert (outcome.first_failure.rank, outcome.first_failure.signal) == (0, "SIGKILL")


def test_survivors_have_time_for_their_last_words():
    outcome, out, _ = run(2, "[ $RANK = 0 ] && exit 3; sleep 0.2; echo lost rank 0; exit 4",
                          grace_s=PATIENCE_S)
    assert outcome.exit_code == 3 and outcome.exit_codes == [3, 4]
    assert out == ["[1] lost rank 0"]


def test_ranks_that_ignore_sigterm_are_killed():
    outcome, _, _ = run(2, "trap '' TERM; [ $RANK = 0 ] && exit 1; while :; do sleep 0.1; done")
    assert outcome.exit_codes == [1, -signal.SIGKILL]


def test_children_of_ranks_end_too():
    outcome, out, _ = run(1, "sleep 1000 & echo $!; exit 0")
    assert outcome.exit_code == 0
    assert gone(int(out[0].split()[1]))


def test_a_command_that_is_not_there():
    outcome = launcher.launch(launcher.on_this_host(2, ["/no/such/program"], {}))
    assert outcome.exit_code == 127 and "No such file" in str(outcome.first_failure)
    assert outcome.exit_codes == [None, None]


LAUNCHER = """
import os, sys
from nezha import launcher
from nezha.launcher import hostfile
command = ["sh", "-c", "echo $$; " + sys.argv[1]]
extra = {"PYTHON": os.environ.get("PYTHON", "")}
ranks = (launcher.on_hosts(hostfile.parse("hostA\\nhostB\\n"), "hosts", 0, command, extra, os.getcwd())
         if len(sys.argv) > 2 else launcher.on_this_host(2, command, {}))
sys.exit(launcher.launch(ranks, grace_s=0.2).exit_code)
"""


def start_launcher(script, *over_ssh):
    """A launcher process with two ranks, the ranks' process ids, and the lines that came before the last
    of these."""
    process = subprocess.Popen([sys.executable, "-c", LAUNCHER, script, *over_ssh],
                               stdout=subprocess.PIPE, text=True, start_new_session=True)
    ranks, others = [], []
    while len(ranks) < 2:
        line = process.stdout.readline()
        words = line.split()
        assert words, "the launcher has ended"
        if words[-1].isdigit():
            ranks.append(int(words[-1]))
        else:
            others.append(line)
    return process, ranks, others


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_everything(number):
    process, ranks, _ = start_launcher("while :; do sleep 0.05; done")
    process.send_signal(number)
    assert process.wait(PATIENCE_S) == 128 + number
    assert all(gone(pid) for pid in ranks)


# Says which signals come, in rank 0; rank 1 has a handler for none.
HEARS = """[ $RANK = 0 ] || exec sleep 1000
exec "$PYTHON" -c '
import signal, time
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: print(signal.Signals(number).name, flush=True))
print("ready", flush=True)
while True: time.sleep(0.01)'"""


def hears_signals(process, ranks, said):
    """Whether rank 0 hears what the launcher is sent, and nobody ends before the launcher is told to."""
    assert (said or [process.stdout.readline()]) == ["[0] ready\n"]
    for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
        process.send_signal(number)
        assert process.stdout.readline() == f"[0] {number.name}\n"
    assert process.poll() is None and not any(ended(pid) for pid in ranks)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert all(gone(pid) for pid in ranks)
    process.stdout.close()


def test_other_signals_are_passed_on_and_end_no_rank(monkeypatch):
    monkeypatch.setenv("PYTHON", sys.executable)
    hears_signals(*start_launcher(HEARS))


def test_a_signal_while_ranks_start_ends_nothing():
    def start_after_a_signal(**options):
        signal.raise_signal(signal.SIGUSR1)
        return subprocess.Popen(["sh", "-c", "kill -USR1 $$; exit 3"], **options)

    before = signal.getsignal(signal.SIGUSR1)
    outcome = launcher.launch([launcher.Rank(0, "here", start_after_a_signal)])
    assert outcome.exit_codes == [3] and signal.getsignal(signal.SIGUSR1) == before


def test_a_signal_that_is_ignored_ends_nothing():
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        process, ranks, _ = start_launcher("while :; do sleep 0.05; done")
    finally:
        signal.signal(signal.SIGHUP, previous)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
    assert all(gone(pid) for pid in ranks)


def test_what_one_rank_says_is_heard_and_not_printed(capfd):
    heard = []
    ranks = launcher.on_this_host(2, ["sh", "-c", "echo $RANK; echo no >&2"], {})
    outcome = launcher.listen(ranks, heard.extend, grace_s=0.2, patience_s=PATIENCE_S)
    assert (outcome.exit_code, heard, capfd.readouterr()) == (0, [b"0"], ("", ""))


def test_a_job_that_says_nothing_is_ended():
    ranks = launcher.on_this_host(2, ["sh", "-c", "echo late $RANK >&2; exec sleep 1000"], {})
    outcome = launcher.listen(ranks, lambda lines: None, grace_s=0.2, patience_s=1.0)
    assert str(outcome.first_failure) == "rank 0 (here) gave no result for 1 s"
    assert outcome.first_failure.last_lines == ["late 0"]
    assert outcome.exit_codes == [-signal.SIGTERM, -signal.SIGTERM]


def test_a_killed_launcher_leaves_nothing():
    process, ranks, _ = start_launcher("trap '' TERM INT HUP; while :; do sleep 0.05; done")
    process.kill()
    process.wait(PATIENCE_S)
    assert all(gone(pid) for pid in ranks)


def test_orphan_guard_spares_removed_groups():
    children = [subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(3)]
    try:
        with Reaper() as guard:
            for child in children:
                guard.add(child.pid)
            guard.remove(children[1].pid)
        assert children[0].wait(PATIENCE_S) == children[2].wait(PATIENCE_S) == -signal.SIGKILL
        assert children[1].poll() is None
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_output_is_bounded_and_whole():
    target = io.BytesIO()
    output = RankOutput(printed("[0] ", target))
    output.feed(b"a\nb")
    output.feed(b"c\n")
    output.feed(b"x" * 200000)
    output.close()
    lines = target.getvalue().decode().splitlines()
    assert lines[:2] == ["[0] a", "[0] bc"]
    assert all(len(line) <= (1 << 16) + 4 for line in lines)
    assert "".join(line[4:] for line in lines[2:]) == "x" * 200000


@pytest.mark.parametrize("text, hosts", [
    ("a\nb\n", [("a", 1), ("b", 1)]),
    ("# comment\n a slots=2 # more\n\nuser@b\n", [("a", 2), ("user@b", 1)]),
])
def test_hostfile(text, hosts):
    assert [(host.name, host.slots) for host in hostfile.parse(text)] == hosts


@pytest.mark.parametrize("text", ["", "# nothing\n", "a slots=0", "a slots=x", "a slots=²", "a cpus=2",
                                  "a\na\n", "-oProxyCommand=evil\n", "a slots=9999999999"])
def test_bad_hostfile(text):
    with pytest.raises(launcher.LaunchError):
        hostfile.parse(text)


@pytest.mark.parametrize("text, hosts", [
    ("a,b", [("a", 1), ("b", 1)]),
    ("a:2, user@b:3", [("a", 2), ("user@b", 3)]),
    ("fd00::1,[fd00::2]:4", [("fd00::1", 1), ("fd00::2", 4)]),
])
def test_list_of_hosts(text, hosts):
    assert [(host.name, host.slots) for host in hostfile.listed(text)] == hosts


@pytest.mark.parametrize("text", ["", "a,,b", "a:", ":2", "a:0", "a:x", "a,a", "-oProxyCommand=evil"])
def test_bad_list_of_hosts(text):
    with pytest.raises(launcher.LaunchError):
        hostfile.listed(text)


def test_a_port_for_the_store_is_given_to_nobody_else():
    port = placement.free_port()
    with socket.socket() as other, pytest.raises(OSError):
        other.bind(("127.0.0.1", port))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()


def test_slots_are_filled_in_order():
    hosts = hostfile.parse("a slots=2\nb slots=2\n")
    assert [(h.name, r) for h, r in hostfile.assign(hosts, 3)] == [("a", 0), ("a", 1), ("b", 0)]
    assert len(hostfile.assign(hosts, 0)) == 4
    with pytest.raises(launcher.LaunchError, match="4 slots"):
        hostfile.assign(hosts, 5)


@pytest.mark.parametrize("address, is_here", [
    ("localhost", True), (socket.gethostname(), True), ("127.0.0.1", True), ("127.0.0.9", True),
    ("192.0.2.1", False), ("2001:db8::1", False), ("surely-elsewhere", False)])
def test_this_host_is_known_by_its_addresses(address, is_here):
    assert placement.is_local(address) is is_here


def test_ranks_on_an_address_of_this_host_need_no_ssh(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    (tmp_path / "ssh").write_text("#!/bin/sh\nexit 9\n")
    (tmp_path / "ssh").chmod(0o755)
    out = io.BytesIO()
    ranks = launcher.on_hosts(hostfile.parse("127.0.0.9 slots=2\n"), "hosts", 0,
                              ["sh", "-c", "echo $MASTER_ADDR"], {}, "/")
    assert launcher.launch(ranks, out=out).exit_code == 0
    assert sorted(out.getvalue().splitlines()) == [b"[0] 127.0.0.9", b"[1] 127.0.0.9"]


def test_rank_0_must_be_reachable():
    with pytest.raises(launcher.LaunchError, match="cannot reach"):
        launcher.on_hosts(hostfile.parse("localhost\nother\n"), "hosts", 0, ["true"], {}, "/")


@pytest.fixture
def fake_ssh(tmp_path, monkeypatch):
    """An ssh that runs the remote command here, out of reach of its own end, and notes its command
    line."""
    script = tmp_path / "ssh"
    script.write_text('#!/bin/sh\necho "$@" >> "$0.log"\n'
                      'for last in "$@"; do :; done\nexec setsid -w env -i PATH="$PATH" sh -c "$last"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path / "ssh.log"


def over_ssh(script, tmp_path, hosts="hostA slots=2\nhostB\n", env=None):
    out, err = io.BytesIO(), io.BytesIO()
    ranks = launcher.on_hosts(hostfile.parse(hosts), "hosts", 0, ["sh", "-c", script, "x", "it's $HOME"],
                              env or {}, str(tmp_path), master_port=29500)
    outcome = launcher.launch(ranks, grace_s=0.2, out=out, err=err)
    return outcome, sorted(out.getvalue().decode().splitlines()), err.getvalue().decode()


def test_ssh_ranks(fake_ssh, tmp_path, monkeypatch):
    monkeypatch.setenv("NEZHA_SECRET", "hunter2")
    monkeypatch.setenv("UNRELATED", "stays here")
    outcome, out, err = over_ssh(
        'echo $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $NEZHA_SECRET '
        '"$MINE" "$1" "$UNRELATED" $PWD', tmp_path, env={"MINE": "a  b'c"})
    assert outcome.exit_code == 0, err
    tail = f"hostA:29500 hunter2 a  b'c it's $HOME  {tmp_path}"
    assert out == [f"[0] 0 0/2 {tail}", f"[1] 1 1/2 {tail}", f"[2] 2 0/1 {tail}"]
    log = fake_ssh.read_text()
    assert "hunter2" not in log and "BatchMode=yes" in log and "hostB" in log


def test_a_job_gets_a_secret_of_its_own():
    texts = []
    for _ in range(2):
        outcome, out, _ = run(3, "echo $NEZHA_SECRET")
        assert outcome.exit_code == 0
        found = {line.split()[1] for line in out}
        assert len(found) == 1 and len(out) == 3, "all ranks of a job have one secret"
        texts.append(found.pop())
    assert all(len(text) == 64 and int(text, 16) for text in texts) and texts[0] != texts[1]


@pytest.mark.parametrize("name", ["NEZHA_SECRET", "NEZHA_SECRET_FILE"])
def test_a_secret_of_the_users_stays(name, monkeypatch):
    script = "echo ${NEZHA_SECRET-none}/${NEZHA_SECRET_FILE-none}"
    mine = {"NEZHA_SECRET": "[0] mine/none", "NEZHA_SECRET_FILE": "[0] none/mine"}[name]
    assert run(1, script, env={name: "mine"})[1] == [mine]
    monkeypatch.setenv(name, "mine")
    assert run(1, script)[1] == [mine]


def test_the_secret_reaches_other_hosts_on_no_command_line(fake_ssh, tmp_path):
    outcome, out, err = over_ssh("echo $NEZHA_SECRET", tmp_path)
    assert outcome.exit_code == 0, err
    found = {line.split()[1] for line in out}
    assert len(found) == 1 and len(out) == 3
    (secret,) = found
    assert len(secret) == 64 and secret not in fake_ssh.read_text()


def test_signals_are_passed_on_to_other_hosts(fake_ssh, monkeypatch):
    monkeypatch.setenv("PYTHON", sys.executable)
    hears_signals(*start_launcher(HEARS, "over ssh"))


def test_a_pattern_that_is_also_of_the_shell_on_another_host_ends_nobody(fake_ssh, tmp_path):
    outcome, out, _ = over_ssh("kill -USR1 $PPID; kill -USR2 $$; echo lives", tmp_path, "hostA\n")
    assert outcome.exit_code == 0 and out == ["[0] lives"]


def test_a_program_is_looked_for_where_this_host_finds_it(fake_ssh, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "mine").write_text("#!/bin/sh\necho found, and the path goes on: ${PATH#*:}\n")
    (tools / "mine").chmod(0o755)
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:{tools}")  # fake_ssh hands this on, but not first
    there = "/usr/bin:/bin"
    (tmp_path / "ssh").write_text((tmp_path / "ssh").read_text().replace('PATH="$PATH"', f"PATH={there}"))
    out = io.BytesIO()
    hosts = hostfile.parse("hostA\n")
    ranks = launcher.on_hosts(hosts, "hosts", 0, ["mine"], {}, str(tmp_path), master_port=29500)
    assert launcher.launch(ranks, out=out).exit_code == 0
    assert out.getvalue().decode() == f"[0] found, and the path goes on: {there}\n"
    asked = launcher.on_hosts(hosts, "hosts", 0, ["mine"], {"PATH": there}, str(tmp_path))
    assert launcher.launch(asked, err=io.BytesIO()).exit_code == 127  # the user's PATH is the user's


def test_ssh_rank_that_fails(fake_ssh, tmp_path):
    outcome, out, _ = over_ssh("echo $$; [ $RANK = 2 ] && exit 9; exec sleep 1000", tmp_path)
    assert (outcome.exit_code, outcome.first_failure.rank) == (9, 2)
    assert outcome.first_failure.where == "hostB"
    assert all(gone(int(line.split()[1])) for line in out)


def test_ssh_rank_ends_when_the_connection_does(fake_ssh, tmp_path):
    child = ssh.start("hostA", str(tmp_path), ["sh", "-c", "echo $$; exec sleep 1000"], {},
                      stdout=subprocess.PIPE)
    pid = int(child.stdout.readline())
    child.stdin.close()
    assert gone(pid)
    child.wait(PATIENCE_S)
    child.stdout.close()


def test_variables_that_cannot_travel():
    with pytest.raises(launcher.LaunchError, match="one line"):
        ssh.environment_text({"A": "b\nEVIL=1"})
    with pytest.raises(launcher.LaunchError):
        ssh.environment_text({"A B": "c"})


JOB_KEY, KEY_FILE = "NEZHA_AGGREGATOR_JOB_KEY", "NEZHA_AGGREGATOR_KEY_FILE"


@pytest.fixture(name="key_file")
def key_of_nodes(tmp_path):
    key = tmp_path / "key"
    key.write_text("5a" * 32 + "\n")
    key.chmod(0o600)
    return str(key)


@pytest.mark.parametrize("way", ["environment", "--env"])
def test_ranks_get_their_jobs_key_and_not_that_of_the_nodes(key_file, monkeypatch, way):
    if way == "environment":
        monkeypatch.setenv(KEY_FILE, key_file)
    extra = {} if way == "environment" else {KEY_FILE: key_file}
    script = (f'echo "${JOB_KEY}/${KEY_FILE}"; tr "\\0" "\\n" </proc/self/environ '
              f'| grep -c "{key_file}\\|5a5a5a" || true')
    seen = set()
    for _ in range(2):
        _, out, _ = run(2, script, env=extra)
        keys = {line.partition("] ")[2] for line in out if ":" in line}
        counts = {line.partition("] ")[2] for line in out if ":" not in line}
        (word,) = keys  # the same for all ranks
        number, colon, key = word.rstrip("/").partition(":")
        assert (len(number), colon, len(key)) == (16, ":", 64) and word.endswith("/")
        assert counts == {"0"}  # nothing in a rank's environment names the nodes' key or its file
        seen.add(word)
    assert len(seen) == 2  # each job has its own


def test_a_jobs_key_that_the_user_made_stays(key_file):
    _, out, _ = run(1, f'echo "${JOB_KEY}/${KEY_FILE}"', env={JOB_KEY: "mine", KEY_FILE: key_file})
    assert out == ["[0] mine/"]
    _, out, _ = run(1, f'echo "${{{JOB_KEY}-none}}/${{{KEY_FILE}-none}}"')
    assert out == ["[0] none/none"]


def test_a_key_file_that_cannot_be_used_starts_nobody(tmp_path):
    with pytest.raises(launcher.LaunchError, match="no-such-key"):
        launcher.on_this_host(1, ["true"], {KEY_FILE: str(tmp_path / "no-such-key")})
