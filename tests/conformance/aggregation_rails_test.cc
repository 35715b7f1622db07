// Communicators with an aggregation node beside their host rails: results, ways, nodes that die and
// return.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <numeric>
#include <vector>

#include "aggregation/server/aggregator.h"
#include "support/job_key.h"
#include "support/watchdog.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Communicator;

constexpr const char* kAddress = "127.0.0.1";

std::unique_ptr<aggregation::Aggregator> start_node(uint16_t port = 0) {
  aggregation::AggregatorOptions options;
  options.address = kAddress;
  options.port = port;
  auto node = aggregation::Aggregator::start(options);
  EXPECT_TRUE(node) << node.status().to_string();
  return node ? std::move(*node) : nullptr;
}

WorldOptions world_of(int ranks, uint16_t port, const std::string& more = "") {
  WorldOptions options;
  options.ranks = ranks;
  options.config = "aggregator=" + std::string(kAddress) + ":" + std::to_string(port) + "\n" +
                   job_key_line() + more;
  return options;
}

int64_t value_of(int rank, uint64_t i, int round) {
  const uint64_t mixed = i * 7 + static_cast<uint64_t>(rank) * 13 + static_cast<uint64_t>(round) * 5;
  return static_cast<int64_t>(mixed % 97);
}

// One all_reduce whose every element is looked at.
template <class T>
Status add_up(Communicator& comm, uint64_t count, int round, Dtype dtype, bool in_place) {
  std::vector<T> in(count);
  for (uint64_t i = 0; i < count; ++i) in[i] = static_cast<T>(value_of(comm.rank(), i, round));
  std::vector<T> out(in_place ? 0 : count, T(-1));
  T* const result = in_place ? in.data() : out.data();
  NEZHA_RETURN_IF_ERROR(comm.all_reduce(in.data(), result, count, dtype, ReduceOp::sum, {}, nullptr));
  for (uint64_t i = 0; i < count; ++i) {
    int64_t sum = 0;
    for (int rank = 0; rank < comm.world_size(); ++rank) sum += value_of(rank, i, round);
    if (result[i] != static_cast<T>(sum)) {
      return error(Code::internal, "rank %d, round %d: element %llu of %llu is %g, not %lld", comm.rank(),
                   round, static_cast<unsigned long long>(i), static_cast<unsigned long long>(count),
                   static_cast<double>(result[i]), static_cast<long long>(sum));
    }
  }
  return Status::ok();
}

void expect_ok(const std::vector<Status>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank]) << "rank " << rank << ": " << outcomes[rank].to_string();
  }
}

// "name":number
int64_t number(const std::string& json, const std::string& name) {
  const size_t at = json.find("\"" + name + "\":");
  return at == std::string::npos ? -1 : std::stoll(json.substr(at + name.size() + 3));
}

int64_t counter(World& world, const std::string& name) {
  return number(world.comm(0).context().stats_json(), name);
}

bool is_active(Communicator& comm) {
  return comm.context().stats_json().find("\"stage\":\"active\"") != std::string::npos;
}

TEST(AggregationRails, SizesAndTypes) {
  const auto node = start_node();
  World world(world_of(4, node->port()));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([](Member& member) {
    Communicator& comm = *member.comm;
    int round = 0;
    for (const uint64_t count : {1u, 2u, 100u, 4096u, 5000u, 70'000u, 300'001u}) {
      for (int i = 0; i < 12; ++i, ++round) {
        member.doing(std::to_string(count) + " elements, round " + std::to_string(round));
        NEZHA_RETURN_IF_ERROR(add_up<float>(comm, count, round, Dtype::float32, i % 2 == 0));
        NEZHA_RETURN_IF_ERROR(add_up<int64_t>(comm, count, round, Dtype::int64, i % 2 != 0));
        if (i % 4 == 0) NEZHA_RETURN_IF_ERROR(comm.barrier({}, nullptr));
      }
    }
    return Status::ok();
  }));
  // Over one device nothing is cut; the whole ways are both tried.
  const std::string all = world.comm(0).context().stats_json();
  EXPECT_GT(number(all.substr(all.find("communicators")), "operations"), 0) << all;
  EXPECT_EQ(counter(world, "recoveries"), 0);
}

class AggregationShares : public ::testing::TestWithParam<const char*> {};

TEST_P(AggregationShares, AreAsConfigured) {
  const auto node = start_node();
  World world(world_of(3, node->port(), std::string("aggregator_share=") + GetParam()));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([](Member& member) {
    for (int round = 0; round < 20; ++round) {
      for (const uint64_t count : {1u, 63u, 1000u, 100'000u, 700'001u}) {
        member.doing(std::to_string(count) + " elements, round " + std::to_string(round));
        NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, count, round, Dtype::float32, round % 2 == 0));
      }
    }
    return Status::ok();
  }));
  const double share = std::stod(GetParam());
  const std::string all = world.comm(0).context().stats_json();
  const std::string stats = all.substr(all.find("aggregation"));
  EXPECT_EQ(number(stats, "operations_cut") > 0, share > 0 && share < 1) << stats;
  EXPECT_EQ(number(stats, "operations") > 0, share == 1) << stats;
}

