// Ranks and an aggregation node over loopback: tickets, registering, operations, several jobs, ranks and
// nodes that go.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "aggregation/server/aggregator.h"
#include "rendezvous/socket.h"
#include "support/aggregation_rank.h"
#include "support/float_modes.h"

namespace nezha::testing {
namespace {

using aggregation::NodeSession;

constexpr uint64_t kComm = engine::CommNumber::kFirstParked + 1;

std::unique_ptr<aggregation::Aggregator> start(int threads = 1) {
  aggregation::AggregatorOptions options;
  options.address = kNodeAddress;
  options.key = node_key();
  options.threads = threads;
  auto node = aggregation::Aggregator::start(options);
  EXPECT_TRUE(node) << node.status().to_string();
  return node ? std::move(*node) : nullptr;
}

// Every rank of a job registers, joins and sums vectors of several lengths; the first error.
Status run_rank(const NodePlace& place) {
  AggregationRank self(place);
  NEZHA_RETURN_IF_ERROR(self.connect());
  NEZHA_RETURN_IF_ERROR(self.register_group(kComm, self.flat()));
  NEZHA_RETURN_IF_ERROR(self.join(kComm, self.flat()));
  for (const size_t count : {1UL, 1000UL, 100'000UL, 700'001UL}) {
    NEZHA_RETURN_IF_ERROR(check_all_reduce(self, place, count));
  }
  return Status::ok();
}

void run_job(int ranks, uint64_t job, uint16_t port) {
  for (const Status& outcome :
       run_ranks(ranks, [&](int rank) { return run_rank({rank, ranks, job, port}); })) {
    EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
}

TEST(Aggregator, AddsUpForAJob) {
  const auto node = start();
  ASSERT_NE(node, nullptr);
  run_job(4, 7, node->port());
}

// bfloat16 has no 257, but it has 258: what is summed is rounded once.
TEST(Aggregator, AddsShortFloatsUpInLongOnes) {
  constexpr int kRanks = 3;
  const auto node = start();
  ASSERT_NE(node, nullptr);
  Vote vote(kRanks);
  const auto outcomes = run_ranks(kRanks, [&](int rank) {
    AggregationRank self({rank, kRanks, 7, node->port()});
    Status outcome = self.connect();
    if (outcome.is_ok() && rank == 0) outcome = self.register_group(kComm, self.flat());
    if (!vote.agree(outcome.is_ok())) return outcome;
    NEZHA_RETURN_IF_ERROR(self.join(kComm, self.flat()));
    for (const size_t count : {3UL, 200'000UL}) {
      std::vector<uint16_t> values(count, rank == 0 ? 0x4380 : 0x3F80);
      engine::OpRequest request;
      request.in = request.out = values.data();
      request.count = count;
      request.dtype = Dtype::bfloat16;
      NEZHA_RETURN_IF_ERROR(self.run(request));
      if (values != std::vector<uint16_t>(count, 0x4381)) {
        return error(Code::internal, "rank %d has %x", rank, static_cast<unsigned>(values[0]));
      }
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// Sums of these exceed float16.
TEST(Aggregator, AveragesWhatShortFloatsHold) {
  constexpr int kRanks = 4;
  constexpr uint16_t k60000 = 0x7B53;
  const auto node = start();
  ASSERT_NE(node, nullptr);
  Vote vote(kRanks);
  const auto outcomes = run_ranks(kRanks, [&](int rank) {
    AggregationRank self({rank, kRanks, 7, node->port()});
    Status outcome = self.connect();
    if (outcome.is_ok() && rank == 0) outcome = self.register_group(kComm, self.flat());
    if (!vote.agree(outcome.is_ok())) return outcome;
    NEZHA_RETURN_IF_ERROR(self.join(kComm, self.flat()));
    for (const bool alike : {true, false}) {
      const std::vector<uint16_t> values(3000, alike || rank < 2 ? k60000 : k60000 | 0x8000);
      std::vector<uint16_t> averages(values.size());
      engine::OpRequest request;
      request.in = values.data();
      request.out = averages.data();
      request.count = values.size();
      request.dtype = Dtype::float16;
      request.op = ReduceOp::avg;
      NEZHA_RETURN_IF_ERROR(self.run(request));
      if (averages != std::vector<uint16_t>(values.size(), alike ? k60000 : 0)) {
        return error(Code::internal, "rank %d has %x", rank, static_cast<unsigned>(averages[0]));
      }
    }
    return Status::ok();
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

// The threads of a node begin with the mode of floating point of who starts it.
TEST(Aggregator, AddsUpInTheDefaultModeOfFloatingPoint) {
  constexpr int kRanks = 2;
  const auto node = [] {
    const WithMode with(modes().front());
    return start();
  }();
  ASSERT_NE(node, nullptr);
  Vote vote(kRanks);
  const std::vector<float> expected(3000, 2 * 3e-39F);
  const auto outcomes = run_ranks(kRanks, [&](int rank) {
    std::vector<float> values(expected.size(), 3e-39F);
    const WithMode with(modes()[static_cast<size_t>(rank)]);
    AggregationRank self({rank, kRanks, 7, node->port()});
    Status outcome = self.connect();
    if (outcome.is_ok() && rank == 0) outcome = self.register_group(kComm, self.flat());
    if (!vote.agree(outcome.is_ok())) return outcome;
    NEZHA_RETURN_IF_ERROR(self.join(kComm, self.flat()));
    NEZHA_RETURN_IF_ERROR(self.all_reduce(values));
    const size_t bytes = expected.size() * sizeof(float);
    if (std::memcmp(values.data(), expected.data(), bytes) == 0) return Status::ok();
    return error(Code::internal, "rank %d has %g", rank, static_cast<double>(values[0]));
  });
  for (const Status& outcome : outcomes) EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
}

TEST(Aggregator, ServesSeveralJobsAtOnceOnItsThreads) {
  const auto node = start(2);
  ASSERT_NE(node, nullptr);
  std::vector<std::thread> jobs;
  for (uint64_t job = 0; job < 6; ++job) {
    jobs.emplace_back([&, job] { run_job(2 + static_cast<int>(job % 2), 100 + job, node->port()); });
  }
  for (std::thread& job : jobs) job.join();
  // What they did outlives them.
  auto stats = parse_json(node->stats_json());
  const Nanoseconds deadline = deadline_after(system_clock(), kPatience_s);
  while (stats && !stats->at("jobs").items().empty() && system_clock().now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    stats = parse_json(node->stats_json());
  }
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->at("ended").at("jobs").integer_or(0), 6);
  EXPECT_EQ(stats->at("ended").at("operations").integer_or(0), 6 * 4);
  EXPECT_GT(stats->at("ended").at("bytes_sent").integer_or(0), 6 * 2 * 800'000 * 4);
}

TEST(Aggregator, KnowsNobodyWithoutItsKey) {
  const auto node = start();
  ASSERT_NE(node, nullptr);
  AggregationRank stranger({0, 2, 7, node->port()}, wire::secret_from_text("another"));
  ASSERT_TRUE(stranger.drive([&] { return stranger.session().state() == NodeSession::State::lost; }));
  EXPECT_NE(stranger.session().reason().find("different secrets"), std::string::npos)
      << stranger.session().reason();
  const std::string stats = node->stats_json();
  EXPECT_NE(stats.find("\"refused\":1"), std::string::npos) << stats;
}

TEST(Aggregator, LosesARankWithoutLosingTheOthers) {
  const auto node = start();
  ASSERT_NE(node, nullptr);
  {
    auto gone = std::make_unique<AggregationRank>(NodePlace{0, 2, 9, node->port()});
    AggregationRank left({1, 2, 9, node->port()});
    ASSERT_TRUE(gone->connect().is_ok());
    ASSERT_TRUE(left.connect().is_ok());
    ASSERT_TRUE(left.register_group(kComm, left.flat()).is_ok());
    ASSERT_TRUE(left.join(kComm, left.flat()).is_ok());
    std::thread leaver([&] { gone.reset(); });
    std::vector<float> values(100'000, 1);
    const Status outcome = left.all_reduce(values);
    leaver.join();
    EXPECT_EQ(outcome.code(), Code::peer_lost) << outcome.to_string();
    EXPECT_EQ(values, std::vector<float>(100'000, 1));  // its input is intact
  }
  run_job(3, 10, node->port());
}

// A member that was lost comes back with the next session, while another is still in the old one.
TEST(Aggregator, BeginsAgainWithTheNextSession) {
  const auto node = start();
  ASSERT_NE(node, nullptr);
  AggregationRank old({1, 2, 9, node->port()});
  ASSERT_TRUE(old.connect().is_ok());
  { AggregationRank gone({0, 2, 9, node->port()}); ASSERT_TRUE(gone.connect().is_ok()); }
  for (const Status& outcome : run_ranks(2, [&](int rank) {
         return run_rank({rank, 2, 9, node->port(), 1, 0, 1});
       })) {
    EXPECT_TRUE(outcome.is_ok()) << outcome.to_string();
  }
  EXPECT_EQ(old.session().state(), NodeSession::State::up);
}

TEST(Aggregator, ASessionEndsWithItsNode) {
  auto node = start();
  ASSERT_NE(node, nullptr);
  AggregationRank rank({0, 2, 9, node->port()});
  ASSERT_TRUE(rank.connect().is_ok());
  node.reset();
  EXPECT_TRUE(rank.drive([&] { return rank.session().state() == NodeSession::State::lost; }));
}

// Ranks whose tickets are good keep coming until the last moment.
TEST(Aggregator, EndsWhileRanksConnect) {
  Watchdog watchdog("a node that ends", 1);
  for (int round = 0; round < 100; ++round) {
    auto node = start(1 + round % 2);
    ASSERT_NE(node, nullptr);
    std::atomic<bool> over{false};
    std::atomic<int> tickets_sent{0};
    std::vector<std::thread> ranks;
    for (uint64_t job = 0; job < 4; ++job) {
      ranks.emplace_back([&, job, port = node->port()] {
        const aggregation::Ticket ticket{.job = job, .ranks = 2, .nodes = 1, .nonce = 1};
        const auto bytes = aggregation::make_ticket(ticket, aggregation::job_key_of(node_key(), job));
        const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        while (!over) {
          // A full queue drops who comes, and the kernel would repeat that after a second.
          const auto deadline = deadline_after(system_clock(), 0.02);
          auto socket = rendezvous::connect_to(kNodeAddress, port, deadline);
          if (!socket) continue;
          rendezvous::send_all(*socket, text, deadline);
          ++tickets_sent;
        }
      });
    }
    while (tickets_sent < 8) std::this_thread::yield();
    node.reset();
    over = true;
    for (std::thread& rank : ranks) rank.join();
  }
}

}  // namespace
}  // namespace nezha::testing
