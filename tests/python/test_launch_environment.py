"""Which rank am I, where do we meet: every launcher's variables, and what is missing."""

import pytest

from nezha.errors import InvalidArgument
from nezha.launch_environment import detect, launched, local_place

MASTER = {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "4711",
         "SLURM_JOB_NODELIST": "gpu[07-09],login", "SLURM_STEP_ID": "0"}
BATCH = {name: value for name, value in SLURM.items() if name != "SLURM_STEP_ID"}
SLURM_PORT = 15000 + 4711 * 31 % 15000

FOUND = {
    "by hand": ({"RANK": "1", "WORLD_SIZE": "4", **MASTER},
                (1, 4, "tcp://10.0.0.1:29500", "environment", None, False)),
    "IPv6": ({"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "fd00::1", "MASTER_PORT": "29500"},
             (1, 4, "tcp://[fd00::1]:29500", "environment", None, False)),
    "nezha's store wins": ({"RANK": "1", "WORLD_SIZE": "4", "NEZHA_STORE": "file:///d", **MASTER},
                           (1, 4, "file:///d", "environment", None, False)),
    "job name": ({"RANK": "1", "WORLD_SIZE": "4", "NEZHA_JOB": "j7", **MASTER},
                 (1, 4, "tcp://10.0.0.1:29500", "environment", "j7", False)),
    "torchrun": ({"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "r",
                  "TORCHELASTIC_RESTART_COUNT": "2", **MASTER},
                 (1, 4, "tcp://10.0.0.1:29501", "environment", "r.2", True)),
    "torchrun without its store": (
        {"RANK": "1", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "r",
         "TORCHELASTIC_USE_AGENT_STORE": "False", **MASTER},
        (1, 4, "tcp://10.0.0.1:29500", "environment", "r.0", False)),
    "slurm": (SLURM, (3, 8, f"tcp://gpu07:{SLURM_PORT}", "slurm", "slurm4711.0", False)),
    "slurm step": ({**SLURM, "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "gpu09",
                    "SLURM_STEP_ID": "2"},
                   (3, 4, f"tcp://gpu09:{SLURM_PORT + 2}", "slurm", "slurm4711.2", False)),
    "slurm with a master": ({**SLURM, **MASTER},
                            (3, 8, "tcp://10.0.0.1:29500", "slurm", "slurm4711.0", False)),
    "open mpi": ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "3", **MASTER},
                 (2, 3, "tcp://10.0.0.1:29500", "openmpi", None, False)),
    "mpich": ({"PMI_RANK": "0", "PMI_SIZE": "2", **MASTER},
              (0, 2, "tcp://10.0.0.1:29500", "pmi", None, False)),
    "pmix": ({"PMIX_RANK": "0", "WORLD_SIZE": "2", **MASTER},
             (0, 2, "tcp://10.0.0.1:29500", "pmix", None, False)),
    "slurm's old name of the step": (
        {**BATCH, "SLURM_STEPID": "2"},
        (3, 8, f"tcp://gpu07:{SLURM_PORT + 2}", "slurm", "slurm4711.2", False)),
    "a batch script alone": ({**BATCH, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
                             (0, 1, "hash://single", "slurm", "slurm4711.0", False)),
    "the node that ran srun is not where rank 0 is": (
        {**SLURM, "SLURM_LAUNCH_NODE_IPADDR": "10.9.9.9"},
        (3, 8, f"tcp://gpu07:{SLURM_PORT}", "slurm", "slurm4711.0", False)),
    "mpirun inside slurm, on the node of the script": (
        {**BATCH, "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "6",
         "PMIX_NAMESPACE": "prterun-7@1", "PMIX_RANK": "1"},
        (1, 6, f"tcp://gpu07:{SLURM_PORT}", "openmpi", "prterun-7@1", False)),
    "mpirun inside slurm, on another node": (
        {**SLURM, "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6",
         "SLURM_STEP_NODELIST": "gpu[08-09]", "SLURM_STEP_ID": "4",
         "PMIX_NAMESPACE": "prterun-7@1", "PMIX_RANK": "5"},
        (5, 6, f"tcp://gpu07:{SLURM_PORT}", "openmpi", "prterun-7@1", False)),
    "mpiexec inside slurm": (
        {**SLURM, "PMI_RANK": "5", "PMI_SIZE": "6", "SLURM_STEP_NODELIST": "gpu[08-09]"},
        (5, 6, f"tcp://gpu07:{SLURM_PORT}", "pmi", None, False)),
    "srun with pmi2": (
        {**SLURM, "PMI_RANK": "3", "PMI_SIZE": "4", "SLURM_STEP_NUM_TASKS": "4",
         "SLURM_STEP_NODELIST": "gpu09", "SLURM_STEP_ID": "1"},
        (3, 4, f"tcp://gpu09:{SLURM_PORT + 1}", "slurm", "slurm4711.1", False)),
    "srun with pmix": (
        {**SLURM, "PMIX_RANK": "3"},
        (3, 8, f"tcp://gpu07:{SLURM_PORT}", "slurm", "slurm4711.0", False)),
    "RANK inside slurm": (
        {**SLURM, "RANK": "0", "WORLD_SIZE": "2", **MASTER},
        (0, 2, "tcp://10.0.0.1:29500", "environment", "slurm4711.0", False)),
    "one rank meets nobody": ({"RANK": "0", "WORLD_SIZE": "1"},
                              (0, 1, "hash://single", "environment", None, False)),
}


