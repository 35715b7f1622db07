// Ranks that reduce, and call shrink() whenever that fails, while some of them die, lose connections or
// stand still, for longer than anybody waits for them, too: every call ends, and those that are left work
// together. Where the network is partitioned one part works on, and the others get an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/membership/broken_pairs.h"
#include "simulation/options.h"
#include "simulation/sim_world.h"

namespace nezha::simulation {
namespace {

constexpr Nanoseconds kPeerDeadline = 4 * kSecond;
constexpr Nanoseconds kShortPause = 300 * kMillisecond;
constexpr Nanoseconds kSettledWithin = 20 * kPeerDeadline;
constexpr uint64_t kCount = 600;
// A history that needs more runs in a circle.
constexpr uint64_t kStepsMax = 300'000;

struct Survivor {
  engine::Group* group = nullptr;
  bool shrinks = false;
  bool is_at_work = false;   // the group has reduced once
  bool has_ended = false;
  Status end;
  std::unique_ptr<engine::Work> work;
  std::unique_ptr<engine::ShrinkCall> call;
  std::vector<int64_t> data;
};

class Job {
 public:
  Job(const WorldOptions& options, bool begins_with_shrink)
      : ranks_(static_cast<size_t>(options.ranks)), world(options) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      of(rank).group = &world.group(rank);
      world.at_rank(world.now(), rank, [this, rank, begins_with_shrink] {
        begins_with_shrink ? shrink(rank) : reduce(rank);
      });
    }
    world.on_ran = [this](int rank) { go_on(rank); };
  }

  // Everybody who lives and has not given up works with all ranks of its communicator.
  bool is_settled() {
    for (int rank = 0; rank < world.ranks(); ++rank) {
      if (!world.is_alive(rank) || of(rank).has_ended) continue;
      for (const engine::Member& member : of(rank).group->members) {
        const Survivor& other = of(member.global_rank);
        if (!world.is_alive(member.global_rank) || other.has_ended || !other.is_at_work) return false;
        if (other.group->comm != of(rank).group->comm) return false;
      }
    }
    return true;
  }
  std::string describe() {
    std::string text;
    for (int rank = 0; rank < world.ranks(); ++rank) {
      const Survivor& self = of(rank);
      text += "\nrank " + std::to_string(rank) + ": ";
      if (!world.is_alive(rank)) {
        text += self.has_ended ? "ended with " + self.end.to_string() : "dead";
        continue;
      }
      text += self.shrinks ? "in shrink() of" : self.is_at_work ? "at work in" : "reduces in";
      for (const engine::Member& member : self.group->members) {
        text += " " + std::to_string(member.global_rank);
      }
    }
    return text;
  }
  // It was given up, and left.
  bool has_ended(int rank) { return of(rank).has_ended; }
  // The ranks of two communicators that have both reduced, and have no rank in common; empty: there are
  // none.
  std::string split() const {
    for (const engine::MemberSet& one : at_work_) {
      for (const engine::MemberSet& other : at_work_) {
        if (!one.meets(other)) return describe(one) + " and" + describe(other);
      }
    }
    return "";
  }
  static std::string describe(const engine::MemberSet& ranks) {
    std::string text;
    ranks.each([&](int rank) { text += " " + std::to_string(rank); });
    return text;
  }

 private:
  Survivor& of(int rank) { return ranks_[static_cast<size_t>(rank)]; }

  void reduce(int rank) {
    Survivor& self = of(rank);
    self.work = std::make_unique<engine::Work>();
    self.data.assign(kCount, 1 + rank);
    engine::OpRequest request;
    request.in = request.out = self.data.data();
    request.count = kCount;
    request.dtype = Dtype::int64;
    if (!world.engine(rank).submit(*self.group, request, *self.work)) {
      self.work.reset();
      shrink(rank);
    }
  }

  void shrink(int rank) {
    Survivor& self = of(rank);
    self.is_at_work = false;
    self.shrinks = true;
    self.call = std::make_unique<engine::ShrinkCall>();
    auto policy = rails::make_policy("pull", {});
    ASSERT_TRUE(policy.is_ok());
    const Status begun =
        world.engine(rank).submit_shrink(*self.group, std::move(*policy), kNever, *self.call);
    if (!begun) end(rank, begun);
  }

  void end(int rank, const Status& why) {
    of(rank).has_ended = true;
    of(rank).end = why;
    world.at(world.now(), [this, rank] {
      if (!world.is_alive(rank)) return;
      world.engine(rank).say_goodbye();
      world.kill(rank);
    });
  }

