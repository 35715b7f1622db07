// The work of one rank in proportion to what it does, not to how many ranks there are: the processor
// time of an 8 B all_reduce, and of a millisecond in which nothing is to do, in jobs of 16, 256 and
// 4,096 ranks.
//
//   simulation_tests --gtest_filter='Proportion.*'      prints the figures
//
// One engine is real. Its peers answer each frame of recursive doubling, whose two ranks send each other
// the same frame, and each heartbeat with its like.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "support/fake_world.h"

namespace nezha::simulation {
namespace {

using transport::Connection;
using transport::Landing;
using transport::WorkRequest;

class Mirrors final : public transport::ConnectionEvents {
 public:
  Landing on_frame(Connection&, const wire::FrameHeader&) override {
    Landing landing;
    landing.destination = scratch_.data();
    return landing;
  }
  void on_landed(Connection& connection, const wire::FrameHeader& header, const Landing&) override {
    consumed_[static_cast<size_t>(connection.peer)] += engine::frame_cost(header.length);
    if (free_.empty()) free_.push_back(&requests_.emplace_back());
    WorkRequest& answer = *free_.back();
    free_.pop_back();
    answer.header = header;
    answer.data = scratch_.data();
    connection.acknowledge(header.comm);
    EXPECT_TRUE(connection.post(answer));
    connection.flush();
  }
  void on_released(Connection&, WorkRequest& request) override { free_.push_back(&request); }
  void on_credit(Connection&, uint64_t, uint64_t) override {}
  uint64_t credit_to_tell(Connection& connection, uint64_t) override {
    return consumed_[static_cast<size_t>(connection.peer)];
  }
  void on_failure(Connection&, const wire::FrameHeader&, const std::string& text) override {
    ADD_FAILURE() << text;
  }
  void on_room(Connection&) override {}
  void on_control(Connection& connection, const wire::FrameHeader& header, const std::string&) override {
    wire::FrameHeader beat = header;
    beat.stage = 0;  // it waits for nobody
    connection.post_control(beat, {});
    connection.flush();
  }
  void on_down(Connection&, transport::WorkQueue&, const Status&, bool) override {}

  // By index of the connection, which the mirrors know as its peer.
  explicit Mirrors(size_t connections) : consumed_(connections) {}

 private:
  std::array<std::byte, 64> scratch_{};
  std::vector<uint64_t> consumed_;
  std::deque<WorkRequest> requests_;
  std::vector<WorkRequest*> free_;
};

// Rank 0 of a job, connected with the ranks that recursive doubling needs, as with connect=demand.
class OneRank {
 public:
  explicit OneRank(int ranks) : mirrors_(32) {
    auto loop = progress::Loop::create(clock_, 0);
    EXPECT_TRUE(loop.is_ok());
    loop_ = std::move(*loop);
    lock_ = std::make_unique<progress::Loop::Lock>(*loop_);
    engine::EngineOptions options;
    options.world_size = ranks;
    options.rails = kRails;
    options.on_demand = true;
    options.nominal_bytes_per_s.assign(kRails, 1e9);
    engine_ = std::make_unique<testing::OpenEngine>(*loop_, options);
    engine::GroupRequest request;
    request.comm = 3;
    request.members.resize(static_cast<size_t>(ranks));
    std::iota(request.members.begin(), request.members.end(), 0);
    request.policy = std::move(*rails::make_policy("pull", {}));
    request.costs.rails = kRails;
    group_ = *engine_->create_group(std::move(request));
    for (int peer = 1; peer < ranks; peer *= 2) {
      for (uint32_t rail = 0; rail < kRails; ++rail) connect(peer, static_cast<int>(rail));
    }
  }
  ~OneRank() {
    engine_.reset();
    ends_.clear();
    lock_.reset();
  }

  void all_reduce() {
    engine::OpRequest request;
    request.in = request.out = vector_.data();
    request.count = vector_.size();
    request.algorithm = Algorithm::recursive_doubling;
    engine::Work work;
    ASSERT_TRUE(engine_->submit(*group_, request, work).is_ok());
    for (int turns = 0; !work.is_done(); ++turns) {
      ASSERT_LT(turns, 1000) << "the operation does not end";
      deliver();
      engine_->run(clock_.now());
    }
    ASSERT_TRUE(work.status().is_ok()) << work.status().to_string();
    clock_.advance(20 * kMicrosecond);
  }
  void idle_millisecond() {
    clock_.advance(kMillisecond);
    deliver();
    engine_->run(clock_.now());
  }

 private:
  static constexpr uint32_t kRails = 2;

  void connect(int peer, int rail) {
    const auto link = transport::FakeLink::create();
    auto far = std::make_unique<Connection>(mirrors_, link->wire(1), transport::ConnectionOptions{});
    far->peer = static_cast<int>(ends_.size());
    EXPECT_TRUE(far->start().is_ok());
    auto near = std::make_unique<Connection>(engine_->connection_events(), link->wire(0),
                                             transport::ConnectionOptions{});
    near->peer = peer;
    near->rail = near->peer_rail = rail;
    EXPECT_TRUE(near->start().is_ok());
    engine_->add_connection(std::move(near));
    ends_.push_back(std::move(far));
    links_.push_back(link);
  }
  void deliver() {
    for (const auto& link : links_) {
      if (link->has_news(1)) link->deliver(1);
      if (link->has_news(0)) link->deliver(0);
    }
  }

  testing::HandClock clock_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<progress::Loop::Lock> lock_;
  Mirrors mirrors_;
  std::vector<std::shared_ptr<transport::FakeLink>> links_;
  std::vector<std::unique_ptr<Connection>> ends_;
  std::unique_ptr<testing::OpenEngine> engine_;
  engine::Group* group_ = nullptr;
  std::array<float, 2> vector_{};
};

double processor_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Seconds of the processor for one call, in the quickest of several stretches.
template <class Call>
double cost_of(Call call) {
  constexpr int kStretches = 9, kCalls = 1000;
  double least = 1e9;
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    const double begin = processor_seconds();
    for (int i = 0; i < kCalls; ++i) call();
    least = std::min(least, (processor_seconds() - begin) / kCalls);
  }
  return least;
}

TEST(Proportion, AnOperationAndAnIdleMillisecondCostNoMoreAmongManyRanks) {
  struct Cost {
    double step;  // of an all_reduce, which has log2(ranks)
    double idle;
  };
  std::vector<Cost> costs;
  for (const int steps : {4, 8, 12}) {
    OneRank rank(1 << steps);
    const double idle = cost_of([&] { rank.idle_millisecond(); });
    const double operation = cost_of([&] { rank.all_reduce(); });
    std::printf("%5d ranks: 8 B all_reduce %6.2f us, %4.2f us a step; idle millisecond %6.3f us\n",
                1 << steps, operation * 1e6, operation / steps * 1e6, idle * 1e6);
    costs.push_back({operation / steps, idle / steps});
    ASSERT_FALSE(HasFatalFailure());
  }
  // Loops over all ranks, however short, made a step 1.6 times as long here. What a look at the peers
  // with a connection takes grows with their number, log2(ranks), and with the memory that it touches.
  EXPECT_LT(costs[2].step, 1.5 * costs[1].step);
  EXPECT_LT(costs[2].idle, 3 * costs[1].idle);
}

}  // namespace
}  // namespace nezha::simulation
