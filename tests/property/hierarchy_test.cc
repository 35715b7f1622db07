// Every composition for hosts keeps its promise on 1 to 8 hosts of 1 to 8 ranks, on hosts that differ,
// and for ranks in any order: proved once, and rehearsed on the model of the engine with least credit.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "proof/contract.h"
#include "proof/verifier.h"
#include "proofs/rehearsal.h"
#include "property/schedule_worlds.h"
#include "schedule/hierarchy.h"
#include "schedule/plan.h"

namespace nezha::schedule {
namespace {

// Hosts of these many ranks, one after the other.
std::vector<int> in_order(const std::vector<int>& sizes) {
  std::vector<int> host_of;
  for (size_t host = 0; host < sizes.size(); ++host) {
    host_of.insert(host_of.end(), static_cast<size_t>(sizes[host]), static_cast<int>(host));
  }
  return host_of;
}

std::vector<int> shuffled(std::vector<int> host_of, unsigned seed) {
  std::mt19937 random(seed);
  for (size_t i = host_of.size(); i > 1; --i) std::swap(host_of[i - 1], host_of[random() % i]);
  return host_of;
}

std::vector<std::vector<int>> uniform_layouts() {
  std::vector<std::vector<int>> layouts;
  for (int hosts = 1; hosts <= 8; ++hosts) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      layouts.push_back(in_order(std::vector<int>(static_cast<size_t>(hosts), ranks)));
    }
  }
  return layouts;
}

