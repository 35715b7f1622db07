// One operation over rails of two kinds at once: libfabric with the host's TCP beneath, and an
// aggregation node that adds up a part of it. Counters confirm that both carried data, and that faults
// happened.
//
// The job has a rail of TCP, too. On a loopback its device is the one that leads to the node, so what is
// divided keeps off it; tests/lab/test_three_kinds.py has wires for all three.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "aggregation/server/aggregator.h"
#include "base/json.h"
#include "fabric/fabric_device.h"
#include "support/all_reduce_case.h"
#include "support/cases.h"
#include "support/job_key.h"
#include "support/sockets.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

enum Kind : uint8_t { kFabric, kNode, kKinds };
constexpr const char* kTcpAddress = "127.1.0.1";
constexpr std::array<const char*, kKinds> kAddresses = {"127.2.0.1", "127.3.0.1"};
constexpr std::array<const char*, kKinds> kNames = {"fabric", "node"};
constexpr uint64_t kChunkBytes = 4096;  // the least: also short operations are several transfers

// What the rails of one rank have carried, and how often they were lost and came back.
struct Carried {
  std::array<uint64_t, kKinds> bytes{};
  std::array<uint64_t, kKinds> lost{};
  uint64_t cut = 0;                     // operations partly through the node

  bool all_more_than(const Carried& before) const {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (bytes[kind] < before.bytes[kind] + kChunkBytes) return false;
    }
    return true;
  }
};

uint64_t counter_of(const JsonValue& object, const char* name) {
  return static_cast<uint64_t>(object.at(name).integer_or(0));
}

class FabricAndNode : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = transport::FabricLibrary::open();
    if (!library) GTEST_SKIP() << library.status().message();
    provider_ = transport::software_provider(**library);
    aggregation::AggregatorOptions options;
    options.address = kAddresses[kNode];
    auto node = aggregation::Aggregator::start(options);
    ASSERT_TRUE(node) << node.status().to_string();
    node_ = std::move(*node);
  }

  WorldOptions world_of(int ranks) const {
    WorldOptions options;
    options.ranks = ranks;
    options.config = "policy=round_robin\nchunk_bytes=" + std::to_string(kChunkBytes) + "\nrails=tcp:" +
                     kTcpAddress + "/32,ofi:" + provider_ + "@" + kAddresses[kFabric] + "\naggregator=" +
                     kAddresses[kNode] + ":" + std::to_string(node_->port()) +
                     "\naggregator_share=0.4\n" + job_key_line();
    return options;
  }

  static Carried look_at(World& world, int rank) {
    Carried found;
    auto rails = parse_json(world.comm(rank).context().rails_json());
    auto stats = parse_json(world.comm(rank).context().stats_json());
    EXPECT_TRUE(rails && stats);
    for (const JsonValue& rail : rails->at("rails").items()) {
      if (rail.at("transport").string_or("") != "ofi") continue;
      found.bytes[kFabric] = counter_of(rail, "bytes_sent");
    }
    found.lost[kFabric] = counter_of(*stats, "endpoints_lost");
    const JsonValue& node = stats->at("aggregation");
    found.bytes[kNode] = counter_of(node, "bytes_sent");
    found.lost[kNode] = counter_of(node, "sessions_lost");
    for (const JsonValue& each : node.at("communicators").items()) {
      found.cut += counter_of(each, "operations_cut");
    }
    return found;
  }

  // Every dtype and operator, of `count` elements.
  static std::vector<AllReduceCase> every_kind(int ranks, uint64_t count) {
    std::vector<AllReduceCase> cases;
    for (size_t dtype = 0; dtype < kDtypeCount; ++dtype) {
      for (size_t op = 0; op < kReduceOpCount; ++op) {
        if (!reduce_supported(static_cast<Dtype>(dtype), static_cast<ReduceOp>(op))) continue;
        AllReduceCase& at = cases.emplace_back();
        at.dtype = static_cast<Dtype>(dtype);
        at.op = static_cast<ReduceOp>(op);
        at.count = count + cases.size();
        at.in_place = cases.size() % 2 == 0;
        fill(at, ranks, cases.size());
      }
    }
    return cases;
  }

  static void run(World& world, std::vector<AllReduceCase> cases) {
    ASSERT_EQ(run_cases(world, cases), "");
    for (const AllReduceCase& at : cases) ASSERT_EQ(check_equal(at), "");
  }

  static void run_some(World& world) {
    std::vector<AllReduceCase> cases(4);
    for (size_t i = 0; i < cases.size(); ++i) {
      cases[i].count = 20'000 + 10'000 * i;
      cases[i].in_place = i % 2 == 0;
      fill(cases[i], world.size(), i);
    }
    run(world, cases);
  }

  // Runs operations until all kinds carry a part of them.
  static void run_until_all_carry(World& world) {
    constexpr int kRoundsMax = 400;
    for (int round = 0; round < kRoundsMax && !HasFatalFailure(); ++round) {
      const Carried before = look_at(world, 0);
      run_some(world);
      if (look_at(world, 0).all_more_than(before)) return;
    }
    FAIL() << "some kind of rail carries nothing";
  }

 private:
  std::string provider_;
  std::unique_ptr<aggregation::Aggregator> node_;
};

TEST_F(FabricAndNode, CarryOneOperationTogether) {
  for (const int ranks : {2, 3, 6}) {
    World world(world_of(ranks));
    ASSERT_TRUE(world.status()) << world.status().to_string();
    run(world, every_kind(ranks, 8'000));
    for (int rank = 0; rank < ranks; ++rank) {
      const Carried carried = look_at(world, rank);
      EXPECT_TRUE(carried.all_more_than({}))
          << "rank " << rank << " of " << ranks << ": " << ::testing::PrintToString(carried.bytes);
      EXPECT_GT(carried.cut, 0U) << "rank " << rank << " of " << ranks;
    }
  }
}

// The connections of one kind are cut in the middle of operations, until some were lost; what was on its
// way goes over the others. Then they come back, and carry a part again.
TEST_F(FabricAndNode, CutOneAfterTheOtherInMidOperationChangesNoBit) {
  for (const int ranks : {2, 3}) {
    World world(world_of(ranks));
    ASSERT_TRUE(world.status()) << world.status().to_string();
    run_until_all_carry(world);
    for (size_t kind = 0; kind < kKinds && !HasFatalFailure(); ++kind) {
      SCOPED_TRACE(kNames[kind]);
      const uint64_t lost = look_at(world, 0).lost[kind];
      std::atomic<bool> over{false};
      std::thread breaker([&] {
        while (!over.load()) {
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          break_rail(kAddresses[kind]);
        }
      });
      // Between two messages libfabric's provider heals a cut by itself, and nothing is lost.
      constexpr int kRoundsMax = 200;
      for (int round = 0; round < kRoundsMax && look_at(world, 0).lost[kind] == lost; ++round) {
        run_some(world);
      }
      over.store(true);
      breaker.join();
      EXPECT_GT(look_at(world, 0).lost[kind], lost);
      run_until_all_carry(world);
    }
  }
}

}  // namespace
}  // namespace nezha::testing
