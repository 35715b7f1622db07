"""What `nezha bench interference` makes of measurements: costs that were put in come out again."""

import functools
import json

import pytest

from nezha_tools.cli.errors import BenchError
from nezha_tools.bench import interference_report, interference_plan
from nezha_tools.bench.interference_model import Costs, Measurement, fit, fit_alone, predict, rule
from nezha_tools.bench.interference_run import Request, _document, _Found, _samples, matrix_file, save
from nezha_tools.bench.spec import RailSample, Sample
from nezha_study.plan.interference_file import read_interference
from test_calibration_file import content

SIZES = [512 << 10, 2 << 20, 8 << 20, 32 << 20]


def costs_of(rails, lost, split=0.0):
    """rails: (startup in us, Gbit/s) each."""
    return Costs([us * 1e-6 for us, _ in rails], [8e-9 / gbps for _, gbps in rails], lost, split)


def measured(truth, experiment, noise=lambda: 1.0):
    whole = sum(experiment.weights)
    found = []
    for size in SIZES:
        sent = [size * weight / whole for weight in experiment.weights]
        found.append(Measurement(experiment.what, size, predict(truth, sent) * noise(), sent))
    return found


def everything(truth, noise=lambda: 1.0):
    rails = len(truth.startup_s)
    kinds = {"alone": [], "shared": [], "trickle": [], "together": []}
    alone = {rail: measured(truth, each, noise)
             for rail, each in enumerate(interference_plan.alone(rails))}
    for each in interference_plan.beside([1 / cost for cost in truth.s_per_byte]):
        kinds[each.kind] += measured(truth, each, noise)
    return alone, kinds


# ---------------------------------------------------------------------------------- predictions

def test_a_rail_alone_needs_its_startup_and_its_bytes():
    costs = costs_of([(50, 8), (200, 4)], [[0, 0.5], [0.5, 0]], split=1.0)
    assert predict(costs, [1e9, 0]) == pytest.approx(50e-6 + 1.0)
    assert predict(costs, [0, 1e9]) == pytest.approx(200e-6 + 2.0)
    assert predict(costs, [0, 0]) == 0


def test_rails_disturb_each_other_only_while_both_run():
    costs = costs_of([(0, 8), (0, 8)], [[0, 0.5], [0, 0]])
    # 0.5 s beside the other at half the rate, then 0.75 GB alone
    assert predict(costs, [1e9, 0.5e9]) == pytest.approx(0.5 + 0.75)
    assert predict(costs, [0.1e9, 1e9]) == pytest.approx(1.0)
    costs.split_cost_s = 0.25
    assert predict(costs, [0.1e9, 1e9]) == pytest.approx(1.25)


def test_a_rail_that_starts_late_disturbs_late():
    costs = costs_of([(0, 8), (1e6, 8)], [[0, 0.5], [0, 0]])
    assert predict(costs, [0.5e9, 1e9]) == pytest.approx(2.0)  # the first one is done before


def test_many_disturbers_leave_a_twentieth():
    lost = [[0, 0.9, 0.9], [0, 0, 0], [0, 0, 0]]
    costs = costs_of([(0, 8), (0, 8), (0, 8)], lost)
    assert predict(costs, [0.05e9, 1e9, 1e9]) == pytest.approx(1.0)


# ------------------------------------------------------------------------------------------ fits

def test_a_line_is_found_again():
    assert fit_alone([(1e6, 50e-6 + 1e-3), (1e7, 50e-6 + 1e-2)]) == pytest.approx((50e-6, 1e-9))
    startup, slope = fit_alone([(1e6, 0.9e-3), (1e7, 1.0e-2)])  # faster when small: no startup
    assert startup == 0 and 0.9e-9 <= slope <= 1.0e-9
    with pytest.raises(ValueError):
        fit_alone([(1e6, 1e-3), (1e6, 2e-3)])


