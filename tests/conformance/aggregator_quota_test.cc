// An aggregation node within its bounds: what it refuses and says, what it gives back, and many jobs and
// connections at once while strangers connect.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>

#include "aggregation/server/aggregator.h"
#include "base/json.h"
#include "support/aggregation_rank.h"
#include "support/stranger.h"

namespace nezha::testing {
namespace {

using aggregation::NodeSession;

constexpr uint64_t kComm = engine::CommNumber::kFirstParked + 1;
// For a group of two children, with the sums of their chunks and what is smaller.
constexpr uint64_t kGroup = 3 * (8 << 20);
constexpr uint64_t kState = 4 << 20;  // more than a session of two ranks is charged beside its groups

aggregation::AggregatorOptions options_of_node() {
  aggregation::AggregatorOptions options;
  options.address = kNodeAddress;
  options.key = node_key();
  return options;
}

std::unique_ptr<aggregation::Aggregator> start(const aggregation::AggregatorOptions& options) {
  auto node = aggregation::Aggregator::start(options);
  EXPECT_TRUE(node) << node.status().to_string();
  return node ? std::move(*node) : nullptr;
}

// Whether the node's jobs come to be charged with between `low` and `high` bytes.
bool comes_to_charge(aggregation::Aggregator& node, uint64_t low, uint64_t high) {
  const Nanoseconds deadline = deadline_after(system_clock(), kPatience_s);
  while (system_clock().now() < deadline) {
    const auto stats = parse_json(node.stats_json());
    const auto charged = static_cast<uint64_t>(stats.value().at("bytes_charged").integer_or(-1));
    if (charged >= low && charged < high) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void expect_refused(AggregationRank& rank, uint64_t comm, const char* why) {
  const Status refused = rank.register_group(comm, rank.flat());
  EXPECT_EQ(refused.code(), Code::unsupported);
  EXPECT_NE(refused.message().find(why), std::string::npos) << refused.message();
}

TEST(AggregatorQuotas, RefusesMoreCommunicatorsThanItHas) {
  aggregation::AggregatorOptions options = options_of_node();
  options.job.groups_max = 1;
  const auto node = start(options);
  AggregationRank rank({0, 2, 9, node->port()});
  ASSERT_TRUE(rank.connect().is_ok());
  ASSERT_TRUE(rank.register_group(kComm, rank.flat()).is_ok());
  ASSERT_TRUE(rank.register_group(kComm, rank.flat()).is_ok());  // the same again
  expect_refused(rank, kComm + 1, "1 communicators");
  EXPECT_TRUE(comes_to_say(*node, "\"refused_groups\":1")) << node->stats_json();
}

TEST(AggregatorQuotas, RefusesMoreBytesThanAJobMayHave) {
  aggregation::AggregatorOptions options = options_of_node();
  options.job.bytes_max = kGroup + kState;
  const auto node = start(options);
  AggregationRank rank({0, 2, 9, node->port()});
  ASSERT_TRUE(rank.connect().is_ok());
  ASSERT_TRUE(rank.register_group(kComm, rank.flat()).is_ok());
  expect_refused(rank, kComm + 1, "of the 28 MiB of this job only ");
}

TEST(AggregatorQuotas, RefusesMoreBytesThanAllJobsMayHave) {
  aggregation::AggregatorOptions options = options_of_node();
  options.bytes_max = kGroup + 2 * kState;
  options.threads = 2;
  const auto node = start(options);
  auto first = std::make_unique<AggregationRank>(NodePlace{0, 2, 9, node->port()});
  ASSERT_TRUE(first->connect().is_ok());
  ASSERT_TRUE(first->register_group(kComm, first->flat()).is_ok());
  AggregationRank second({0, 2, 10, node->port()});
  ASSERT_TRUE(second.connect().is_ok());
  expect_refused(second, kComm, "of the 32 MiB of all jobs only ");
  // The first job's are free when its rank is gone.
  first.reset();
  ASSERT_TRUE(comes_to_charge(*node, 0, kState)) << node->stats_json();
  EXPECT_TRUE(second.register_group(kComm + 1, second.flat()).is_ok());
}

TEST(AggregatorQuotas, RefusesMoreJobsAndSessionsThanItMayServe) {
  aggregation::AggregatorOptions options = options_of_node();
  options.jobs_max = 3;
  options.sessions_max = 2;
  const auto node = start(options);
  std::vector<std::unique_ptr<AggregationRank>> ranks;
  const auto comes = [&](uint64_t job, uint32_t session) {
    ranks.push_back(std::make_unique<AggregationRank>(NodePlace{0, 2, job, node->port(), 1, 0, session}));
    return ranks.back()->connect();
  };
  EXPECT_TRUE(comes(1, 0).is_ok());
  EXPECT_TRUE(comes(1, 1).is_ok());
  const Status third_session = comes(1, 2);
  EXPECT_NE(third_session.message().find("as much as its quotas allow"), std::string::npos)
      << third_session.message();
  EXPECT_TRUE(comes(2, 0).is_ok());
  EXPECT_FALSE(comes(3, 0).is_ok());
  EXPECT_TRUE(comes_to_say(*node, "\"refused_jobs\":2")) << node->stats_json();
}

TEST(AggregatorQuotas, RefusesLargeJobsAndManyConnections) {
  aggregation::AggregatorOptions options = options_of_node();
  options.job.ranks_max = 3;
  options.job.connections_max = 2;
  const auto node = start(options);
  // The node looks at this behind the proof: the session may have been up for a moment.
  AggregationRank large({0, 4, 8, node->port()});
  EXPECT_TRUE(large.drive([&] { return large.session().state() == NodeSession::State::lost; }));
  AggregationRank first({0, 3, 9, node->port()});
  AggregationRank second({1, 3, 9, node->port()});
  EXPECT_TRUE(first.connect().is_ok());
  EXPECT_TRUE(second.connect().is_ok());
  AggregationRank third({2, 3, 9, node->port()});
  EXPECT_TRUE(third.drive([&] { return third.session().state() == NodeSession::State::lost; }));
  EXPECT_TRUE(comes_to_say(*node, "\"refused_connections\":1")) << node->stats_json();
}

// A rank dies: the slots of its groups are free, and other groups of the same job go on.
TEST(AggregatorQuotas, FreesTheSlotsOfADeadRankAlone) {
  const auto node = start(options_of_node());
  constexpr int kRanks = 4;
  std::vector<std::unique_ptr<AggregationRank>> ranks;
  const auto plan_of = [](int low, int high) {
    return aggregation::TreePlan{{low, high, kRanks}, testing::flat_tree(2)};
  };
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<AggregationRank>(NodePlace{rank, kRanks, 7, node->port()}));
    ASSERT_TRUE(ranks.back()->connect().is_ok());
  }
  ASSERT_TRUE(ranks[0]->register_group(kComm, plan_of(0, 1)).is_ok());
  ASSERT_TRUE(ranks[2]->register_group(kComm + 1, plan_of(2, 3)).is_ok());
  for (int rank = 0; rank < kRanks; ++rank) {
    const int low = rank / 2 * 2;
    ASSERT_TRUE(ranks[static_cast<size_t>(rank)]
                    ->join(kComm + static_cast<uint32_t>(rank) / 2, plan_of(low, low + 1)).is_ok());
  }
  std::vector<Status> outcomes(kRanks);
  const auto run = [&](int rank, int rounds) {
    Status& outcome = outcomes[static_cast<size_t>(rank)];
    for (int round = 0; outcome.is_ok() && round < rounds; ++round) {
      std::vector<float> values(100'000, 1);
      outcome = ranks[static_cast<size_t>(rank)]->all_reduce(values);
      if (outcome.is_ok() && values[99'999] != 2) outcome = error(Code::internal, "%d is wrong", round);
    }
  };
  std::vector<std::thread> threads;
  threads.emplace_back([&] { ranks[1].reset(); });
  threads.emplace_back([&] { run(0, 1); });
  for (const int rank : {2, 3}) threads.emplace_back([&, rank] { run(rank, 20); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(outcomes[0].code(), Code::peer_lost) << outcomes[0].to_string();
  EXPECT_TRUE(outcomes[2].is_ok()) << outcomes[2].to_string();
  EXPECT_TRUE(outcomes[3].is_ok()) << outcomes[3].to_string();
  EXPECT_TRUE(comes_to_say(*node, "\"groups\":1")) << node->stats_json();
  // One group's is free again: what is left is that of the other, and the session's own.
  EXPECT_TRUE(comes_to_charge(*node, kGroup, 2 * kGroup)) << node->stats_json();
}

uint64_t memory_of(aggregation::Aggregator& node) {
  auto stats = parse_json(node.stats_json());
  EXPECT_TRUE(stats);
  uint64_t bytes = 0;
  for (const JsonValue& job : stats->at("jobs").items()) {
    bytes += static_cast<uint64_t>(job.at("memory_bytes").integer_or(0));
  }
  return bytes;
}

// Anything, and half of anything, at the port.
void connect_as_stranger(uint16_t port, uint64_t seed) {
  std::mt19937_64 random(seed);
  Stranger stranger(port);
  std::string bytes(random() % 300, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  // A ticket of a job that runs, except for one bit.
  if (seed % 3 == 0) {
    const wire::Secret key_of_first = aggregation::job_key_of(node_key(), 0);
    auto ticket = aggregation::make_ticket({seed % 8, 1, 8, 1, 0, seed}, key_of_first);
    ticket[random() % aggregation::kTicketBytes] ^= std::byte{1};
    bytes.insert(0, reinterpret_cast<const char*>(ticket.data()), ticket.size());
  }
  stranger.say(bytes);
}

// Eight jobs of eight ranks, while strangers say anything at the port.
TEST(AggregatorQuotas, ServesManyConnectionsInTheMemoryItHas) {
  constexpr int kJobs = 8;
  constexpr int kRanks = 8;
  constexpr int kWarm = 4;
  aggregation::AggregatorOptions options = options_of_node();
  options.address = "127.1.0.1";
  options.threads = 2;
  const auto node = start(options);
  std::atomic<bool> over{false};
  std::thread strangers([&] {
    for (uint64_t seed = 1; !over; ++seed) connect_as_stranger(node->port(), seed);
  });
  Vote everybody(kJobs * kRanks);
  std::array<uint64_t, 2> memory{};
  const auto run = [&](const NodePlace& place) -> Status {
    AggregationRank self(place);
    Status outcome = self.connect();
    if (outcome.is_ok() && place.rank == 0) outcome = self.register_group(kComm, self.flat());
    if (!everybody.agree(outcome.is_ok())) return outcome;
    outcome = self.join(kComm, self.flat());
    for (int round = 0; round < 2 * kWarm * kWarm; ++round) {
      if (outcome.is_ok()) outcome = check_all_reduce(self, place, round % 2 == 0 ? 40'000 : 3);
      const bool last = round + 1 == 2 * kWarm * kWarm;
      if (round != kWarm && !last) continue;
      everybody.agree(true);
      if (place.rank == 0 && place.job == 0) memory[last ? 1 : 0] = memory_of(*node);
      everybody.agree(true);
    }
    return outcome;
  };
  std::array<std::vector<Status>, kJobs> outcomes;
  std::vector<std::thread> jobs;
  for (uint64_t job = 0; job < kJobs; ++job) {
    jobs.emplace_back([&, job] {
      outcomes[job] = run_ranks(kRanks, [&](int rank) {
        return run({rank, kRanks, job, node->port(), 1, 0, 0, "127.1.0.1"});
      });
    });
  }
  for (std::thread& job : jobs) job.join();
  over = true;
  strangers.join();
  for (const auto& job : outcomes) {
    for (const Status& outcome : job) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  // What arrives ahead of its time differs; what is not given back would be far more.
  EXPECT_GT(memory[0], 0u);
  EXPECT_LE(memory[1], 2 * memory[0] + (1 << 20));
  const auto stats = parse_json(node->stats_json());
  EXPECT_EQ(stats.value().at("connections").at("answered").integer_or(-1), 0);
}

}  // namespace
}  // namespace nezha::testing
