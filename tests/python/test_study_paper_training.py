"""Training in `nezha study paper`: Fig. 8, Fig. 9, Fig. 10 and Table IV, and what they are made of."""

from __future__ import annotations

import numpy as np
import pytest

from nezha_study.paper import fig8, fig9, fig10, table4, train_worker, training
from nezha_study.paper.combinations import ALL, Combination, by_key
from nezha_study.paper.context import Context
from nezha_study.paper.jobs import Settings
from nezha_study.paper.models import ALEXNET, BATCHES, MODELS, VGG11
from nezha_study.paper.published import number
from nezha_study.paper.trained import Trainings
from nezha_study.paper.training import KIND, TrainJob
from study_paper_fakes import FAKES

SETTINGS = Settings(500)
MACHINE = {"processor": "a processor", "cores": 2, "kernel": "6.1", "memory": 4 << 30}
NODES = [2, 4, 6]


def context(*figures, left_out=()):
    planned = {job.key: job for figure in figures for job in figure.jobs(ALL, NODES)}
    results = {key: FAKES[job.kind](job) for key, job in planned.items() if key not in left_out}
    return Context(results, SETTINGS, MACHINE, NODES, list(ALL))


# ---- models


def test_the_models_have_their_layers_parameters():
    assert (len(ALEXNET.tensors), ALEXNET.elements) == (16, 61_100_840)
    assert (len(VGG11.tensors), VGG11.elements) == (22, 132_863_336)
    assert ALEXNET.tensors[:2] == (1000, 4_096_000) and ALEXNET.tensors[-1] == 64 * 3 * 11 * 11


def test_computing_is_what_table_4_leaves_and_foretells_its_third_adapter():
    assert ALEXNET.compute_s(32) == pytest.approx(0.229, abs=0.001)
    for model in MODELS:
        for batch in BATCHES:
            for nodes in (4, 6):
                cells = [f"table4/{model.key}{batch}/{nodes}: G1N{adapters}" for adapters in (1, 2, 3)]
                one, two, three = (nodes * batch / number(cell).low for cell in cells)
                foretold = 2 * two - one + 2 * (one - two) / 3
                assert abs(foretold / three - 1) < 0.12


def test_a_step_is_as_long_as_the_papers_at_every_rate():
    for mbits in (250, 500, 1000):
        found = Settings(mbits)
        sends = 1.5 * 32 * sum(training.tensors(ALEXNET, found)) / (mbits * 1e6)
        assert sends == pytest.approx(1.5 * 4 * ALEXNET.elements / (1_050_000 * 1024), rel=0.001)
        assert training.compute_s(ALEXNET, 32, found) == pytest.approx(ALEXNET.compute_s(32))
    small = Settings(500, largest=16 << 10)
    assert max(training.tensors(VGG11, small)) == 4096 and min(training.tensors(VGG11, small)) == 1
    assert training.compute_s(VGG11, 32, small) < 0.01


# ---- jobs


def test_each_training_has_a_file_of_its_own():
    pair = by_key("TA")
    found = [TrainJob(KIND, 4, pair), TrainJob(KIND, 4, pair, 2), TrainJob(KIND, 4, pair, shares="99:1")]
    assert [job.key for job in found] == ["train-4-TA", "train2-4-TA", "train-4-TA-99-1"]
    assert [job.records(SETTINGS) for job in found] == [4, 4, 1]
    assert training.trained_nodes([2, 4, 6]) == [4, 6] and training.trained_nodes([2, 3]) == [3]
    cells = table4.jobs(ALL, [4])
    assert [job.combination.key for job in cells] == ["T", "TT", "TTT"] * 2
    assert set(fig8.jobs(ALL, [4])) >= {cells[0], cells[1]}  # measured once for both


@pytest.mark.parametrize("key, shares, config", [
    ("TT", "99:1", {"policy": "static", "weights": "99:1"}),
    ("TA", "99:1", {"rails": "=eth0", "aggregator_share": "0.01"}),
    ("RA", "1:99", {"rails": "ofi:eth0", "aggregator_share": "0.99"}), ("TR", "", {})])