  void go_on(int rank) {
    Survivor& self = of(rank);
    if (self.has_ended) return;
    if (self.shrinks && self.call->work.is_done()) {
      self.shrinks = false;
      if (!self.call->work.status()) return end(rank, self.call->work.status());
      world.engine(rank).destroy_group(*self.group);
      self.group = self.call->group;
      reduce(rank);
    }
    if (self.shrinks || self.work == nullptr || !self.work->is_done()) return;
    const bool worked = self.work->status().is_ok();
    self.work.reset();
    if (!worked) return shrink(rank);
    int64_t sum = 0;
    for (const engine::Member& member : self.group->members) sum += 1 + member.global_rank;
    EXPECT_EQ(std::count(self.data.begin(), self.data.end(), sum), static_cast<int64_t>(kCount));
    self.is_at_work = true;
    engine::MemberSet members(world.ranks());
    for (const engine::Member& member : self.group->members) members.add(member.global_rank);
    const bool is_known = std::find(at_work_.begin(), at_work_.end(), members) != at_work_.end();
    if (!is_known) at_work_.push_back(members);
    world.at_rank(world.now() + 40 * kMillisecond, rank, [this, rank] { reduce(rank); });
  }

  std::vector<Survivor> ranks_;  // the engines complete what is in them
  std::vector<engine::MemberSet> at_work_;  // the ranks of communicators that reduced

 public:
  SimWorld world;
};

struct Faults {
  std::string text;
  bool is_mild = true;  // no living rank may be given up
  Nanoseconds end = 0;
};

Nanoseconds draw(std::mt19937_64& random, Nanoseconds least, Nanoseconds most) {
  return least + static_cast<Nanoseconds>(random() % static_cast<uint64_t>(most - least));
}

void pause(Job& job, int rank, Nanoseconds at, Nanoseconds length, Faults& faults) {
  faults.text += "\nrank " + std::to_string(rank) + " stands still at " +
                 std::to_string(at / kMicrosecond) + " us for " +
                 std::to_string(length / kMicrosecond) + " us";
  faults.end = std::max(faults.end, at + length);
  job.world.at(at, [&job, rank, length] { job.world.pause(rank, length); });
}

Faults add_faults(Job& job, std::mt19937_64& random) {
  Faults faults;
  const int ranks = job.world.ranks();
  const auto any_rank = [&] { return static_cast<int>(random() % static_cast<uint64_t>(ranks)); };
  for (uint64_t left = 1 + random() % 4; left > 0; --left) {
    const Nanoseconds at = draw(random, 0, random() % 2 == 0 ? 2 * kMillisecond : 300 * kMillisecond);
    const int rank = any_rank();
    faults.end = std::max(faults.end, at);
    switch (random() % 6) {
      case 0:
      case 1:
        faults.text += "\nrank " + std::to_string(rank) + " dies at " +
                       std::to_string(at / kMicrosecond) + " us";
        job.world.at(at, [&job, rank] { job.world.kill(rank); });
        break;
      case 2:
        pause(job, rank, at, draw(random, kMillisecond, kShortPause), faults);
        break;
      case 3:
        faults.is_mild = false;
        pause(job, rank, at, draw(random, kShortPause, 5 * kPeerDeadline), faults);
        break;
      case 4: {  // the machine
        const Nanoseconds length = draw(random, kSecond, 5 * kPeerDeadline);
        for (int each = 0; each < ranks; ++each) pause(job, each, at, length, faults);
        break;
      }
      default: {
        const int other = (rank + 1) % ranks;
        const PathName path{std::min(rank, other), std::max(rank, other),
                            static_cast<int>(random() % static_cast<uint64_t>(job.world.rails()))};
        faults.text += "\nrail " + std::to_string(path.rail) + " of ranks " + std::to_string(path.low) +
                       " and " + std::to_string(path.high) + " breaks at " +
                       std::to_string(at / kMicrosecond) + " us";
        job.world.at(at, [&job, path] { job.world.reset(path, kMillisecond); });
      }
    }
  }
  return faults;
}

std::string run(uint64_t seed) {
  std::mt19937_64 random(seed);
  WorldOptions options;
  options.ranks = 2 + static_cast<int>(random() % 4);
  options.rails = 1 + static_cast<int>(random() % 2);
  options.seed = seed;
  options.peer_deadline = kPeerDeadline;
  options.on_demand = random() % 4 != 0;
  const bool begins_with_shrink = random() % 2 == 0;
  Job job(options, begins_with_shrink);
  const Faults faults = add_faults(job, random);
  std::string about = "seed " + std::to_string(seed) + (options.on_demand ? ", on demand" : "") +
                      (begins_with_shrink ? ", shrink at once" : "") + faults.text;
  const auto over = [&] {
    return (job.world.now() > faults.end && job.is_settled()) || job.world.steps() > kStepsMax;
  };
  job.world.run_until(over, faults.end + kSettledWithin);
  if (!job.is_settled()) return about + "\nhangs:" + job.describe();
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (faults.is_mild && job.has_ended(rank)) return about + "\ngave up:" + job.describe();
  }
  return "";
}

// ------------------------------------------------------------------------------------- partitions

struct Partition {
  std::vector<std::pair<int, int>> pairs;  // that cannot talk on any rail
  Nanoseconds begin = 0;
  Nanoseconds length = 0;
  bool is_for_good = false;
};