@pytest.mark.parametrize("name", FOUND)
def test_launchers(name):
    env, expected = FOUND[name]
    found = detect(env)
    assert (found.rank, found.world_size, found.store, found.source, found.job,
            found.torch_store) == expected


@pytest.mark.parametrize("name", FOUND)
def test_commands_and_init_see_the_same_rank(name):
    env, expected = FOUND[name]
    found = launched(env)
    if name == "a batch script alone":  # srun starts ranks; the script is none
        assert found is None
    else:
        assert (found.rank, found.world_size, found.launcher) == (*expected[:2], expected[3])
        assert env[found.variable] == str(found.rank)


def test_nothing_is_a_single_process():
    assert detect({}) is None and launched({}) is None
    assert detect({"PATH": "/bin", **MASTER}) is None


def test_a_batch_script_of_a_large_job_was_not_launched():
    assert launched(BATCH) is None


def test_half_a_rank_is_refused_by_commands_too():
    for env, words in (({"RANK": "0"}, "WORLD_SIZE"), ({"WORLD_SIZE": "2"}, "RANK"),
                       ({"RANK": "2", "WORLD_SIZE": "2"}, "rank 2 of 2")):
        with pytest.raises(InvalidArgument, match=words):
            launched(env)


@pytest.mark.parametrize("env, place", [
    ({}, (None, None)),
    ({"LOCAL_RANK": "1"}, (None, None)),  # of nothing
    ({"RANK": "0", "LOCAL_RANK": "0"}, (None, None)),  # of no world
    ({"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}, (1, 4)),
    ({"RANK": "5", "WORLD_SIZE": "8"}, (None, None)),
    ({**SLURM, "SLURM_LOCALID": "3", "SLURM_NTASKS_PER_NODE": "4"}, (3, 4)),
    ({**SLURM, "SLURM_LOCALID": "3"}, (3, None)),
    # mpiexec's daemon was started by srun: its SLURM_LOCALID is no rank's
    ({**SLURM, "SLURM_LOCALID": "0", "PMI_RANK": "5", "PMI_SIZE": "6"}, (None, None)),
    ({**SLURM, "SLURM_LOCALID": "0", "OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "6",
      "OMPI_COMM_WORLD_LOCAL_RANK": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "3"}, (2, 3)),
])
def test_the_place_on_the_host_is_the_launchers(env, place):
    assert local_place(env) == place


def test_arguments_go_before_the_environment():
    found = detect({"RANK": "1", "WORLD_SIZE": "4", **MASTER}, rank=2, store="redis://h:1/0")
    assert (found.rank, found.world_size, found.store) == (2, 4, "redis://h:1/0")


MISSING = [
    ({"RANK": "0"}, {}, "WORLD_SIZE"),
    ({"WORLD_SIZE": "2"}, {}, "RANK"),
    ({"OMPI_COMM_WORLD_RANK": "1"}, {}, "WORLD_SIZE"),
    ({"PMIX_RANK": "1"}, {}, "WORLD_SIZE"),
    ({}, {"rank": 0}, "world_size"),
    ({}, {"world_size": 2}, "rank"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, {}, "MASTER_ADDR"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h"}, {}, "MASTER_PORT"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, {}, "mpirun -x"),
    ({"RANK": "one", "WORLD_SIZE": "2"}, {}, "RANK='one'"),
    ({"RANK": "2", "WORLD_SIZE": "2", **MASTER}, {}, "rank 2 of 2"),
    ({"RANK": "0", "WORLD_SIZE": "0", **MASTER}, {}, "rank 0 of 0"),
    ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "99999"}, {}, "65535"),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"}, {}, "SLURM_NODELIST"),
    (BATCH, {}, "write srun before the program"),
]


@pytest.mark.parametrize("env, arguments, words", MISSING)
def test_what_is_missing_is_named(env, arguments, words):
    with pytest.raises(InvalidArgument) as caught:
        detect(env, **arguments)
    assert words in str(caught.value)


def in_slurm(node_list):
    return {**SLURM, "SLURM_JOB_NODELIST": node_list}


@pytest.mark.parametrize("text, host", [
    ("a", "a"), ("a,b", "a"), ("n[1-3]", "n1"), ("n[008-011,2]", "n008"), ("n[2,008-011]", "n2"),
    ("r[1-2]n[1-2]x", "r1n1x"), (" a[1] , b ", "a1"), ("n[9-10]", "n9"),
])
def test_rank_0_is_on_the_first_host_of_the_list(text, host):
    assert detect(in_slurm(text)).store == f"tcp://{host}:{SLURM_PORT}"


@pytest.mark.parametrize("text", ["", ",", "n[1-", "n[3-1]", "n[a]", "n[1-2-3]", "n[]"])
def test_bad_node_lists(text):
    with pytest.raises(InvalidArgument):
        detect(in_slurm(text))
