// What each rail carries, by the counters of its connections: every collective and messages send over all
// rails of a rank, and a job can have sixteen rails with sixteen connections each.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "base/json.h"
#include "schedule/catalog.h"
#include "support/block_case.h"

namespace nezha::testing {
namespace {

constexpr int kRanks = 3;
constexpr int kRails = 3;
constexpr uint64_t kBlock = 400'000;  // bytes to or from each rank: 24 chunks
constexpr int kRoot = 1;

std::vector<int64_t> sent_by_rail(World& world, int rank) {
  std::vector<int64_t> sent;
  auto parsed = parse_json(world.comm(rank).context().rails_json());
  if (!parsed) return sent;
  for (const JsonValue& rail : parsed->at("rails").items()) {
    sent.push_back(rail.at("bytes_sent").integer_or(0));
  }
  return sent;
}

struct Operation {
  const char* name;
  Collective collective;
  bool with_counts;
  int senders;  // ranks that send at least a block
};

void PrintTo(const Operation& operation, std::ostream* out) { *out << operation.name; }

BlockCase blocks(const Operation& operation, Algorithm algorithm) {
  BlockCase at;
  at.collective = operation.collective;
  at.algorithm = algorithm;
  at.with_counts = operation.with_counts;
  at.root = kRoot;
  if (at.is_reduction()) at.dtype = Dtype::int32;
  const uint64_t count = kBlock / dtype_size(at.dtype);
  at.counts = equal_counts(operation.collective == Collective::reduce ? 1 : kRanks, count);
  if (at.collective == Collective::all_to_all || at.collective == Collective::all_to_all_v) {
    at.matrix.assign(kRanks, equal_counts(kRanks, count));
  }
  return at;
}

std::string all_reduce(World& world, Algorithm algorithm) {
  std::vector<AllReduceCase> cases(1);
  cases[0].algorithm = algorithm;
  cases[0].dtype = Dtype::int32;
  cases[0].count = kRanks * kBlock / sizeof(int32_t);
  fill(cases[0], kRanks, 1);
  return run_cases(world, cases);
}

// "" or the first error; `body` of each rank.
std::string run(World& world, const std::function<Status(Member&)>& body) {
  for (const Status& outcome : world.run(body)) {
    if (!outcome.is_ok()) return outcome.to_string();
  }
  return "";
}

std::string broadcast(World& world, Algorithm algorithm) {
  std::mt19937_64 generator(3);
  const Bytes wanted = random_bytes(generator, kBlock);
  return run(world, [&](Member& self) {
    Bytes data = self.rank == kRoot ? wanted : Bytes(wanted.size());
    context::CallOptions options;
    options.algorithm = algorithm;
    NEZHA_RETURN_IF_ERROR(
        self.comm->broadcast(data.data(), data.size(), Dtype::uint8, kRoot, options, nullptr));
    return data == wanted ? Status::ok() : error(Code::internal, "rank %d has wrong bytes", self.rank);
  });
}

std::string messages(World& world) {
  std::mt19937_64 generator(4);
  const Bytes wanted = random_bytes(generator, kBlock);
  return run(world, [&](Member& self) {
    const int next = (self.rank + 1) % kRanks;
    const int previous = (self.rank + kRanks - 1) % kRanks;
    engine::Work sent;
    NEZHA_RETURN_IF_ERROR(
        self.comm->send(wanted.data(), wanted.size(), Dtype::uint8, next, 1, {}, &sent));
    Bytes data(wanted.size());
    const Status received =
        self.comm->receive(data.data(), data.size(), Dtype::uint8, previous, 1, {}, nullptr);
    self.comm->wait_or_abort(sent);
    NEZHA_RETURN_IF_ERROR(received);
    NEZHA_RETURN_IF_ERROR(sent.status());
    return data == wanted ? Status::ok() : error(Code::internal, "rank %d has wrong bytes", self.rank);
  });
}

std::string carry_out(World& world, const Operation& operation, Algorithm algorithm) {
  if (operation.collective == Collective::all_reduce) return all_reduce(world, algorithm);
  if (operation.collective == Collective::broadcast) return broadcast(world, algorithm);
  std::vector<BlockCase> cases = {blocks(operation, algorithm)};
  fill(cases[0], kRanks, 2);
  return run_cases(world, cases);
}

int64_t suspicions(World& world) {
  int64_t found = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    auto parsed = parse_json(world.comm(rank).context().stats_json());
    if (parsed) found += parsed->at("links_suspected").integer_or(0);
  }
  return found;
}

// Carries the operation out. "" or the ranks that sent a block or more, and over some rail less than half
// of an equal share: no transfer is divided, so the shares of so few are not quite equal. A wrong result
// fails the test whatever the shares are.
std::string uneven(World& world, int senders, const std::function<std::string()>& operation) {
  std::vector<std::vector<int64_t>> before;
  for (int rank = 0; rank < kRanks; ++rank) before.push_back(sent_by_rail(world, rank));
  EXPECT_EQ(operation(), "");
  int found = 0;
  std::string wrong;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<int64_t> sent = sent_by_rail(world, rank);
    EXPECT_EQ(sent.size(), size_t{kRails});
    int64_t all = 0;
    for (size_t rail = 0; rail < sent.size(); ++rail) {
      all += sent[rail] -= before[static_cast<size_t>(rank)][rail];
    }
    if (all < static_cast<int64_t>(kBlock)) continue;
    ++found;
    if (*std::min_element(sent.begin(), sent.end()) < all / kRails / 2) {
      wrong += "rank " + std::to_string(rank) + ": " + ::testing::PrintToString(sent) + "\n";
    }
  }
  EXPECT_GE(found, senders);
  return wrong;
}