@pytest.mark.parametrize("rails, lost, split", [
    ([(50, 1), (50, 1)], [[0, 0.1], [0.1, 0]], 40e-6),
    ([(30, 10), (200, 4)], [[0, 0.27], [0.05, 0]], 20e-6),
    ([(30, 4), (200, 10)], [[0, 0.05], [0.30, 0]], 0.0),
    ([(50, 1), (50, 1)], [[0, 0], [0, 0]], 0.0),
    ([(20, 8), (20, 8), (60, 3)], [[0, 0.1, 0.2], [0.15, 0, 0.05], [0, 0.3, 0]], 60e-6),
])
def test_given_costs_are_found_again(rails, lost, split):
    truth = costs_of(rails, lost, split)
    alone, kinds = everything(truth)
    found = fit(alone, kinds["shared"], kinds["trickle"])
    assert found.startup_s == pytest.approx(truth.startup_s, rel=1e-3)
    assert found.s_per_byte == pytest.approx(truth.s_per_byte, rel=1e-3)
    assert found.split_cost_s == pytest.approx(split, abs=3e-6)
    for i, row in enumerate(lost):
        assert found.lost[i] == pytest.approx(row, abs=0.005), found.lost


def test_noise_of_a_percent_moves_losses_by_a_few():
    import random

    source = random.Random(3)
    truth = costs_of([(50, 10), (100, 5)], [[0, 0.25], [0.10, 0]], 20e-6)
    alone, kinds = everything(truth, lambda: source.gauss(1, 0.01))
    found = fit(alone, kinds["shared"], kinds["trickle"])
    assert found.lost[0][1] == pytest.approx(0.25, abs=0.06)
    assert found.lost[1][0] == pytest.approx(0.10, abs=0.06)
    assert found.lost[0][0] == found.lost[1][1] == 0


def test_what_a_trickle_costs_is_reported_beside():
    costs = costs_of([(0, 8), (0, 8)], [[0, 0], [0, 0]])
    alone, kinds = everything(costs)
    slowed = [Measurement(each.what, each.size, each.time_s / 0.73, each.sent)
              for each in kinds["trickle"]]
    found = fit(alone, kinds["shared"], slowed)
    assert found.trickle[0][1] == pytest.approx(0.27, abs=0.005)
    assert found.lost[0][1] == pytest.approx(0, abs=0.005)


# ------------------------------------------------------------------------------------- the rule

def test_the_papers_rule_with_its_numbers():
    found = rule(costs_of([(0, 3.5), (0, 1)], [[0, 0.27], [0.05, 0]]), 1, 0)
    assert (found.fast, found.slow) == (0, 1)
    assert found.limit == pytest.approx(3.52, abs=0.005)
    assert found.ratio == pytest.approx(3.5) and found.helps
    assert not rule(costs_of([(0, 3.6), (0, 1)], [[0, 0.27], [0.05, 0]]), 0, 1).helps
    assert rule(costs_of([(0, 50), (0, 1)], [[0, 0], [0.05, 0]]), 0, 1).helps


def test_the_plan_has_the_papers_shares():
    weights = [each.text for each in interference_plan.beside([2.0, 1.0])]
    assert weights[:3] == ["100:1.0101", "1.0101:100", "100:50"]
    assert [each.kind for each in interference_plan.beside([1.0] * 3)].count("together") == 1
    assert len(interference_plan.beside([1.0] * 4)) == 6 * 5 + 1
    assert [each.text for each in interference_plan.alone(2)] == ["100:0", "0:100"]


# ------------------------------------------------------------------------------- the report

@functools.lru_cache
def document():
    truth = costs_of([(50, 10), (50, 1)], [[0, 0.27], [0.05, 0]], 20e-6)
    alone, kinds = everything(truth)
    costs = fit(alone, kinds["shared"], kinds["trickle"])
    request = Request(SIZES, rails=["10gbit", "1gbit"])
    every = {"alone": [each for found in alone.values() for each in found], **kinds}
    return _document(request, _Found(["eth0", "eth1"], costs, every, 0), None)


