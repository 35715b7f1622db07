// Operations over rails of both kinds at once: TCP, and libfabric with the host's TCP beneath. The
// counters confirm that both carried data, and that the fault happened.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "support/all_reduce_case.h"
#include "support/sockets.h"
#include "support/world.h"
#include "transport/ofi/fabric_rail.h"

namespace nezha::testing {
namespace {

constexpr const char* kFabricAddress = "127.2.0.1";

WorldOptions world_with(int ranks, const std::string& rails) {
  WorldOptions options;
  options.ranks = ranks;
  options.config = "policy=round_robin\nchunk_bytes=65536\ninline_bytes=1024\nrails=" + rails + "\n";
  return options;
}

class OfiRails : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto rail = transport::FabricRail::open(GetParam(), "", kFabricAddress);
    if (!rail) GTEST_SKIP() << rail.status().message();
  }
  std::string fabric() const { return "ofi:" + GetParam() + "@" + kFabricAddress; }
};

void fill_all(std::vector<AllReduceCase>& cases, int ranks) {
  const size_t counts[] = {1, 1000, 20'000, 150'000, 400'000};
  for (size_t i = 0; i < cases.size(); ++i) {
    cases[i].count = counts[i % std::size(counts)] + i;
    cases[i].in_place = i % 2 == 0;
    fill(cases[i], ranks, i);
  }
}

void run_all(World& world, std::vector<AllReduceCase>& cases) {
  const auto outcomes = world.run([&](Member& self) {
    for (AllReduceCase& at : cases) {
      self.doing(at.name());
      NEZHA_RETURN_IF_ERROR(call(at, *self.comm, self.rank));
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) ASSERT_TRUE(outcome.is_ok()) << outcome.to_string();
  for (const AllReduceCase& at : cases) {
    for (int rank = 0; rank < world.size(); ++rank) EXPECT_EQ(check(at, rank), "") << at.name();
    EXPECT_EQ(check_equal(at), "") << at.name();
  }
}

// Bytes that each of a rank's rails sent.
std::vector<int64_t> bytes_by_rail(World& world, int rank) {
  std::vector<int64_t> bytes;
  auto parsed = parse_json(world.comm(rank).context().rails_json());
  EXPECT_TRUE(parsed.is_ok());
  for (const auto& rail : parsed->at("rails").items()) {
    bytes.push_back(rail.at("bytes_sent").integer_or(-1));
  }
  return bytes;
}

TEST_P(OfiRails, CarryOperationsAlone) {
  for (const int ranks : {2, 3}) {
    World world(world_with(ranks, fabric()));
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases(10);
    fill_all(cases, ranks);
    run_all(world, cases);
  }
}

TEST_P(OfiRails, ShareOperationsWithTcp) {
  for (const int ranks : {2, 4}) {
    World world(world_with(ranks, "tcp:127.1.0.1/32," + fabric()));
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases(10);
    fill_all(cases, ranks);
    run_all(world, cases);
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int64_t> bytes = bytes_by_rail(world, rank);
      ASSERT_EQ(bytes.size(), 2U);
      for (const int64_t each : bytes) EXPECT_GT(each, 200'000) << "rank " << rank;
    }
  }
}

// The rail's connections are cut again and again while operations run: what was on its way goes over the
// other one, and the rail comes back.
TEST_P(OfiRails, CutInMidOperationChangesNoBit) {
  constexpr int kRanks = 2;
  World world(world_with(kRanks, "tcp:127.1.0.1/32," + fabric()));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::atomic<bool> over{false};
  std::atomic<int> cut{0};
  std::thread breaker([&] {
    while (!over.load()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      cut += break_rail(kFabricAddress);
    }
  });
  for (int round = 0; round < 6; ++round) {
    std::vector<AllReduceCase> cases(10);
    fill_all(cases, kRanks);
    run_all(world, cases);
  }
  over.store(true);
  breaker.join();
  EXPECT_GT(cut.load(), 0);
  EXPECT_GT(json_number(world.comm(0).context().stats_json(), "endpoints_lost"), 0);
}

INSTANTIATE_TEST_SUITE_P(Providers, OfiRails, ::testing::Values("net", "tcp;ofi_rxm"),
                         [](const auto& which) {
                           return which.param == "net" ? std::string("net") : std::string("tcp_rxm");
                         });

}  // namespace
}  // namespace nezha::testing
