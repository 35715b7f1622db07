"""`nezha bench` as a rank of a launched world, and the options that mean nothing where they are given."""

import os
import subprocess
import sys

import pytest

from nezha_tools.commands import app

SRUN = {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "4712",
        "SLURM_JOB_NODELIST": "localhost"}
ALONE = {**SRUN, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
BY_HAND = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
CODE = "import sys; sys.argv[0] = 'nezha'; from nezha_tools.main import main; main()"


def start(environment, *arguments):
    """`nezha ...` as a launcher would have started it."""
    return subprocess.Popen([sys.executable, "-c", CODE, *arguments], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env={**os.environ, **environment})


@pytest.fixture
def refusal(monkeypatch, capsys):
    """refusal(environment, *arguments): what a command says that ends before anything is built or met."""
    def nothing(*_, **__):
        raise AssertionError("the command was not refused")

    monkeypatch.setattr("nezha.lab.Lab.up", nothing)
    monkeypatch.setattr("nezha.init", nothing)

    def run(environment, *arguments):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            app(arguments)
        shown = capsys.readouterr()
        assert ended.value.code == {"chaos": 125, "demo": 1}.get(arguments[0], 2)
        assert shown.out == "", shown
        return shown.err

    return run


def test_tasks_of_srun_without_pmi_are_one_world():
    common = ("bench", "all_reduce", "-b", "8", "-e", "8", "--iters", "3", "-w", "1", "--no-gain")
    with start(SRUN, *common) as other, start({**SRUN, "SLURM_PROCID": "0"}, *common) as first:
        out, err = first.communicate(timeout=60)
        silent, complaint = other.communicate(timeout=60)
    assert (first.returncode, other.returncode) == (0, 0), err + complaint
    assert "# nezha bench all_reduce: 2 ranks" in out and "lab" not in out
    assert silent == ""


@pytest.mark.parametrize("world, variable", [(SRUN, "SLURM_PROCID"), (BY_HAND, "RANK")])
@pytest.mark.parametrize("option, advice", [
    (("--rates", "1gbit"), "NEZHA_RAILS"), (("--nodes", "2"), "leave it out"),
    (("--gain",), "--one-rail"),
    (("--launches", "2"), "repeat the whole command"), (("--compare", "gloo"), "without a launcher")])
def test_a_launched_world_refuses_what_only_labs_have(world, variable, option, advice, refusal):
    said = refusal(world, "bench", "all_reduce", *option)
    assert f"{option[0]} has no effect" in said and advice in said
    assert f"rank 1 of 2 of a launched world ({variable} is set)" in said


@pytest.mark.parametrize("option", ["--rates", "--nodes"])
@pytest.mark.parametrize("command", ["interference", "pieces", "p2p"])
def test_others_refuse_them_too(command, option, refusal):
    said = refusal(SRUN, "bench", command, option, "3")
    assert f"{option} has no effect" in said and "SLURM_PROCID" in said


@pytest.mark.parametrize("command", [
    ("bench", "switch"), ("bench", "table1"), ("bench", "train", "--model", "vgg11"), ("demo",),
    ("chaos", "--", "true")])
def test_what_builds_labs_is_started_once(refusal, command):
    assert "rank 1 of 2 of a launched world" in refusal(SRUN, *command)


def test_half_a_launcher_is_an_error(refusal):
    said = refusal({"RANK": "0"}, "bench", "all_reduce")
    assert "WORLD_SIZE" in said


def test_a_single_task_may_ask_for_a_lab(refusal):
    said = refusal(ALONE, "bench", "all_reduce", "--rates", "1gbit")
    assert "ask for a lab with --nodes" in said
    # Past that check: in a lab there is something else that this option cannot do.
    assert "nothing to gain" in refusal(ALONE, "bench", "all_reduce", "--nodes", "2", "--rates", "1gbit",
                                        "--gain")


@pytest.mark.parametrize("arguments, words", [
    (("broadcast", "-o", "max"), "--op has no effect on broadcast"),
    (("all_reduce", "--root", "1"), "--root has no effect on all_reduce"),
    (("all_gather", "--out-of-place"), "--out-of-place has no effect on all_gather"),
    (("broadcast", "--in-place"), "--in-place has no effect on broadcast"),
    (("barrier", "-b", "4"), "--minbytes has no effect on barrier"),
    (("barrier", "-d", "int8"), "--datatype has no effect on barrier"),
    (("barrier", "--algorithm", "ring"), "--algorithm has no effect on barrier"),
    (("barrier", "--plot", "a.png"), "--plot has no effect on barrier"),
    (("all_reduce", "--torch-python", "python3"), "--torch-python has no effect"),
    (("all_reduce", "--one-rail", "0", "--compare", "gloo"), "--compare has no effect"),
    (("all_reduce", "--one-rail", "0", "--gain"), "nothing to gain"),
    (("all_reduce", "--config", "rails==eth0"), "--rates, and --one-rail"),
    (("all_reduce", "--policy", "pull", "--config", "policy=table"), "--policy pull sets it"),
    (("all_reduce", "--cores-per-rail", "1", "--config", "cpu_affinity=0"), "--cores-per-rail sets it"),
    (("pieces", "--config", "rails==eth0"), "the rails of the lab are those of --rates"),
    (("p2p", "--config", "shm=on"), "shm=on has no effect"),
    (("interference", "--config", "weights=1:2"), "weights=1:2 has no effect"),
    (("interference", "--config", "algorithm=bcube"), "rings"),
    (("switch", "--config", "aggregator_share=1"), "aggregator_share=1 has no effect"),
    (("table1", "--config", "policy=pull"), "policy=pull has no effect")])
def test_an_option_without_effect_is_refused(arguments, words, refusal):
    assert words in refusal({}, "bench", *arguments)


def test_a_replay_of_a_recorded_step_computes_nothing(tmp_path):
    from nezha_tools.cli.errors import BenchError
    from nezha_tools.bench.training_run import Request

    recorded = tmp_path / "step.json"
    recorded.write_text("{}")
    with pytest.raises(BenchError, match="--threads"):
        Request("vgg11", replay=True, schedule=recorded, threads=2)