def test_fixed_shares_are_in_the_order_of_the_networks(key, shares, config):
    assert TrainJob(KIND, 4, by_key(key), shares=shares)._config() == config


class OneRank:
    """A world of one rank, whose sum is its input; `spoilt`: which all_reduce has a wrong element."""

    rank, world_size = 0, 1

    def __init__(self, spoilt=None):
        self.reduced, self.spoilt = 0, spoilt

    def barrier(self):
        pass

    def all_reduce(self, vector, out):
        out[...] = vector
        if self.reduced == self.spoilt:
            out[-1] = 0.5  # no input is
        self.reduced += 1


def test_every_element_of_every_step_is_compared():
    tensors = [5, 1, 300]
    well = train_worker.Replay(OneRank(), tensors)
    inputs = []
    for _ in range(9):
        seconds = well.step(0.0)
        assert len(seconds) == 1 + len(tensors) and seconds[0] >= sum(seconds[1:])
        inputs.append(well._in.copy())
    assert well.wrong == 0 and not any(np.array_equal(a, b) for a, b in zip(inputs, inputs[1:]))
    spoilt = train_worker.Replay(OneRank(spoilt=4), tensors)
    for _ in range(9):
        spoilt.step(0.0)
    assert spoilt.wrong == 1


# ---- sections


def test_speeds_gains_and_shares():
    job = TrainJob(KIND, 4, by_key("TT"))
    trainings = Trainings(context(fig8).results)
    assert trainings.images_per_s(job, ALEXNET, 32) == pytest.approx(4 * 32 / 0.4)
    assert trainings.gain(job, TrainJob(KIND, 4, by_key("T")), VGG11, 64) == pytest.approx(0.5)
    assert trainings.shares(TrainJob(KIND, 4, by_key("TA")), ALEXNET, 32) == pytest.approx([0.4, 0.6])
    assert trainings.gain(TrainJob(KIND, 8, by_key("TT")), job, ALEXNET, 32) is None


def test_the_claims_of_figure_8():
    claims = fig8.build(context(fig8)).claims
    assert claims[0].says.endswith("faster than TCP by 19.9 % on 4 nodes and 41.3 % on 6 nodes.")
    assert (claims[0].sign, claims[0].order) == (True, False)  # here both numbers of nodes gain alike
    slower = [claim for claim in claims if "slower than RDMA" in claim.says]
    assert len(slower) == 2 and all(claim.sign is False for claim in slower)
    assert fig8.build(context()).claims == []


def test_the_claims_of_figure_9():
    found = fig9.build(context(fig9))
    assert [(claim.sign, claim.order) for claim in found.claims] == [(True, None), (None, True)]
    assert found.claims[0].found == "13 of the 16 all_reduces of a step are."
    assert found.claims[1].found == "A step of VGG-11 has 6 in this range, and one of AlexNet 4."
    assert fig9.build(context()).claims == []


def test_the_claims_of_figure_10():
    found = fig10.build(context(fig10))
    assert [table.title.split(":")[0] for table in found.tables] == [
        "TCP + TCP", "TCP + RDMA", "TCP + aggregation", "RDMA + aggregation"]
    assert [claim.sign for claim in found.claims] == [True, True, True]
    assert found.claims[0].found == "It takes longer by +10.0 % (RDMA + aggregation)."


def test_the_claims_of_table_4():
    section = table4.build(context(table4))
    assert len(section.tables) == 2 and len(section.tables[0].cells) == 8
    assert "319 (1.48)" in section.tables[0].cells[1]
    says = {claim.says: claim for claim in section.claims}
    assert says["On 4 nodes a second accelerator gains more than a second adapter."].order
    assert says["On 6 nodes a third adapter gains about 10 % over two."].sign
    without = context(table4, left_out=[TrainJob(KIND, 4, Combination("T")).key])
    assert not table4.build(without).tables[0].cells[0][-1].endswith(")")
