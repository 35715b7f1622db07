"""bench/sensitivity.py without its build: what finds, scales and compares the constants."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCE = """#include "rails/pull.h"

#include <cmath>

namespace {

constexpr double kAlike = 0.7;
constexpr Nanoseconds kLong = 20 * kMillisecond;
constexpr Nanoseconds kLonger = 2 * kLong;
constexpr int kPlaces = 4;
constexpr double kTable[] = {1, 2};
constexpr const char* kName = "pull";

}  // namespace

double half() {
  constexpr double kHalf = 0.5;
  return kHalf * kAlike;
}
"""

SCALABLE = """#include "base/scaled.h"
#include "rails/pull.h"

#include <cmath>

namespace {

const double kAlike = ::sensitivity::scaled<double>("pull.cc:kAlike", 0.7);
const Nanoseconds kLong = ::sensitivity::scaled<Nanoseconds>("pull.cc:kLong", 20 * kMillisecond);
const Nanoseconds kLonger = 2 * kLong;
constexpr int kPlaces = 4;
constexpr double kTable[] = {1, 2};
constexpr const char* kName = "pull";

}  // namespace

double half() {
  static const double kHalf = ::sensitivity::scaled<double>("pull.cc:kHalf", 0.5);
  return kHalf * kAlike;
}
"""

HEADER = """// What it is.
#pragma once

class Tuner {
  static constexpr uint64_t kBytes = 128 * 1024;
};
inline constexpr size_t kMany = 3;
static_assert(kMany < 10,
              "few");
"""


@pytest.fixture(scope="module")
def sensitivity():
    spec = importlib.util.spec_from_file_location("sensitivity", ROOT / "bench" / "sensitivity.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["sensitivity"] = module  # its dataclasses ask for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules["sensitivity"]


def test_constants_are_numbers_that_follow_from_no_other(sensitivity, tmp_path, monkeypatch):
    folder = tmp_path / sensitivity.FOLDERS[0]
    folder.mkdir(parents=True)
    (folder / "pull.cc").write_text(SOURCE)
    (folder / "tuner.h").write_text(HEADER)
    monkeypatch.setattr(sensitivity, "STRUCTURAL", {"pull.cc": {"kPlaces"}})
    found = {each.key: each.value for each in sensitivity.constants(tmp_path)}
    assert found == {"pull.cc:kAlike": "0.7", "pull.cc:kLong": "20 * kMillisecond",
                     "pull.cc:kHalf": "0.5", "tuner.h:kBytes": "128 * 1024", "tuner.h:kMany": "3"}


def test_every_constant_that_is_left_out_exists(sensitivity):
    texts = [(path.name, path.read_text()) for folder in sensitivity.FOLDERS
             for path in (ROOT / folder).rglob("*.[ch]*")]
    for file, names in sensitivity.STRUCTURAL.items():
        declared = {found["name"] for name, text in texts if name == file
                    for found in sensitivity.CONSTANT.finditer(text)}
        assert names <= declared, f"{file} has no {names - declared}"


def test_a_source_reads_the_factors_of_its_constants(sensitivity):
    names = {"kAlike", "kLong", "kHalf"}
    assert sensitivity.make_scalable(SOURCE, "src/rails/pull.cc", names) == SCALABLE


def test_a_header_reads_them_after_its_first_line(sensitivity):
    text = sensitivity.make_scalable(HEADER, "src/rails/tuner.h", {"kBytes", "kMany"})
    assert text.splitlines()[1:3] == ["#pragma once", '#include "base/scaled.h"']
    assert ("  static inline const uint64_t kBytes = "
            '::sensitivity::scaled<uint64_t>("tuner.h:kBytes", 128 * 1024);') in text
    assert 'inline const size_t kMany = ::sensitivity::scaled<size_t>("tuner.h:kMany", 3);' in text
    assert "static_assert" not in text


def test_the_worst_figure_is_the_one_that_other_seeds_explain_least(sensitivity):
    usual = {"short": 1.0, "long": 10.0}
    seeds = sensitivity.spread(usual, [{"short": 1.2, "long": 10.0}, {"short": 0.9, "long": 10.01}])
    assert seeds == pytest.approx({"short": 1.2, "long": 1.01})
    assert sensitivity.worst(usual, {"short": 1.25, "long": 9.0}, seeds) == (0.9, "long")
    assert sensitivity.worst(usual, {"short": 1.5, "long": 10.5}, seeds) == (1.5, "short")
    assert sensitivity.worst(usual, {"short": 1.0, "long": -1.0}, seeds) == (float("inf"), "long")


def test_a_constant_matters_only_beside_other_seeds(sensitivity):
    usual = {"short": 1.0, "long": 10.0}
    seeds = {"short": 1.2, "long": 1.01}
    constant = sensitivity.Constant("src/rails/pull.cc", "kAlike", "0.7")
    little = sensitivity.compare(constant, usual, seeds, [{"short": 1.1, "long": 10.0}, usual])
    assert little.beside <= 1 and little.largest == pytest.approx(1.1)
    much = sensitivity.compare(constant, usual, seeds, [usual, {"short": 1.0, "long": 5.0}])
    assert much.beside == pytest.approx(2 / 1.01) and much.figure == "long"
    ended = sensitivity.compare(constant, usual, seeds, [usual, {"the program did not end well": -1}])
    assert ended.beside == float("inf") and ended.figure == "the program did not end well"


def test_a_job_that_fails_with_one_seed_fails(sensitivity):
    assert sensitivity.medians([{"a": 1.0}, {"a": 5.0}, {"a": 2.0}]) == {"a": 2.0}
    assert sensitivity.medians([{"a": 1.0}, {"a": -1}, {"a": 2.0}]) == {"a": -1}
    ended = {"the program did not end well": -1}
    assert sensitivity.medians([{"a": 1.0}, ended]) == ended


def test_a_call_goes_on_with_the_runs_of_the_same_build(sensitivity, tmp_path):
    file = tmp_path / "sensitivity.json"
    assert sensitivity.known(file, {"a": 1.0}) == {} == sensitivity.known(None, {"a": 1.0})
    file.write_text('{"usual": {"a": 1.0}, "runs": {"pull.cc:kAlike=2.0": {"a": 1.5}}}')
    assert sensitivity.known(file, {"a": 1.0}) == {"pull.cc:kAlike=2.0": {"a": 1.5}}
    assert sensitivity.known(file, {"a": 1.1}) == {}


def test_no_two_constants_of_the_library_have_one_key(sensitivity):
    for folder in sensitivity.FOLDERS:
        assert (ROOT / folder).is_dir()
    keys = [each.key for each in sensitivity.constants(ROOT)]
    assert len(keys) == len(set(keys)) > 80