// A network in two or three parts, or any pairs.
Partition draw_partition(std::mt19937_64& random, int ranks) {
  Partition partition;
  const bool is_clean = random() % 2 == 0;
  const uint64_t parts = 2 + random() % 2;
  const uint64_t one_in = 2 + random() % 5;
  std::vector<uint64_t> part_of;
  for (int rank = 0; rank < ranks; ++rank) part_of.push_back(random() % parts);
  for (int one = 0; one < ranks; ++one) {
    for (int other = one + 1; other < ranks; ++other) {
      const bool apart = part_of[static_cast<size_t>(one)] != part_of[static_cast<size_t>(other)];
      if (is_clean ? apart : random() % one_in == 0) partition.pairs.emplace_back(one, other);
    }
  }
  partition.begin = draw(random, 0, random() % 2 == 0 ? 2 * kMillisecond : 300 * kMillisecond);
  partition.length = draw(random, 50 * kMillisecond, kPeerDeadline);
  partition.is_for_good = random() % 2 == 0;
  return partition;
}

void set_partition(Job& job, const Partition& partition, bool on) {
  for (const auto& [one, other] : partition.pairs) {
    for (int rail = 0; rail < job.world.rails(); ++rail) {
      for (const int to : {0, 1}) job.world.network().set_hole({one, other, rail}, to, on);
    }
  }
}

// Who goes on by the rule; empty: nobody, before others have ended after their error.
engine::MemberSet by_the_rule(const Partition& partition, int ranks) {
  engine::BrokenPairs pairs(ranks);
  for (const auto& [one, other] : partition.pairs) {
    engine::MemberSet lost(ranks);
    lost.add(other);
    pairs.add(one, lost);
  }
  const engine::MemberSet largest = pairs.largest(engine::MemberSet::all(ranks));
  const int twice = 2 * largest.count();
  const bool is_quorum = twice > ranks || (twice == ranks && largest.has(0));
  return is_quorum ? largest : engine::MemberSet(ranks);
}

std::string run_partition(uint64_t seed) {
  std::mt19937_64 random(seed / 2);  // each twice, in different orders
  WorldOptions options;
  options.ranks = 2 + static_cast<int>(random() % 8);
  options.rails = 1 + static_cast<int>(random() % 2);
  options.seed = seed;
  options.peer_deadline = kPeerDeadline;
  options.on_demand = random() % 4 == 0;
  const Partition partition = draw_partition(random, options.ranks);
  const bool kills = random() % 4 == 0;
  const int victim = static_cast<int>(random() % static_cast<uint64_t>(options.ranks));
  const Nanoseconds killed_at = draw(random, 0, kPeerDeadline / 2);
  Job job(options, random() % 4 == 0);
  job.world.at(partition.begin, [&] { set_partition(job, partition, true); });
  if (!partition.is_for_good) {
    job.world.at(partition.begin + partition.length, [&] { set_partition(job, partition, false); });
  }
  if (kills) job.world.at(killed_at, [&] { job.world.kill(victim); });
  const std::string about = "seed " + std::to_string(seed) + (options.on_demand ? ", on demand" : "") +
                            (kills ? ", a kill" : "") + ", partition of " +
                            ::testing::PrintToString(partition.pairs) + " at " +
                            std::to_string(partition.begin / kMicrosecond) + " us" +
                            (partition.is_for_good ? "" : ", repaired");
  const Nanoseconds end = partition.begin + std::max(partition.length, killed_at) + kPeerDeadline;
  const auto over = [&] {
    return (job.world.now() > end && job.is_settled()) || job.world.steps() > kStepsMax;
  };
  job.world.run_until(over, end + kSettledWithin);
  if (const std::string split = job.split(); !split.empty()) return about + "\nsplit:" + split;
  if (!job.is_settled()) return about + "\nhangs:" + job.describe();
  const engine::MemberSet going_on = by_the_rule(partition, options.ranks);
  // On demand ranks that do not need each other notice nothing.
  if (kills || !partition.is_for_good || going_on.is_empty() || options.on_demand) return "";
  for (int rank = 0; rank < options.ranks; ++rank) {
    if (job.has_ended(rank) != going_on.has(rank)) continue;
    return about + "\nnot" + Job::describe(going_on) + ":" + job.describe();
  }
  return "";
}

void run_seeds(std::string (*run_one)(uint64_t seed), uint64_t count) {
  int failures = 0;
  const uint64_t first = seed_range().first;
  for (uint64_t seed = first; seed < first + count && failures < 5; ++seed) {
    const std::string wrong = run_one(seed);
    if (wrong.empty()) continue;
    ++failures;
    ADD_FAILURE() << wrong;
  }
}

TEST(ShrinkSimulation, WhoeverIsLeftWorksOn) { run_seeds(run, seed_range().count); }

// These histories are longer.
TEST(ShrinkSimulation, OnePartOfAPartitionedNetworkWorksOn) {
  run_seeds(run_partition, (seed_range().count + 1) / 2);
}

}  // namespace
}  // namespace nezha::simulation
