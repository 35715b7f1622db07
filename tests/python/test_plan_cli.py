"""`nezha plan` as a command: tables for people, JSON for programs, one sentence for mistakes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nezha_study.plan.command import app

A100_TABLE = str(Path(__file__).parent / "data" / "nccl_a100_8.json")
JOB = [
    "job", "--params", "2B", "--nodes", "4", "--nics", "1x200Gbit/s", "--accelerator", "A100",
    "--seq", "2048", "--batch", "64"
]
CABLING = "rails: [a, b]\nhosts:\n  x: {sends: [a], receives: [b]}\n  y: {sends: [a], receives: [b]}\n"


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_links():
    everything = answer("links")
    for words in ("NVLink 4", "EFA v3", "PCIe 5", "LDR", "6400", "CC BY-SA 4.0", "37.5"):
        assert words in everything, words
    chip = json.loads(answer("links", "--accelerator", "h100", "--json"))
    assert chip["intra_node"][0]["gb_per_s"] == 450 and "inter_node" not in chip
    assert all("EFA" in row["fabric"]
               for row in json.loads(answer("links", "--fabric", "efa", "--json"))["inter_node"])
    hdr = json.loads(answer("links", "--fabric", "hdr", "--json"))
    assert hdr["infiniband"][0]["x4_gbit_per_s"] == 200 and not hdr["inter_node"]
    assert "HDR" in answer("links", "--fabric", "hdr")


def test_a_barrier_has_one_size_and_a_picture(tmp_path, recwarn):
    asked = ["algorithm", "--nodes", "8", "--rates", "1G:30us", "--collective", "barrier"]
    row, = json.loads(answer(*asked, "--json"))["rows"]
    assert row["size"] == 0 and row["cheapest_us"] == pytest.approx(90)
    answer(*asked, "--plot", str(tmp_path / "barrier.png"))
    assert (tmp_path / "barrier.png").exists() and not [each for each in recwarn if "log" in str(each)]


def test_rails():
    shown = answer("rails", "--nodes", "384")
    assert "384 hosts need 11 rails" in shown and "needs 18" in shown
    assert "147072 of 147072 ordered pairs" in shown
    assert "--json has all" in shown
    assert len(json.loads(answer("rails", "--nodes", "384", "--json"))["assignment"]) == 384
    assert "up to 70 hosts" in answer("rails", "--rails", "8")


def test_a_cabling(tmp_path):
    path = tmp_path / "cluster.yaml"
    path.write_text(CABLING)
    shown = answer("rails", "--file", str(path))
    assert "0 of 2 ordered pairs" in shown and "No rail from x to y." in shown


def test_algorithm(tmp_path):
    picture = tmp_path / "out" / "plan.png"
    pytest.importorskip("matplotlib")
    arguments = [
        "algorithm", "--nodes", "4", "--rates", "25Gbit/s:20us,10G:50us", "-b", "1K", "-e", "64M"
    ]
    shown = answer(*arguments, "--plot", str(picture))
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    for words in ("ring", "halving doubling", "the balancer uses rails 0+1", "Assumed: ",
                  "library runs"):
        assert words in shown, words
    document = json.loads(answer(*arguments, "--json"))
    assert [row["size"] for row in document["rows"]] == [1 << power for power in range(10, 27, 2)]
    assert all(row["chosen_us"] >= row["cheapest_us"] * (1 - 1e-9) for row in document["rows"])


def test_job(tmp_path):
    shown = answer(*JOB, "--second", "100Gbit/s:20us", "--interference", "0.27,0.05")
    for words in ("Bottleneck", "Rule of thumb", "exposed", "switches add up", "Second rail",
                  "3.52", "Assumed: mfu"):
        assert words in shown, words
    document = json.loads(answer(*JOB, "--json"))
    path = tmp_path / "job.yaml"
    path.write_text("params: 2B\nnodes: 4\nnics: 1x200Gbit/s\naccelerator: A100\nseq: "
                    "2048\nbatch: 32\n")
    assert json.loads(answer("job", "--file", str(path), "--batch", "64",
                             "--json")) == document  # options win
    assert json.loads(answer("job", "--file", str(path), "--json")) != document


def test_check():
    shown = answer("check", A100_TABLE, "--accelerator", "A100", "--size", "25M")
    for words in ("good: at best 234.9 GB/s (1879 Gbit/s)", "78 %", "! slower than a smaller size",
                  "(interpolated)", "Startup"):
        assert words in shown, words
    assert json.loads(answer("check", A100_TABLE, "--accelerator", "A100", "--json"))["grade"] == "good"
    shown = answer("check", "--busbw", "235GB/s", "--accelerator", "A100")
    assert shown.startswith("good: 235 GB/s is 78.3 % of 300 GB/s (2400 Gbit/s), one direction")


@pytest.mark.parametrize("arguments, words", [
    (["links", "--accelerator", "H1000"], "accelerator 'H1000': it must be one of"),
    (["links", "--fabric", "token ring"], "fabric 'token ring': it must be a part of one of"),
    (["rails", "--nodes", "0"], "nodes 0: it must be a whole number from 2 to 20000"),
    (["rails"], "give one of --nodes"),
    (["rails", "--nodes", "4", "--rails", "4"], "give one of --nodes"),
    (["rails", "--file", "/no/such/file"], "cannot read /no/such/file"),
    (["algorithm", "--nodes", "0", "--rates", "25G:20us"], "nodes 0: it must be"),
    (["algorithm", "--nodes", "4", "--rates", "-25G:20us"
      ], "rates '-25G': it must be a rate above 0"),
    (["algorithm", "--nodes", "4", "--rates", "25:20us"], "rates '25': it must be a rate above 0 "
                                                          "with its unit"),
    (["algorithm", "--nodes", "4", "--rates", "25G:20"], "rates '20': it must be a time"),
    (["algorithm", "--nodes", "4", "--rates", "25G:20us", "-b", "many"], "size 'many'"),
    (["algorithm", "--nodes", "4", "--rates", "25G:20us", "--collective", "gossip"
      ], "collective 'gossip'"),
    ([*JOB, "--nics", "4x200"], "nics '4x200': it must be a count"),
    ([*JOB, "--nodes", "0"], "nodes 0: it must be"),
    (["job", "--params", "2B"], "nodes is missing"),
    (["job", "--file", "/no/such/file"], "cannot read /no/such/file"),
    (["check"], "give a FILE or --busbw"),
    (["check", "--busbw", "235", "--accelerator", "A100"], "busbw '235': it must be a rate above 0 "
                                                           "with its unit"),
    (["check", "--busbw", "235GB/s", "--accelerator", "A1000"], "accelerator 'A1000'"),
])
def test_mistakes_are_one_sentence(arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    sentence, = done.output.strip().splitlines()
    assert sentence.startswith(f"nezha plan {arguments[0]}: ") and words in sentence


def test_a_file_with_a_field_that_is_none(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("params: 2B\nnode: 4\n")
    assert "'node' is no field; the fields are accelerator, adds, batch" in run(
        "job", "--file", str(path)).output


def calibrated(path, latency_s=30e-6, adds=4e9):
    """A file of one measured rail of 1 Gbit/s."""
    from nezha_tools.cli import console
    from nezha_study.sim import calibration
    from nezha_study.sim.fit import Point, RailCosts

    found = calibration.Calibration(
        [calibration.RailFacts("eth0", None, 0.0, 0.0)], [RailCosts(125e6, latency_s, 0.0, 0.0)], 0.0,
        adds, {"float32": adds}, None, None, [Point(4, (0,), "all_reduce", "auto", 1 << 20, 0.02)])
    console.write_json(calibration.document(found), str(path))
    return str(path)


def test_the_library_chooses_by_a_calibration(tmp_path):
    path = calibrated(tmp_path / "calibration.json", latency_s=3e-3)
    asked = ["algorithm", "--nodes", "8", "-b", "256K", "-e", "256K", "--json"]
    measured = json.loads(answer(*asked, "--calibration", path))["rows"][0]
    named = json.loads(answer(*asked, "--rates", "1Gbit/s:3ms"))["rows"][0]
    assert named["chosen"] != named["cheapest"] == measured["chosen"] == measured["cheapest"]


def test_a_job_on_rails_that_were_measured(tmp_path):
    job = ["job", "--params", "2B", "--nodes", "4", "--gpus", "1", "--accelerator", "A100", "--seq",
           "2048", "--batch", "64", "--bucket", "1M", "--json"]
    path = calibrated(tmp_path / "calibration.json", adds=2e9)
    measured = json.loads(answer(*job, "--calibration", path))
    named = json.loads(answer(*job, "--nics", "1x1Gbit/s", "--latency", "30us", "--adds", "2GB/s",
                              "--efficiency", "1"))
    assert measured["data_parallel"]["seconds"] == pytest.approx(named["data_parallel"]["seconds"])
    assert measured["rates"] == "measured" and named["rates"] == "advertised"
    assert {row["known_as"] for row in named["traffic"]} == {"extrapolated"}
    assert "nics, latency, adds as measured" in " ".join(measured["assumptions"])
    own = json.loads(answer(*job, "--calibration", path, "--nics", "1x10Gbit/s"))
    assert own["rates"] == "advertised" and own["assumptions"][-1].startswith("latency, adds as measured")
    exact = [*job[:-3], "--bucket", "1048576", "--params", "524288", "--calibration", path, "--json"]
    assert json.loads(answer(*exact))["traffic"][0]["known_as"] == "measured"


def test_an_algorithm_on_rails_that_were_measured(tmp_path):
    calibrated(tmp_path / "calibration.json")
    asked = ["algorithm", "--nodes", "4", "-b", "1M", "-e", "4M", "--json"]
    measured = json.loads(answer(*asked, "--calibration", str(tmp_path / "calibration.json")))
    named = json.loads(answer(*asked, "--rates", "1Gbit/s:30us"))
    assert [row["known_as"] for row in measured["rows"]] == ["measured", "extrapolated"]
    assert measured["rows"][0]["chosen_us"] == pytest.approx(named["rows"][0]["chosen_us"])
    missing = run("algorithm", "--nodes", "4", "--calibration", "no-such-file")
    assert "cannot read no-such-file" in missing.output and "no JSON" not in missing.output
    for rails in ([], ["--rates", "1G:1us", "--calibration", str(tmp_path / "calibration.json")]):
        refused = run("algorithm", "--nodes", "4", *rails)
        assert refused.exit_code == 2 and "not both" in refused.output


def test_no_more_is_hidden_than_there_is():
    asked = [*JOB, "--batch", "4096"]
    parts = json.loads(answer(*asked, "--json"))["data_parallel"]
    assert parts["exposed"] == 0 and parts["window"] > parts["seconds"]
    seconds = answer(*asked).partition("Data parallel: ")[2].partition(",")[0]
    assert f"of which {seconds} can be hidden" in answer(*asked)
