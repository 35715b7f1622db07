// A rank of a job that talks to aggregation nodes over loopback, and what a test makes it do.
//
// Contract: each rank is driven by one thread of the test. `drive` gives up after kPatience_s.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "aggregation/client/session.h"
#include "aggregation/server/aggregator.h"
#include "aggregation/topology.h"
#include "support/flat_tree.h"
#include "support/watchdog.h"
#include "transport/tcp/tcp_address.h"

namespace nezha::testing {

inline constexpr const char* kNodeAddress = "127.0.0.1";

inline wire::Secret node_key() { return wire::secret_from_text("of the node"); }

// Where the rank is in its job, and where its node is.
struct NodePlace {
  int rank = 0;
  int ranks = 1;
  uint64_t job = 0;
  uint16_t port = 0;  // of its node
  int nodes = 1;
  int node = 0;
  uint32_t session = 0;
  std::string address = kNodeAddress;  // of its node
  uint64_t run = 1;
};

class AggregationRank {
 public:
  explicit AggregationRank(const NodePlace& place, const wire::Secret& key = node_key()) : place_(place) {
    loop_ = std::move(*progress::Loop::create(system_clock(), 0));
    aggregation::NodeSessionRequest request;
    request.rank = place.rank;
    request.ranks = place.ranks;
    request.nodes = place.nodes;
    request.node = place.node;
    request.session = place.session;
    request.job = {place.job, aggregation::job_key_of(key, place.job)};
    request.run = place.run;
    request.rail = {"", kNodeAddress, 8};
    request.node_rail = {"", place.address, 8};
    request.node_rail.blob = transport::encode(transport::TcpPorts{place.port, place.port});
    progress::Loop::Lock lock(*loop_);
    auto session = aggregation::NodeSession::create(*loop_, request);
    EXPECT_TRUE(session) << session.status().to_string();
    if (!session) return;
    session_ = std::move(*session);
    loop_->set_client(session_.get());
  }
  ~AggregationRank() {
    progress::Loop::Lock lock(*loop_);
    session_.reset();
  }
  AggregationRank(const AggregationRank&) = delete;
  AggregationRank& operator=(const AggregationRank&) = delete;

  aggregation::NodeSession& session() { return *session_; }
  engine::Group* group() { return group_; }
  template <class Done>
  bool drive(Done done) {
    return loop_->drive_until(done, deadline_after(system_clock(), kPatience_s));
  }
  Status connect() {
    using State = aggregation::NodeSession::State;
    if (!drive([&] { return session_->state() != State::dialling; })) {
      return error(Code::timed_out, "no connection");
    }
    return session_->state() == State::up ? Status::ok() : Status(Code::peer_lost, session_->reason());
  }
  // One node for all ranks of the job.
  aggregation::TreePlan flat() const {
    aggregation::TreePlan plan;
    for (int rank = 0; rank < place_.ranks; ++rank) plan.members.push_back(rank);
    plan.members.push_back(place_.ranks + place_.node);
    plan.tree = testing::flat_tree(place_.ranks);
    return plan;
  }
  Status register_group(uint64_t comm, const aggregation::TreePlan& plan) {
    uint64_t number = 0;
    {
      progress::Loop::Lock lock(*loop_);
      number = session_->register_group(comm, plan.members, plan.tree);
    }
    std::optional<Status> answer;
    drive([&] {
      if (!answer) answer = session_->take_reply(number);  // it is given once
      return answer.has_value();
    });
    return answer ? *answer : error(Code::timed_out, "no answer");
  }
  Status join(uint64_t comm, const aggregation::TreePlan& plan) {
    progress::Loop::Lock lock(*loop_);
    auto group = session_->join(comm, plan.members, plan.tree);
    if (!group) return group.status();
    group_ = *group;
    return Status::ok();
  }
  void leave(uint64_t comm) {
    progress::Loop::Lock lock(*loop_);
    session_->calls().destroy_group(*group_);
    group_ = nullptr;
    session_->leave(comm);
    lock.drive_once();
  }
  Status run(const engine::OpRequest& request) {
    engine::Work work;
    {
      progress::Loop::Lock lock(*loop_);
      NEZHA_RETURN_IF_ERROR(session_->calls().submit(*group_, request, work));
    }
    if (!drive([&] { return work.is_done(); })) {
      progress::Loop::Lock lock(*loop_);
      session_->calls().fail(*group_, error(Code::timed_out, "the test ended"), false);
      lock.drive_once();
      return error(Code::timed_out, "the operation did not end");
    }
    return work.status();
  }
  Status all_reduce(std::vector<float>& values) {
    engine::OpRequest request;
    request.in = request.out = values.data();
    request.count = values.size();
    return run(request);
  }

 private:
  const NodePlace place_;
  std::unique_ptr<progress::Loop> loop_;
  std::unique_ptr<aggregation::NodeSession> session_;
  engine::Group* group_ = nullptr;
};

// Whether the node's figures contain this, now or in a while.
inline bool comes_to_say(aggregation::Aggregator& node, const std::string& figure) {
  const Nanoseconds deadline = deadline_after(system_clock(), kPatience_s);
  while (node.stats_json().find(figure) == std::string::npos) {
    if (system_clock().now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline float input_value(int rank, size_t i, uint64_t job) {
  return static_cast<float>((i * 3 + static_cast<size_t>(rank) * 5 + job) % 100);
}

// An all_reduce over ranks that give input_value each; the first wrong element is an error.
inline Status check_all_reduce(AggregationRank& self, const NodePlace& place, size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = input_value(place.rank, i, place.job);
  NEZHA_RETURN_IF_ERROR(self.all_reduce(values));
  for (size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int other = 0; other < place.ranks; ++other) expected += input_value(other, i, place.job);
    if (values[i] != expected) return error(Code::internal, "element %zu of %zu is wrong", i, count);
  }
  return Status::ok();
}

// What the ranks of a job tell each other on their own network.
class Vote {
 public:
  explicit Vote(int ranks) : ranks_(ranks) {}
  // Whether all of them said yes.
  bool agree(bool yes) {
    std::unique_lock lock(mutex_);
    const auto round = static_cast<size_t>(said_++ / ranks_);
    if (round == yes_.size()) yes_.push_back(0);
    yes_[round] += yes ? 1 : 0;
    everybody_.notify_all();
    const int all = (static_cast<int>(round) + 1) * ranks_;
    everybody_.wait_for(lock, std::chrono::duration<double>(kPatience_s), [&] { return said_ >= all; });
    return yes_[round] == ranks_;
  }

 private:
  const int ranks_;
  std::mutex mutex_;
  std::condition_variable everybody_;
  int said_ = 0;
  std::vector<int> yes_;  // by round
};

// A thread for each rank of a job; what each says.
template <class Body>
std::vector<Status> run_ranks(int ranks, Body body) {
  std::vector<Status> outcomes(static_cast<size_t>(ranks), error(Code::internal, "never ran"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { outcomes[static_cast<size_t>(rank)] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

}  // namespace nezha::testing
