// Operations over rails of both kinds at once: TCP, and libfabric with the host's TCP beneath. The
// counters confirm that both carried data, and that the fault happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "support/all_reduce_case.h"
#include "support/sockets.h"
#include "support/world.h"
#include "fabric/fabric_device.h"

namespace nezha::testing {
namespace {

constexpr const char* kFabricAddress = "127.2.0.1";
constexpr int64_t kChunkBytes = 65536;

WorldOptions world_with(int ranks, const std::string& rails) {
  WorldOptions options;
  options.ranks = ranks;
  options.config = "policy=round_robin\nchunk_bytes=65536\nrails=" + rails + "\n";
  return options;
}

class OfiRails : public ::testing::Test {
 protected:
  void SetUp() override {
    auto library = transport::FabricLibrary::open();
    if (!library) GTEST_SKIP() << library.status().message();
    provider_ = transport::software_provider(**library);
  }
  std::string fabric() const { return "ofi:" + provider_ + "@" + kFabricAddress; }

 private:
  std::string provider_;
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

// One of a rank's rails, and what became of all of them.
struct Look {
  bool up = true;
  int64_t bytes_sent = 0;
  int64_t lost = 0;
  int64_t joined = 0;
};

Look look_at(World& world, int rank, size_t rail) {
  Look look;
  auto parsed = parse_json(world.comm(rank).context().rails_json());
  EXPECT_TRUE(parsed.is_ok());
  const auto& rails = parsed->at("rails").items();
  EXPECT_EQ(rails.size(), 2U);
  for (const auto& peer : rails.at(rail).at("peers").items()) {
    look.up &= peer.at("up").bool_or(false);
  }
  look.bytes_sent = rails.at(rail).at("bytes_sent").integer_or(-1);
  const std::string stats = world.comm(rank).context().stats_json();
  look.lost = static_cast<int64_t>(json_number(stats, "endpoints_lost"));
  look.joined = static_cast<int64_t>(json_number(stats, "links_joined"));
  return look;
}

TEST_F(OfiRails, CarryOperationsAlone) {
  for (const int ranks : {2, 3}) {
    World world(world_with(ranks, fabric()));
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases(10);
    fill_all(cases, ranks);
    run_all(world, cases);
  }
}

TEST_F(OfiRails, ShareOperationsWithTcp) {
  for (const int ranks : {2, 4}) {
    World world(world_with(ranks, "tcp:127.1.0.1/32," + fabric()));
    ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
    std::vector<AllReduceCase> cases(10);
    fill_all(cases, ranks);
    run_all(world, cases);
    // A rank sends at least (ranks - 1) / ranks of every buffer twice. What a rail's share of it is
    // depends on which one is free when a chunk is ready; no rail may be left with less than a chunk.
    int64_t least = 0;
    for (const AllReduceCase& at : cases) {
      least += 2 * static_cast<int64_t>(at.bytes()) * (ranks - 1) / ranks;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const int64_t tcp = look_at(world, rank, 0).bytes_sent;
      const int64_t ofi = look_at(world, rank, 1).bytes_sent;
      EXPECT_GE(tcp + ofi, least) << "rank " << rank;
      EXPECT_GE(std::min(tcp, ofi), kChunkBytes) << "rank " << rank << " " << tcp << " " << ofi;
    }
  }
}

// Only TCP's bytes can be encrypted or authenticated: with an RDMA rail, alone or beside TCP, the job
// does not start and says what to do, whether ranks connect at the start or on demand.
TEST_F(OfiRails, AreRefusedToAJobWhoseDataIsProtected) {
  for (const std::string option : {"tls", "integrity"}) {
    for (const std::string& rails : {fabric(), "tcp:127.1.0.1/32," + fabric()}) {
      for (const std::string connect : {"eager", "demand"}) {
        WorldOptions options = world_with(2, rails);
        options.config += option + "=on\nconnect=" + connect + "\n";
        World world(options);
        const std::string message = world.status().to_string();
        const std::string where = rails + ", connect=" + connect + ": " + message;
        EXPECT_EQ(world.status().code(), Code::unsupported) << where;
        EXPECT_NE(message.find(option + "=on needs rails of TCP"), std::string::npos) << where;
        EXPECT_NE(message.find("take the ofi: entries out of NEZHA_RAILS"), std::string::npos) << where;
      }
    }
  }
}

// The rail's connections are cut in the middle of operations, again whenever it has come back and carried
// chunks: what was on its way goes over the other one.
TEST_F(OfiRails, CutInMidOperationComesBackAndChangesNoBit) {
  constexpr int kRanks = 2;
  constexpr int kReturns = 2;
  constexpr int kRoundsMax = 400;
  World world(world_with(kRanks, "tcp:127.1.0.1/32," + fabric()));
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  const auto run_some = [&] {
    std::vector<AllReduceCase> cases(4);
    fill_all(cases, kRanks);
    run_all(world, cases);
  };
  const Look first = look_at(world, 0, 1);
  int64_t joined = first.joined;
  int returns = 0;
  for (int round = 0; round < kRoundsMax && !HasFatalFailure(); ++round) {
    const Look before = look_at(world, 0, 1);
    run_some();
    const Look after = look_at(world, 0, 1);
    const bool carries = before.up && after.up && before.joined == after.joined &&
                         after.bytes_sent - before.bytes_sent >= kChunkBytes;
    if (!carries) continue;
    if (after.joined > joined) ++returns;
    joined = after.joined;
    if (returns == kReturns) break;
    // Again and again: between two messages the provider heals a cut by itself, and nothing is lost.
    std::atomic<bool> over{false};
    std::thread breaker([&] {
      while (!over.load()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        break_rail(kFabricAddress);
      }
    });
    run_some();
    over.store(true);
    breaker.join();
  }
  EXPECT_EQ(returns, kReturns);
  EXPECT_GE(look_at(world, 0, 1).lost - first.lost, kReturns);
}

}  // namespace
}  // namespace nezha::testing
