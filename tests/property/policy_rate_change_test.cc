// Rails whose rate changes, followed by policies as the engine uses them: two ranks that decide for
// themselves and wait for each other, indivisible transfers, and rates that only the monitor knows.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rails/policies/binder.h"
#include "rails/policies/eq.h"
#include "rails/policy.h"
#include "rails/rail_monitor.h"

namespace nezha::rails {
namespace {

constexpr uint64_t kTransfer = 64 << 10;
constexpr double kLatency = 50e-6;
constexpr int kSettling = 10;  // operations that following a change may take

double bytes_per_s(double mbit) { return mbit * 125e3; }

// One rank's end of all rails: what it posts drains at the wire's rate.
class Rank {
 public:
  Rank(std::string_view policy, size_t rails)
      : policy_(std::move(*make_policy(policy, {.weights = {}}))), wires_(rails) {}

  void begin(const OpClass& op) {
    std::vector<RailSnapshot> known;
    for (Wire& wire : wires_) {
      known.push_back({wire.monitor.rate_bytes_per_s(), kLatency, true});
      wire.sent = 0;
    }
    binder_.begin(policy_->shares(op, known));
  }

  // When all of `bytes`, sent from `now` on, have arrived.
  Nanoseconds send(Nanoseconds now, uint64_t bytes, const std::vector<double>& mbit) {
    for (;;) {
      while (bytes > 0 && post(now, bytes, mbit)) bytes -= kTransfer;
      Wire* next = nullptr;
      for (Wire& wire : wires_) {
        if (wire.queued > 0 && (next == nullptr || wire.head_done < next->head_done)) next = &wire;
      }
      if (next == nullptr) return now + static_cast<Nanoseconds>(kLatency * 1e9);
      now = std::max(now, next->head_done);
      if (busy_ > 0 && busy_after_-- == 0) now += std::exchange(busy_, 0);
      next->drained += kTransfer;
      next->monitor.sample(now, next->drained, true);
      --next->queued;
      next->head_done = now + drain_ns(mbit[static_cast<size_t>(next - wires_.data())]);
    }
  }

  void learn(const OpClass& op, double total_s) {
    OpSample sample{.op = op, .total_s = total_s, .rail_s = {}, .rail_bytes = {},
                    .rails = static_cast<uint32_t>(wires_.size())};
    for (size_t i = 0; i < wires_.size(); ++i) {
      sample.rail_bytes[i] = wires_[i].sent;
      if (wires_[i].sent == 0) continue;
      sample.rail_s[i] =
          kLatency + static_cast<double>(wires_[i].sent) / wires_[i].monitor.rate_bytes_per_s();
    }
    policy_->learn(sample);
  }

  uint64_t sent(size_t rail) const { return wires_[rail].sent; }

  // The host does something else for that long, after so many transfers have drained.
  void be_busy(int after, Nanoseconds time) {
    busy_after_ = after;
    busy_ = time;
  }

 private:
  static constexpr int kRoom = 2;  // transfers
  struct Wire {
    RailMonitor monitor{0};
    uint64_t sent = 0;  // in this operation
    uint64_t drained = 0;
    int queued = 0;
    Nanoseconds head_done = 0;
  };

  static Nanoseconds drain_ns(double mbit) {
    return static_cast<Nanoseconds>(1e9 * static_cast<double>(kTransfer) / bytes_per_s(mbit));
  }

  bool post(Nanoseconds now, uint64_t left, const std::vector<double>& mbit) {
    std::vector<RailLoad> loads;
    for (const Wire& wire : wires_) {
      loads.push_back({wire.monitor.rate_bytes_per_s(),
                       static_cast<uint64_t>(wire.queued) * kTransfer, kLatency, true,
                       wire.queued < kRoom});
    }
    const int rail = binder_.pick(loads, kTransfer, left - kTransfer);
    if (rail == RailBinder::kWait) return false;
    Wire& wire = wires_[static_cast<size_t>(rail)];
    if (wire.queued == 0) {
      wire.monitor.sample(now, wire.drained, false);
      wire.head_done = now + drain_ns(mbit[static_cast<size_t>(rail)]);
    }
    ++wire.queued;
    wire.sent += kTransfer;
    return true;
  }

  std::unique_ptr<Policy> policy_;
  RailBinder binder_;
  int busy_after_ = 0;
  Nanoseconds busy_ = 0;
  std::vector<Wire> wires_;
};

struct Seen {
  std::vector<double> share;  // by rail, median of the operations
  double time_s = 0;          // median
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

class Job {
 public:
  Job(std::string_view policy, std::vector<double> rates, uint64_t bytes)
      : mbit(std::move(rates)), bytes_(bytes) {
    for (int rank = 0; rank < 2; ++rank) ranks_.emplace_back(policy, mbit.size());
  }