std::vector<std::vector<int>> odd_layouts() {
  std::vector<std::vector<int>> layouts;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {1, 2, 4}, {4, 2, 1}, {1, 8}, {8, 1}, {1, 1, 1, 8}, {2, 3}, {3, 1, 2}, {12, 1, 1}, {1, 12},
           {5, 5, 2}, {1, 1, 2}, {7, 3, 5, 1}, {16, 16}, {9, 10}}) {
    layouts.push_back(in_order(sizes));
    for (unsigned seed = 1; seed <= 2; ++seed) layouts.push_back(shuffled(in_order(sizes), seed));
  }
  layouts.push_back({0, 1, 0, 1});                          // round robin
  layouts.push_back({0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  for (unsigned seed = 1; seed <= 3; ++seed) {
    layouts.push_back(shuffled(in_order({4, 4, 4, 4}), seed));
  }
  return layouts;
}

std::string describe(const Hosts& hosts, const HierarchyEntry& entry, int root) {
  std::string text(name_of(entry.collective));
  text += " by " + std::string(name_of(entry.algorithm)) + ", root " + std::to_string(root) + ", hosts";
  for (int rank = 0; rank < hosts.ranks(); ++rank) text += " " + std::to_string(hosts.host_of(rank));
  return text;
}

World world_on(const HierarchyEntry& entry, const Hosts& hosts, int root) {
  World world;
  for (int rank = 0; rank < hosts.ranks(); ++rank) world.push_back(entry.build(hosts, rank, root));
  return world;
}

template <class Visit>
void on_each_layout(const HierarchyEntry& entry, const std::vector<std::vector<int>>& layouts,
                    Visit visit) {
  for (const std::vector<int>& layout : layouts) {
    const Hosts hosts(layout);
    std::vector<int> roots = {0};
    if (has_root(entry.collective) && hosts.ranks() > 1) {
      roots.push_back(hosts.ranks() / 2);
      roots.push_back(hosts.ranks() - 1);
    }
    for (const int root : roots) {
      SCOPED_TRACE(describe(hosts, entry, root));
      visit(hosts, world_on(entry, hosts, root));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

class Hierarchy : public ::testing::TestWithParam<HierarchyEntry> {
 protected:
  void prove(const std::vector<std::vector<int>>& layouts) {
    on_each_layout(GetParam(), layouts, [](const Hosts& hosts, const World& world) {
      const Result<Proof> proof = verify(world);
      ASSERT_TRUE(proof) << proof.status().to_string();
      const Shape shape = GetParam().shape(hosts);
      ASSERT_EQ(shape.slices, world[0].slices());
      for (const Program& program : world[0].programs) ASSERT_EQ(shape.parts, program.parts);
      EXPECT_TRUE(shape.exchanges || proof.value().consumes_on_arrival);
      Result<Contract> contract = Contract::of(world);
      ASSERT_TRUE(contract) << contract.status().to_string();
      EXPECT_TRUE(world.size() == 1 || contract->geometry() == shape.geometry);
      // What the plan keeps within the credit.
      EXPECT_LE(proof.value().pair_load, shape.pair_load + 1e-9);
      EXPECT_TRUE(!shape.exchanges || proof.value().pair_turn < shape.pair_turn + 1e-9);
      EXPECT_LE(proof.value().largest_message, 1 + 1e-9);
    });
  }
};

// Algorithms with phases that are carried out in the memory of a host.
std::vector<HierarchyEntry> with_owners() {
  std::vector<HierarchyEntry> found;
  for (const HierarchyEntry& entry : hierarchies()) {
    if (entry.owner != nullptr) found.push_back(entry);
  }
  return found;
}

class HierarchyInMemory : public Hierarchy {};

TEST_P(Hierarchy, IsProvedOnOneToEightHostsOfOneToEightRanks) { prove(uniform_layouts()); }

TEST_P(Hierarchy, IsProvedOnHostsThatDifferAndInAnyOrder) { prove(odd_layouts()); }

TEST_P(Hierarchy, FinishesUnderTheLeastCredit) {
  const std::vector<std::vector<int>> few = {
      in_order({1, 2, 4}), in_order({4, 4, 4, 4}), in_order({2, 2}), in_order({8, 2}),
      {0, 1, 0, 1}, {0, 1, 2, 0, 1, 2}, in_order({3, 3, 3}), in_order({1, 3})};
  on_each_layout(GetParam(), few, [](const Hosts&, const World& world) {
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof);
    for (uint32_t seed = 0; seed < 4; ++seed) {
      RehearsalOptions options;
      options.seed = seed * 64 + world.size();
      options.window = seed == 3 ? 2 * world[0].slices() : seed + 1;
      options.chunks_per_slice = seed == 2 ? 5 : 2;
      options.credit = credit_needed(proof.value(), options.window);
      const Status status = rehearse(world, options);
      ASSERT_TRUE(status.is_ok()) << status.to_string();
    }
  });
}

// The phases in memory of a slice, written as messages around its steps: what the memory does for the
// owner and the others, for the verifier.
Program with_messages(const Schedule& schedule, const InsidePhases& inside, uint32_t slice, int place,
                      const std::vector<int>& here) {
  constexpr uint16_t kCollect = 60'000, kHandOut = 60'001;
  Program all;
  const Program& between = schedule.programs[slice];
  const bool is_barrier = schedule.collective == Collective::barrier;
  const bool is_source = schedule.collective == Collective::broadcast && schedule.rank == schedule.root;
  all.parts = between.parts;
  const auto owner = static_cast<size_t>(inside.owners[slice]);
  const bool owns = static_cast<size_t>(place) == owner;
  // What is collected of an all_gather are blocks.
  const bool is_gather = schedule.collective == Collective::all_gather && inside.collects;
  const auto add = [&](StepKind kind, size_t peer, uint16_t stage, bool from_input) {
    Step step;
    const bool is_collected = stage == kCollect;
    const bool is_sum = !is_barrier && !is_gather;
    step.kind = kind == StepKind::recv_reduce && !is_sum ? StepKind::recv : kind;
    step.from_input = from_input && !is_barrier && (is_sum || kind == StepKind::send);
    step.in_workspace = is_collected && between.works_in_workspace();
    step.stage = stage;
    step.peer = here[peer];
    step.part_end = is_barrier ? 0 : all.parts;
    if (is_gather && is_collected) {
      step.part_begin = static_cast<uint32_t>(kind == StepKind::send ? schedule.rank : here[peer]);
      step.part_end = step.part_begin + 1;
    }
    all.steps.push_back(step);
  };
  const auto end_round = [&] {
    if (all.round_ends.empty() || all.round_ends.back() < all.steps.size()) {
      all.round_ends.push_back(static_cast<uint32_t>(all.steps.size()));
    }
  };
  if (inside.collects && !owns) add(StepKind::send, owner, kCollect, true);
  for (size_t peer = 0; inside.collects && owns && peer < here.size(); ++peer) {
    if (peer == owner) continue;
    add(StepKind::recv_reduce, peer, kCollect, all.steps.empty());
    end_round();
  }
  if (!all.steps.empty()) end_round();
  for (uint32_t round = 0; round < between.round_count(); ++round) {
    for (const Step& step : between.round(round)) all.steps.push_back(step);
    end_round();
  }
  if (inside.hands_out && !owns) add(StepKind::recv, owner, kHandOut, false);
  for (size_t peer = 0; inside.hands_out && owns && peer < here.size(); ++peer) {
    if (peer != owner) add(StepKind::send, peer, kHandOut, is_source);
  }
  if (!all.steps.empty()) end_round();
  return all;
}

// Hosts of which every other one has memory: what their ranks do there, and the steps that remain, are
// together as good as the messages.
TEST_P(HierarchyInMemory, IsProvedWhereSomeHostsHaveMemory) {
  const HierarchyEntry& entry = GetParam();
  std::vector<std::vector<int>> layouts = odd_layouts();
  layouts.push_back(in_order({4, 4, 4, 4}));
  layouts.push_back(in_order({2, 2}));
  on_each_layout(entry, layouts, [&](const Hosts& hosts, World world) {
    size_t in_memory = 0;
    for (Schedule& schedule : world) {
      const int host = hosts.host_of(schedule.rank);
      const std::vector<int>& here = hosts.ranks_of(host);
      if (host % 2 != 0 || here.size() < 2) continue;
      schedule = between_hosts(entry, hosts, std::move(schedule));
      ASSERT_EQ(schedule.inside.owners.size(), schedule.slices());
      const InsidePhases inside = std::exchange(schedule.inside, {});
      const auto place = std::find(here.begin(), here.end(), schedule.rank) - here.begin();
      for (uint32_t slice = 0; slice < schedule.slices(); ++slice) {
        Program& program = schedule.programs[slice];
        for (const Step& step : program.steps) {
          const bool is_elsewhere = step.peer < 0 || hosts.host_of(step.peer) != host;
          ASSERT_TRUE(is_elsewhere && (step.peer < 0 || inside.owners[slice] == place));
        }
        program = with_messages(schedule, inside, slice, static_cast<int>(place), here);
        ++in_memory;
      }
    }
    if (in_memory == 0) return;
    const Result<Proof> proof = verify(world);
    ASSERT_TRUE(proof) << proof.status().to_string();
  });
}

std::string name_of_row(const ::testing::TestParamInfo<HierarchyEntry>& entry) {
  return std::string(name_of(entry.param.collective)) + "_" +
         std::string(name_of(entry.param.algorithm));
}

INSTANTIATE_TEST_SUITE_P(All, Hierarchy,
                         ::testing::ValuesIn(hierarchies().begin(), hierarchies().end()), name_of_row);
INSTANTIATE_TEST_SUITE_P(All, HierarchyInMemory, ::testing::ValuesIn(with_owners()), name_of_row);

// Bytes that a host sends to others or takes from them, over those of the operation, as the steps say.
double moved_by_busiest_host(const Hosts& hosts, const World& world) {
  std::vector<double> sent(static_cast<size_t>(hosts.hosts()), 0);
  std::vector<double> taken = sent;
  for (const Schedule& schedule : world) {
    for (const Program& program : schedule.programs) {
      for (const Step& step : program.steps) {
        if (step.kind != StepKind::send) continue;
        const auto from = static_cast<size_t>(hosts.host_of(schedule.rank));
        const auto to = static_cast<size_t>(hosts.host_of(step.peer));
        if (from == to) continue;
        const double parts = step.part_end - step.part_begin;
        sent[from] += parts / program.parts / schedule.slices();
        taken[to] += parts / program.parts / schedule.slices();
      }
    }
  }
  return std::max(*std::max_element(sent.begin(), sent.end()),
                  *std::max_element(taken.begin(), taken.end()));
}

// The costs by which plans choose are those of the steps.
TEST(HierarchyCost, IsWhatAHostMovesToOthers) {
  for (const HierarchyEntry& entry : hierarchies()) {
    if (entry.collective == Collective::barrier) continue;
    for (const auto& layout : {in_order({4, 4, 4, 4}), in_order({2, 2}), in_order({2, 2, 2, 2})}) {
      const Hosts hosts(layout);
      SCOPED_TRACE(describe(hosts, entry, 0));
      const bool has_rows = entry.shape(hosts).geometry == Geometry::rows;  // each is a whole vector
      const double moved = moved_by_busiest_host(hosts, world_on(entry, hosts, 0));
      EXPECT_NEAR(has_rows ? moved * hosts.ranks() : moved, entry.terms(hosts).bytes_factor, 1e-9);
    }
  }
}

TEST(HierarchyCost, OfARingOverRanksInTurnIsThatOfEveryRank) {
  const AlgorithmEntry& ring = *find_algorithm(Collective::all_reduce, Algorithm::ring);
  const Hosts together(in_order({4, 4, 4, 4}));
  const Hosts apart({0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  for (const Hosts& hosts : {together, apart}) {
    EXPECT_NEAR(moved_by_busiest_host(hosts, make_world(ring, 16, 0)), spread(ring, hosts).bytes_factor,
                1e-9);
  }
  EXPECT_NEAR(spread(ring, together).bytes_factor, 1.875, 1e-9);
  EXPECT_NEAR(spread(ring, apart).bytes_factor, 4 * 1.875, 1e-9);
}

}  // namespace
}  // namespace nezha::schedule
