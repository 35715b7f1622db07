// Collectives between hosts with several ranks: which algorithms are chosen, right results by all of them
// on all layouts, and the same bits from run to run. Hosts are told apart by `host_id`: all are this one.
#include <gtest/gtest.h>

#include <set>

#include "base/json.h"
#include "schedule/hierarchy.h"
#include "support/all_reduce_case.h"
#include "support/block_case.h"
#include "support/cases.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using Layout = std::vector<int>;

// Ranks of a host together, in turn, and hosts that differ.
const std::vector<Layout> kLayouts = {{0, 0, 1, 1}, {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 1, 1, 2, 2, 2, 2}};

std::string name_of_layout(const ::testing::TestParamInfo<Layout>& layout) {
  std::string name = "on";
  for (const int host : layout.param) name += std::to_string(host);
  return name;
}

WorldOptions on(const Layout& layout, int rails = 2, const std::string& config = "") {
  WorldOptions options;
  options.ranks = static_cast<int>(layout.size());
  options.rails = rails;
  options.config = config;
  options.hosts = layout;
  return options;
}

class HierarchicalSuite : public ::testing::TestWithParam<Layout> {};

TEST_P(HierarchicalSuite, AllReduceIsRightForEveryKind) {
  World world(on(GetParam()));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<AllReduceCase> cases;
  uint64_t turn = 0;
  for (const Algorithm algorithm :
       {Algorithm::hierarchical, Algorithm::leaders, Algorithm::automatic}) {
    for (size_t dtype = 0; dtype < kDtypeCount; ++dtype) {
      for (size_t op = 0; op < kReduceOpCount; ++op, ++turn) {
        if (!reduce_supported(static_cast<Dtype>(dtype), static_cast<ReduceOp>(op))) continue;
        AllReduceCase at;
        at.algorithm = algorithm;
        at.dtype = static_cast<Dtype>(dtype);
        at.op = static_cast<ReduceOp>(op);
        at.count = std::array<uint64_t, 5>{0, 1, 6, 1000, 40'001}[turn % 5];
        at.in_place = turn % 2 == 0;
        at.offset = turn % 3 == 0 ? 1 : 0;
        fill(at, world.size(), turn);
        cases.push_back(std::move(at));
      }
    }
  }
  EXPECT_EQ(run_cases(world, cases), "");
  for (const AllReduceCase& at : cases) EXPECT_EQ(check_equal(at), "");
}

TEST_P(HierarchicalSuite, BlocksAreRight) {
  World world(on(GetParam()));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<BlockCase> cases;
  for (const schedule::HierarchyEntry& entry : schedule::hierarchies()) {
    const bool has_blocks = entry.collective == Collective::all_gather ||
                            entry.collective == Collective::reduce_scatter;
    if (!has_blocks && entry.collective != Collective::reduce) continue;
    for (const Algorithm algorithm : {entry.algorithm, Algorithm::automatic}) {
      for (uint64_t turn = 0; turn < 9; ++turn) {
        BlockCase at;
        at.collective = entry.collective;
        at.algorithm = algorithm;
        at.dtype = turn % 2 == 0 ? Dtype::float32 : Dtype::bfloat16;
        at.op = turn % 3 == 0 ? ReduceOp::avg : turn % 3 == 1 ? ReduceOp::premul_sum : ReduceOp::max;
        at.in_place = turn % 2 == 1;
        at.offset = turn % 3 == 0 ? 1 : 0;
        at.root = has_blocks ? 0 : static_cast<int>(turn) % world.size();
        at.with_counts = has_blocks && turn > 2;
        const uint64_t count = std::array<uint64_t, 4>{0, 1, 997, 40'003}[turn % 4];
        at.counts = !has_blocks ? Counts{count}
                    : at.with_counts ? unequal_counts(world.size(), turn)
                                     : equal_counts(world.size(), count);
        cases.push_back(std::move(at));
      }
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) fill(cases[i], world.size(), i);
  EXPECT_EQ(run_cases(world, cases), "");
}

TEST_P(HierarchicalSuite, AllToAllIsRight) {
  World world(on(GetParam()));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<BlockCase> cases;
  for (const Algorithm algorithm : {Algorithm::leaders, Algorithm::columns, Algorithm::hierarchical,
                                    Algorithm::pairwise, Algorithm::automatic}) {
    for (const uint64_t count : {0, 1, 3, 997, 20'011}) {
      BlockCase at;
      at.collective = Collective::all_to_all;
      at.algorithm = algorithm;
      at.dtype = count % 3 == 0 ? Dtype::float64 : Dtype::uint8;
      at.matrix.assign(static_cast<size_t>(world.size()), equal_counts(world.size(), count));
      at.offset = count % 2;
      cases.push_back(std::move(at));
    }
  }
  for (size_t i = 0; i < cases.size(); ++i) fill(cases[i], world.size(), i);
  EXPECT_EQ(run_cases(world, cases), "");
  const std::set<std::string> all{"columns", "hierarchical", "leaders", "pairwise"};
  EXPECT_EQ(algorithms_used(world.comm(0)), all);
}

TEST_P(HierarchicalSuite, BroadcastFromEveryRootAndBarrier) {
  World world(on(GetParam()));
  const auto outcomes = world.run([&](Member& self) {
    for (const Algorithm algorithm :
         {Algorithm::hierarchical, Algorithm::leaders, Algorithm::automatic}) {
      for (const uint64_t count : {1, 300'000}) {
        for (int root = 0; root < world.size(); ++root) {
          self.doing("broadcast from " + std::to_string(root));
          std::vector<int32_t> data(count, self.rank == root ? root + 7 : -1);
          context::CallOptions options;
          options.algorithm = algorithm;
          NEZHA_RETURN_IF_ERROR(self.comm->broadcast(data.data(), count, Dtype::int32, root, options,
                                                     nullptr));
          EXPECT_EQ(data, std::vector<int32_t>(count, root + 7));
        }
      }
      if (algorithm == Algorithm::hierarchical) continue;
      context::CallOptions options;
      options.algorithm = algorithm;
      for (int i = 0; i < 50; ++i) NEZHA_RETURN_IF_ERROR(self.comm->barrier(options, nullptr));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

INSTANTIATE_TEST_SUITE_P(Layouts, HierarchicalSuite, ::testing::ValuesIn(kLayouts), name_of_layout);

TEST(Hierarchical, ShortOnesGoByLeadersAndLongOnesByShards) {
  for (const Layout& layout : {Layout{0, 0, 0, 1, 1, 1}, Layout{0, 1, 1, 2, 2, 2, 2}}) {
    World world(on(layout));
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    for (const uint64_t count : {uint64_t{1}, uint64_t{1} << 20}) {
      std::vector<AllReduceCase> cases(1);
      cases[0].count = count;
      fill(cases[0], world.size(), 3);
      EXPECT_EQ(run_cases(world, cases), "");
    }
    for (int rank = 0; rank < world.size(); ++rank) {
      EXPECT_EQ(algorithms_used(world.comm(rank)), (std::set<std::string>{"leaders", "hierarchical"}));
    }
  }
}

// In the memory of a host the order of additions is another one than over its connections.
TEST(Hierarchical, GivesTheSameBitsWhateverCarriesThem) {
  const auto run = [](Algorithm algorithm, int rails, const std::string& config) {
    World world(on({0, 0, 1, 1, 1}, rails, config));
    std::vector<AllReduceCase> cases(1);
    AllReduceCase& at = cases[0];
    at.algorithm = algorithm;
    at.count = 50'021;
    fill_unevenly(at, world.size(), 11);
    const Status outcome = call_all(world, cases);
    EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
    EXPECT_EQ(check_equal(at), "");
    return at.outputs[0];
  };
  for (const Algorithm algorithm : {Algorithm::hierarchical, Algorithm::leaders}) {
    for (const std::string memory : {"shm=off\n", "shm=on\n"}) {
      const auto first = run(algorithm, 1, memory);
      EXPECT_TRUE(first == run(algorithm, 2, memory + "policy=round_robin\n"));
      EXPECT_TRUE(first == run(algorithm, 2, memory + "credit_bytes=65536\nchunk_bytes=4096\n"));
    }
  }
}

TEST(Hierarchical, IsNotChosenWhereHostsSayNothingOrWhenSwitchedOff) {
  const std::pair<Layout, const char*> worlds[] = {
      {{0, 0, 0, 0}, ""}, {{0, 1, 2, 3}, ""}, {{0, 0, 1, 1}, "hierarchy=off\n"}};
  for (const auto& [layout, config] : worlds) {
    World world(on(layout, 1, config));
    for (const uint64_t count : {uint64_t{8}, uint64_t{1} << 20}) {
      std::vector<AllReduceCase> cases(1);
      cases[0].count = count;
      fill(cases[0], world.size(), 3);
      EXPECT_EQ(run_cases(world, cases), "");
    }
    for (const std::string& name : algorithms_used(world.comm(0))) {
      EXPECT_TRUE(name != "leaders" && name != "hierarchical") << name;
    }
    const auto outcomes = world.run([](Member& self) {
      float value = 1;
      context::CallOptions options;
      options.algorithm = Algorithm::leaders;
      return self.comm->all_reduce(&value, &value, 1, Dtype::float32, ReduceOp::sum, options, nullptr);
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::unsupported);
      EXPECT_NE(outcome.message().find("several hosts with several ranks"), std::string::npos)
          << outcome.message();
    }
  }
}

struct Bytes {
  int64_t in_memory = 0;
  int64_t in_frames = 0;  // payload on all rails
};

Bytes bytes_of(context::Communicator& comm) {
  Bytes bytes{json_number(comm.context().stats_json(), "memory_bytes_sent"), 0};
  auto rails = parse_json(comm.context().rails_json());
  for (const JsonValue& rail : rails->items()) bytes.in_frames += rail.at("shm_bytes_sent").integer_or(0);
  return bytes;
}

// Nothing passes in frames between ranks of a host whose phases are in memory.
TEST(Hierarchical, PhasesInsideHostsPassThroughTheirMemory) {
  World world(on({0, 1, 1, 2, 2, 2, 2}, 2, "shm=on\n"));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  constexpr uint64_t kCount = 70'000;
  const auto outcomes = world.run([](Member& self) {
    for (const Algorithm algorithm : {Algorithm::leaders, Algorithm::hierarchical}) {
      const Bytes before = bytes_of(*self.comm);
      std::vector<int64_t> data(kCount, self.rank);
      context::CallOptions options;
      options.algorithm = algorithm;
      NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data.data(), data.data(), kCount, Dtype::int64,
                                                  ReduceOp::sum, options, nullptr));
      EXPECT_EQ(data, std::vector<int64_t>(kCount, 21));
      const Bytes after = bytes_of(*self.comm);
      const auto all = static_cast<int64_t>(kCount * sizeof(int64_t));
      const int64_t put = after.in_memory - before.in_memory;
      EXPECT_TRUE(self.rank == 0 ? put == 0 : put == all) << put << " by rank " << self.rank;
      EXPECT_LT(after.in_frames - before.in_frames, 20'000) << self.rank;
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// The same of blocks. Chunks that are far shorter than a piece in the memory, and a window of few of
// them: their sums wait until they are open.
TEST(Hierarchical, BlocksAreCollectedInMemory) {
  World world(on({0, 1, 1, 2, 2, 2, 2}, 2, "shm=on\nchunk_bytes=4096\ncredit_bytes=65536\n"));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const std::pair<Collective, Algorithm> kinds[] = {
      {Collective::reduce_scatter, Algorithm::hierarchical},
      {Collective::all_gather, Algorithm::leaders}};
  for (const auto& [collective, algorithm] : kinds) {
    std::vector<BlockCase> cases;
    for (const uint64_t count : {uint64_t{1}, uint64_t{60}, uint64_t{90'001}}) {
      if (algorithm == Algorithm::leaders && count > 60) continue;
      BlockCase at;
      at.collective = collective;
      at.algorithm = algorithm;
      at.dtype = Dtype::int64;
      at.op = ReduceOp::sum;
      at.counts = equal_counts(world.size(), count);
      fill(at, world.size(), count);
      cases.push_back(std::move(at));
    }
    std::vector<Bytes> before;
    for (int rank = 0; rank < world.size(); ++rank) before.push_back(bytes_of(world.comm(rank)));
    EXPECT_EQ(run_cases(world, cases), "") << name_of(collective);
    for (int rank = 1; rank < world.size(); ++rank) {
      const Bytes after = bytes_of(world.comm(rank));
      const Bytes& was = before[static_cast<size_t>(rank)];
      EXPECT_GT(after.in_memory, was.in_memory) << name_of(collective) << rank;
      EXPECT_LT(after.in_frames - was.in_frames, 20'000) << name_of(collective) << rank;
    }
  }
}

// Short ones run beside each other, so that several wait for their turn in the memory; long ones follow.
TEST(Hierarchical, ManyAtOnceThroughMemory) {
  World world(on({0, 0, 0, 1, 1}, 1, "shm=on\n"));
  const auto outcomes = world.run([](Member& self) {
    constexpr size_t kMany = 40;
    for (int repeat = 0; repeat < 3; ++repeat) {
      std::vector<engine::Work> works(kMany);
      std::vector<std::vector<int64_t>> data;
      for (size_t i = 0; i < kMany; ++i) data.emplace_back(i % 10 == 9 ? 50'000 : i * 7, self.rank);
      for (size_t i = 0; i < kMany; ++i) {
        NEZHA_RETURN_IF_ERROR(self.comm->all_reduce(data[i].data(), data[i].data(), data[i].size(),
                                                    Dtype::int64, ReduceOp::sum, {}, &works[i]));
      }
      for (size_t i = 0; i < kMany; ++i) {
        self.comm->wait(works[i], kNever);
        NEZHA_RETURN_IF_ERROR(works[i].status());
        EXPECT_EQ(data[i], std::vector<int64_t>(data[i].size(), 10));
      }
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// One of a host that differs, first, in the middle or last there.
TEST(Hierarchical, CallsThatDifferAreToldInMemory) {
  for (const auto& [odd, scatters] : {std::pair(2, false), {3, false}, {4, false}, {3, true}}) {
    for (const uint64_t count : {uint64_t{10}, uint64_t{200'000}}) {
      World world(on({0, 0, 1, 1, 1}, 1, "shm=on\n"));
      const uint64_t all = scatters ? 5 * (count + 1) : count + 1;
      const auto outcomes = world.run([&](Member& self) {
        std::vector<float> data(all, 1);
        const uint64_t mine = count + (self.rank == odd ? 1 : 0);
        if (scatters) {
          std::vector<float> block(count + 1);
          context::CallOptions options;
          options.algorithm = Algorithm::hierarchical;
          return self.comm->reduce_scatter(data.data(), block.data(), mine, Dtype::float32,
                                           ReduceOp::sum, options, nullptr);
        }
        return self.comm->all_reduce(data.data(), data.data(), mine, Dtype::float32, ReduceOp::sum, {},
                                     nullptr);
      });
      for (const Status& outcome : outcomes) {
        EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
        const std::string& text = outcome.message();
        EXPECT_NE(text.find(std::to_string(all)), std::string::npos) << text;
      }
    }
  }
}

// A part of the world has hosts of its own: those of its members.
TEST(Hierarchical, PartsOfTheWorldHaveTheHostsOfTheirMembers) {
  World world(on({0, 0, 0, 1, 1, 1, 2}, 1));
  const auto outcomes = world.run([](Member& self) {
    auto part = self.comm->split(self.rank % 2, 0);  // ranks 0 2 4 6 on hosts 0 0 1 2; 1 3 5 on 0 1 1
    if (!part) return part.status();
    std::vector<int64_t> data(1000, self.rank);
    context::CallOptions options;
    options.algorithm = Algorithm::hierarchical;
    NEZHA_RETURN_IF_ERROR((*part)->all_reduce(data.data(), data.data(), data.size(), Dtype::int64,
                                              ReduceOp::sum, options, nullptr));
    EXPECT_EQ(data, std::vector<int64_t>(1000, self.rank % 2 == 0 ? 12 : 9));
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

}  // namespace
}  // namespace nezha::testing