  // An all_reduce of two ranks: two rounds, in each of which both send half.
  Seen run(int operations) {
    const OpClass op{.bytes = bytes_};
    std::vector<std::vector<double>> shares(mbit.size());
    std::vector<double> times;
    for (int k = 0; k < operations; ++k) {
      const Nanoseconds start = now_;
      for (Rank& rank : ranks_) rank.begin(op);
      if (std::uniform_real_distribution<>(0, 1)(random) < busy_odds) {
        const auto time = static_cast<Nanoseconds>(random() % 700) * kMillisecond;
        ranks_[random() % 2].be_busy(static_cast<int>(random() % 40), time);
      }
      for (int round = 0; round < 2; ++round) {
        Nanoseconds last = now_;
        for (Rank& rank : ranks_) last = std::max(last, rank.send(now_, bytes_ / 2, mbit));
        now_ = last;
      }
      times.push_back(static_cast<double>(now_ - start) / 1e9);
      for (Rank& rank : ranks_) rank.learn(op, times.back());
      for (size_t i = 0; i < mbit.size(); ++i) {
        const uint64_t sent = ranks_[0].sent(i) + ranks_[1].sent(i);
        shares[i].push_back(static_cast<double>(sent) / static_cast<double>(2 * bytes_));
      }
      now_ += 1 * kMillisecond;
    }
    Seen seen{.share = {}, .time_s = median(times)};
    for (const auto& each : shares) seen.share.push_back(median(each));
    return seen;
  }

  std::vector<double> mbit;
  double busy_odds = 0;  // that a host is busy for a while, in an operation
  std::mt19937 random;

 private:
  uint64_t bytes_;
  std::deque<Rank> ranks_;
  Nanoseconds now_ = kSecond;
};

struct Case {
  std::vector<double> mbit;
  size_t changed;
  double slow_mbit;
  uint64_t bytes;
};

std::vector<Case> cases() {
  return {
      {{200, 100}, 1, 20, 4 << 20},       {{200, 100}, 1, 20, 2 << 20},
      {{200, 100}, 0, 20, 4 << 20},       {{200, 100}, 0, 40, 2 << 20},
      {{100, 100}, 1, 20, 4 << 20},       {{1000, 1000}, 0, 100, 8 << 20},
      {{200, 100}, 1, 50, 4 << 20},       {{200, 100, 50}, 1, 20, 4 << 20},
      {{200, 100, 100}, 0, 40, 4 << 20},  {{400, 200, 200}, 2, 20, 16 << 20},
  };
}

class FollowsRates : public ::testing::TestWithParam<const char*> {
 protected:
  static void expect_right(const Seen& seen, const std::vector<double>& mbit, uint64_t bytes,
                           const std::string& where) {
    std::vector<RailCost> costs;
    for (const double each : mbit) costs.push_back({2 * kLatency, 1 / bytes_per_s(each)});
    const BestSingle single = best_single(costs, static_cast<double>(bytes));
    const Split split = best_split(costs, static_cast<double>(bytes), 0);
    const bool worth = is_worth_splitting(split.time_s, single.time_s);
    for (size_t i = 0; i < mbit.size(); ++i) {
      const double whole = static_cast<int>(i) == single.rail ? 1 : 0;
      EXPECT_NEAR(seen.share[i], worth ? split.share[i] : whole, 0.08) << where << ", rail " << i;
    }
    EXPECT_LE(seen.time_s, 1.1 * single.time_s) << where;
  }
};

TEST_P(FollowsRates, WithinTenOperationsDownAndUpAndNeverSlowerThanOneRail) {
  for (const Case& each : cases()) {
    for (const int learned : {10, 40, 300}) {
      Job job(GetParam(), each.mbit, each.bytes);
      std::string where = "case";
      for (const double mbit : each.mbit) where += " " + std::to_string(mbit);
      where += " Mbit/s, rail " + std::to_string(each.changed) + " to " +
               std::to_string(each.slow_mbit) + ", " + std::to_string(each.bytes) + " B, after " +
               std::to_string(learned);
      job.run(learned);
      expect_right(job.run(15), each.mbit, each.bytes, where);
      for (int again = 0; again < 3; ++again) {
        job.mbit[each.changed] = each.slow_mbit;
        job.run(kSettling);
        expect_right(job.run(15), job.mbit, each.bytes, where + ", slow");
        job.run(learned);
        job.mbit = each.mbit;
        job.run(kSettling);
        expect_right(job.run(15), job.mbit, each.bytes, where + ", restored");
      }
    }
  }
}

// What a busy host makes of times may mislead a decision, but not for long.
TEST_P(FollowsRates, OnBusyHosts) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const std::vector<double> fast{200, 100};
    Job job(GetParam(), fast, 4 << 20);
    job.random.seed(seed);
    job.busy_odds = 0.1;
    job.run(20);
    job.mbit[1] = 20;
    job.run(20);
    job.mbit = fast;
    job.run(20);
    job.busy_odds = 0;
    job.run(2 * kSettling);
    expect_right(job.run(15), fast, 4 << 20, "seed " + std::to_string(seed));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FollowsRates, ::testing::Values("pull", "table"));

}  // namespace
}  // namespace nezha::rails