INSTANTIATE_TEST_SUITE_P(Shares, AggregationShares, ::testing::Values("0", "0.01", "0.5", "0.99", "1"));

TEST(AggregationRails, ANodeThatDiesLeavesNothingUndone) {
  // A node that is started on a port of its own choice could not come back to it.
  const uint16_t port = start_node()->port();
  auto node = start_node(port);
  World world(world_of(4, port, "aggregator_share=0.5"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  std::atomic<int> reached{0};
  std::thread killer([&] {
    while (reached < 10) std::this_thread::yield();
    node.reset();
  });
  expect_ok(world.run([&](Member& member) {
    for (int round = 0; round < 60; ++round) {
      member.doing("round " + std::to_string(round));
      NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, 400'000, round, Dtype::float32, true));
      NEZHA_RETURN_IF_ERROR(add_up<int32_t>(*member.comm, 3, round, Dtype::int32, false));
      if (member.rank == 0) reached = round;
    }
    return Status::ok();
  }));
  killer.join();
  EXPECT_GE(counter(world, "recoveries"), 1) << world.comm(0).context().stats_json();

  // And back.
  node = start_node(port);
  ASSERT_NE(node, nullptr);
  expect_ok(world.run([&](Member& member) {
    // Until all of them use it again.
    for (int64_t active = 0; active < member.comm->world_size();) {
      active = is_active(*member.comm) ? 1 : 0;
      member.doing("waiting for the node");
      NEZHA_RETURN_IF_ERROR(
          member.comm->all_reduce(&active, &active, 1, Dtype::int64, ReduceOp::sum, {}, nullptr));
    }
    for (int round = 0; round < 100; ++round) {
      member.doing("round " + std::to_string(round) + " after the return");
      NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, 10'000, round, Dtype::float32, true));
    }
    return Status::ok();
  }));
  const std::string stats = world.comm(0).context().stats_json();
  // A session ends, too, when the node's thread gets no processor for the 0.3 s of silence that end one.
  EXPECT_GE(number(stats, "sessions"), 2) << stats;
  EXPECT_EQ(number(stats, "sessions"), number(stats, "sessions_lost") + 1) << stats;
}

TEST(AggregationRails, ManyAtOnceWhenANodeDies) {
  auto node = start_node();
  World world(world_of(3, node->port(), "aggregator_share=0.7"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  std::atomic<bool> begun{false};
  std::thread killer([&] {
    while (!begun) std::this_thread::yield();
    node.reset();
  });
  expect_ok(world.run([&](Member& member) {
    constexpr int kOperations = 200;
    Communicator& comm = *member.comm;
    std::vector<std::vector<int32_t>> data(kOperations);
    std::vector<engine::Work> works(kOperations);
    for (int round = 0; round < kOperations; ++round) {
      auto& values = data[static_cast<size_t>(round)];
      values.resize(round % 3 == 0 ? 1 : 20'000);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<int32_t>(value_of(member.rank, i, round));
      }
      NEZHA_RETURN_IF_ERROR(comm.all_reduce(values.data(), values.data(), values.size(), Dtype::int32,
                                            ReduceOp::sum, {}, &works[static_cast<size_t>(round)]));
      if (round == 40) begun = true;
    }
    for (int round = 0; round < kOperations; ++round) {
      member.doing("waiting for " + std::to_string(round));
      const engine::Work& work = works[static_cast<size_t>(round)];
      comm.wait(work, kNever);
      NEZHA_RETURN_IF_ERROR(work.status());
      const auto& values = data[static_cast<size_t>(round)];
      for (size_t i = 0; i < values.size(); ++i) {
        int64_t sum = 0;
        for (int rank = 0; rank < comm.world_size(); ++rank) sum += value_of(rank, i, round);
        if (values[i] != sum) return error(Code::internal, "operation %d, element %zu", round, i);
      }
    }
    return Status::ok();
  }));
  killer.join();
}

TEST(AggregationRails, PartsOfTheWorld) {
  const auto node = start_node();
  World world(world_of(4, node->port(), "aggregator_share=0.5"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([](Member& member) {
    auto half = member.comm->split(member.rank % 2, 0);
    if (!half) return half.status();
    for (int round = 0; round < 100; ++round) {
      member.doing("round " + std::to_string(round));
      NEZHA_RETURN_IF_ERROR(add_up<float>(**half, 10'000, round, Dtype::float32, true));
      NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, 10'000, round, Dtype::float32, true));
    }
    return Status::ok();
  }));
}

TEST(AggregationRails, CommunicatorsMadeWithoutAMessage) {
  const auto node = start_node();
  World world(world_of(4, node->port(), "aggregator_share=0.5"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([](Member& member) {
    const std::vector<int> pair = {member.rank % 2, member.rank % 2 + 2};
    auto half = member.comm->create(pair, "half");
    if (!half) return half.status();
    auto alone = member.comm->create(std::vector<int>{member.rank}, "alone");
    if (!alone) return alone.status();
    for (int round = 0; round < 100; ++round) {
      member.doing("round " + std::to_string(round));
      NEZHA_RETURN_IF_ERROR(add_up<float>(**half, 10'000, round, Dtype::float32, true));
      NEZHA_RETURN_IF_ERROR(add_up<float>(**alone, 100, round, Dtype::float32, true));
    }
    return Status::ok();
  }));
}

// Errors of the ranks are theirs, whoever found them.
TEST(AggregationRails, RanksThatDisagreeAreTold) {
  const auto node = start_node();
  for (const char* share : {"1", "0.5"}) {
    World world(world_of(3, node->port(), std::string("aggregator_share=") + share));
    ASSERT_TRUE(world.status()) << world.status().to_string();
    const auto outcomes = world.run([](Member& member) {
      NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, 50'000, 0, Dtype::float32, true));
      std::vector<float> data(60'000);
      const uint64_t count = member.rank == 1 ? 60'000 : 50'000;
      return member.comm->all_reduce(data.data(), data.data(), count, Dtype::float32, ReduceOp::sum, {},
                                     nullptr);
    });
    for (const Status& outcome : outcomes) {
      EXPECT_EQ(outcome.code(), Code::mismatch) << outcome.to_string();
    }
  }
}

TEST(AggregationRails, ARankThatDoesNotCallIsNamed) {
  const auto node = start_node();
  World world(world_of(3, node->port(), "aggregator_share=1"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  std::atomic<int> told{0};
  const auto outcomes = world.run([&](Member& member) {
    Communicator& comm = *member.comm;
    NEZHA_RETURN_IF_ERROR(add_up<float>(comm, 1000, 0, Dtype::float32, true));
    if (member.rank == 2) {
      comm.context().loop().drive_until([&] { return told == 2; }, kNever);
      return Status::ok();
    }
    std::vector<float> data(1000);
    context::CallOptions options;
    options.timeout_s = 0.5;
    const Status outcome = comm.all_reduce(data.data(), data.data(), data.size(), Dtype::float32,
                                           ReduceOp::sum, options, nullptr);
    ++told;
    return outcome;
  });
  for (int rank = 0; rank < 2; ++rank) {
    const Status& outcome = outcomes[static_cast<size_t>(rank)];
    EXPECT_EQ(outcome.code(), Code::timed_out) << outcome.to_string();
    EXPECT_NE(outcome.message().find("rank 2"), std::string::npos) << outcome.to_string();
  }
}

TEST(AggregationRails, AbortEndsWhatIsUnderWayAtTheNode) {
  const auto node = start_node();
  World world(world_of(3, node->port(), "aggregator_share=1"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  const auto outcomes = world.run([](Member& member) {
    Communicator& comm = *member.comm;
    NEZHA_RETURN_IF_ERROR(add_up<float>(comm, 1000, 0, Dtype::float32, true));
    std::vector<float> data(100'000);
    engine::Work work;
    if (member.rank != 2) {
      NEZHA_RETURN_IF_ERROR(comm.all_reduce(data.data(), data.data(), data.size(), Dtype::float32,
                                            ReduceOp::sum, {}, &work));
    } else {
      comm.abort();
      return error(Code::aborted, "by itself");
    }
    comm.wait(work, kNever);
    return work.status();
  });
  for (const Status& outcome : outcomes) EXPECT_EQ(outcome.code(), Code::aborted) << outcome.to_string();
}

TEST(AggregationRails, SurvivorsGoOnThroughTheNode) {
  const auto node = start_node();
  World world(world_of(4, node->port(), "aggregator_share=0.5"));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([&](Member& member) {
    // Who is through first may end it for the others, by leaving or shrinking.
    const Status first = add_up<float>(*member.comm, 50'000, 0, Dtype::float32, true);
    if (first.code() == Code::internal) return first;
    if (member.rank == 3) {
      world.leave(3);
      return Status::ok();
    }
    auto survivors = member.comm->shrink(0);
    if (!survivors) return survivors.status();
    Communicator& comm = **survivors;
    for (int64_t active = 0; active < comm.world_size();) {
      active = is_active(comm) ? 1 : 0;
      member.doing("waiting for the node");
      NEZHA_RETURN_IF_ERROR(
          comm.all_reduce(&active, &active, 1, Dtype::int64, ReduceOp::sum, {}, nullptr));
    }
    return add_up<float>(comm, 50'000, 1, Dtype::float32, true);
  }));
}

TEST(AggregationRails, WithoutANodeHostsDoEverything) {
  uint16_t port = 0;
  {
    const auto node = start_node();
    port = node->port();
  }
  World world(world_of(3, port));
  ASSERT_TRUE(world.status()) << world.status().to_string();
  expect_ok(world.run([](Member& member) {
    for (int round = 0; round < 50; ++round) {
      NEZHA_RETURN_IF_ERROR(add_up<float>(*member.comm, 10'000, round, Dtype::float32, true));
    }
    return Status::ok();
  }));
  EXPECT_EQ(counter(world, "sessions"), 0);
}

}  // namespace
}  // namespace nezha::testing