def test_the_report_says_whether_the_slower_rail_helps(capsys, tmp_path):
    path = tmp_path / "deep" / "matrix.json"
    assert interference_report.publish(document(), path, None, None) == 0
    text = capsys.readouterr().out
    assert "eth1 is 10.00 times slower, so it does not help" in " ".join(text.split())
    lost = document()["rate_lost"][0][1]
    assert lost == pytest.approx(0.27, abs=0.005) and f"{100 * lost:.1f} (" in text
    assert f"= {document()['rules'][0]['limit']:.2f}, the paper's" in text
    assert "Splitting an operation costs" in text
    saved = json.loads(path.read_text())
    assert saved["version"] == 1 and saved["rails"] == ["eth0", "eth1"]
    assert saved["rate_lost"][0][1] == pytest.approx(0.27, abs=0.005)
    assert saved["split_cost_s"] == pytest.approx(20e-6, abs=5e-6)


def test_times_that_do_not_fit_are_called_so():
    good = document()
    assert not any("DO NOT FIT" in line for line in interference_report.sentences(good))
    slow = [{**each, "time_us": 1.3 * each["time_us"]} if "even" in each["what"] else each
            for each in good["measurements"]]
    sentences = interference_report.sentences({**good, "measurements": slow})
    assert any("30 % away" in line for line in sentences)


def test_json_alone_is_on_standard_output(capsys, tmp_path):
    interference_report.publish(document(), tmp_path / "matrix.json", "-", None)
    assert json.loads(capsys.readouterr().out)["rules"][0]["helps"] is False


def test_a_wrong_result_saves_no_matrix(tmp_path):
    broken = {**document(), "wrong": 3}
    assert interference_report.publish(broken, tmp_path / "matrix.json", None, None) == 1
    assert not (tmp_path / "matrix.json").exists()


def test_the_picture_is_written(tmp_path):
    pytest.importorskip("matplotlib")
    interference_report.plot(document(), tmp_path / "matrix.png")
    assert (tmp_path / "matrix.png").stat().st_size > 5000


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="file"):
        save(document(), tmp_path / "file" / "matrix.json")


def test_the_library_reads_what_was_saved(world, tmp_path):
    path = tmp_path / "matrix.json"
    names = world(2, lambda comm: [rail["name"] for rail in comm.rails()])[0]
    costs = costs_of([(50, 1)] * len(names), [[0.0] * len(names) for _ in names], 20e-6)
    path.write_text(json.dumps(matrix_file(names, costs)))
    cost_s, lost = read_interference(path, len(names))
    calibrated = tmp_path / "calibration.json"
    options = {"calibration_file": str(calibrated)}
    for cost_us in (1e6 * cost_s, None):
        calibrated.write_text(json.dumps({**content(names), "rate_lost": lost, "split_cost_us": cost_us}))
        if cost_us is not None:
            assert world(2, lambda comm: comm.world_size, config=options) == [2, 2]
        else:
            with pytest.raises(Exception, match=f"{calibrated.name}.*'split_cost_us'"):
                world(2, lambda comm: comm.world_size, config=options)


def test_the_quickest_pass_counts_and_no_wrong_element_is_forgotten():
    runs = []

    def run(spec, rail):
        runs.append(rail)
        slow = len(runs) <= 2  # the first pass
        rails = [RailSample(f"eth{rail}", f"eth{rail}", 100)]
        time_us = 30.0 if slow else 10.0
        return [Sample(size, size // 4, 2, [time_us], time_us, 1, 0.0, rails)
                for size in spec.sizes]

    found = _samples(run, Request([1 << 20, 2 << 20]).spec(), interference_plan.alone(2), 2)
    assert runs == [0, 1] * 2
    assert [sample.times_us for sample in found["rail 1 alone"]] == [[10.0], [10.0]]
    assert [sample.wrong for sample in found["rail 1 alone"]] == [2, 2]


def test_one_size_is_refused():
    with pytest.raises(BenchError, match="two sizes"):
        Request([1 << 20]).spec()