// On a machine that is busy with something else a rail may not be heard for 36 ms. It then carries
// nothing, as it should, and little for a while after it is heard again. Only then, as the counter says,
// are the shares of a further operation looked at.
void expect_all_rails(World& world, int senders, const std::function<std::string()>& operation) {
  constexpr int kOperationsMax = 50;
  std::string wrong = uneven(world, senders, operation);
  for (int i = 1; i < kOperationsMax && !wrong.empty() && suspicions(world) > 0; ++i) {
    wrong = uneven(world, senders, operation);
  }
  EXPECT_EQ(wrong, "") << suspicions(world) << " suspicions";
}

class EveryRail : public ::testing::TestWithParam<Operation> {
 protected:
  // Equal shares are told, so that no measured rate decides.
  EveryRail() : world_({.ranks = kRanks, .rails = kRails,
                        .config = "policy=round_robin\nchunk_bytes=16384\n", .hosts = {0, 1, 2}}) {}
  void SetUp() override { ASSERT_TRUE(world_.status().is_ok()) << world_.status().to_string(); }

  World world_;
};

// A run of blocks in one message is not cut into chunks, and has one rail (docs/algorithms.md). Long
// operations do not get such an algorithm unless they ask for it.
bool sends_runs(Collective collective, Algorithm algorithm) {
  const schedule::AlgorithmEntry* entry = schedule::find_algorithm(collective, algorithm);
  return entry != nullptr && entry->shape(kRanks).geometry == schedule::Geometry::block_parts;
}

TEST_P(EveryRail, CarriesItsPartOfWhatIsCutIntoChunks) {
  const Operation operation = GetParam();
  for (const Algorithm algorithm : algorithms_of(operation.collective)) {
    if (sends_runs(operation.collective, algorithm)) continue;
    SCOPED_TRACE(name_of(algorithm));
    expect_all_rails(world_, operation.senders, [&] { return carry_out(world_, operation, algorithm); });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operations, EveryRail,
    ::testing::Values(Operation{"all_reduce", Collective::all_reduce, false, kRanks},
                      Operation{"reduce", Collective::reduce, false, kRanks - 1},
                      Operation{"broadcast", Collective::broadcast, false, 1},
                      Operation{"all_gather", Collective::all_gather, false, kRanks},
                      Operation{"all_gather_v", Collective::all_gather, true, kRanks},
                      Operation{"reduce_scatter", Collective::reduce_scatter, false, kRanks},
                      Operation{"reduce_scatter_v", Collective::reduce_scatter, true, kRanks},
                      Operation{"gather", Collective::gather, false, kRanks - 1},
                      Operation{"scatter", Collective::scatter, false, 1},
                      Operation{"all_to_all", Collective::all_to_all, false, kRanks},
                      Operation{"all_to_all_v", Collective::all_to_all_v, false, kRanks}),
    [](const auto& at) { return std::string(at.param.name); });

TEST(EveryRailOfMessages, CarriesItsPart) {
  World world({.ranks = kRanks, .rails = kRails, .config = "policy=round_robin\nchunk_bytes=16384\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  expect_all_rails(world, kRanks, [&] { return messages(world); });
}

// How many ends of all connections are not up.
int connections_down(World& world) {
  int down = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    auto parsed = parse_json(world.comm(rank).context().rails_json());
    EXPECT_TRUE(parsed.is_ok());
    for (const JsonValue& rail : parsed->at("rails").items()) {
      for (const JsonValue& each : rail.at("peers").items()) {
        if (!each.at("up").bool_or(false)) ++down;
      }
    }
  }
  return down;
}

// A busy machine may lose some of many connections, which are made again.
void wait_for_connections(World& world) {
  for (int polls = 0; polls < 400 && connections_down(world) > 0; ++polls) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// The most that a job can have: each of 16 rails is up on 16 connections and carries its part of a sum.
TEST(SixteenRails, OfSixteenConnectionsEachCarryOneAllReduce) {
  constexpr size_t kMost = 16;
  World world({.ranks = 2, .rails = static_cast<int>(kMost),
               .config = "policy=round_robin\nchunk_bytes=16384\nstreams_per_rail=16\n"});
  ASSERT_TRUE(world.status().is_ok()) << world.status().to_string();
  std::vector<AllReduceCase> cases(1);
  cases[0].dtype = Dtype::int32;
  cases[0].count = 2'000'003;
  fill(cases[0], 2, 5);
  wait_for_connections(world);
  ASSERT_EQ(run_cases(world, cases), "");
  wait_for_connections(world);
  for (int rank = 0; rank < 2; ++rank) {
    auto parsed = parse_json(world.comm(rank).context().rails_json());
    ASSERT_TRUE(parsed.is_ok());
    const auto& rails = parsed->at("rails").items();
    ASSERT_EQ(rails.size(), kMost);
    for (const JsonValue& rail : rails) {
      const std::string address(rail.at("address").string_or(""));
      const std::string where = "rank " + std::to_string(rank) + " " + address;
      std::set<int64_t> lanes;
      for (const JsonValue& connection : rail.at("peers").items()) {
        EXPECT_TRUE(connection.at("up").bool_or(false)) << where;
        lanes.insert(connection.at("lane").integer_or(-1));
      }
      EXPECT_EQ(lanes.size(), kMost) << where;
      // Half of an equal share of what a rank of two sends.
      const auto least = static_cast<int64_t>(cases[0].bytes() / kMost / 2);
      EXPECT_GE(rail.at("bytes_sent").integer_or(0), least) << where;
    }
  }
}

}  // namespace
}  // namespace nezha::testing
