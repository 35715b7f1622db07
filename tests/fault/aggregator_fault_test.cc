// An aggregation node in a process of its own that is killed, stopped and started again under a job's
// operations: nothing is wrong, nothing hangs, and every fault is confirmed by what the ranks count.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "aggregation/server/aggregator.h"
#include "base/descriptor.h"
#include "support/child.h"
#include "support/job_key.h"
#include "support/world.h"

namespace nezha::testing {
namespace {

using context::Communicator;

constexpr const char* kAddress = "127.0.0.1";

// Starts and ends the node's process. It is itself a process that began before the ranks' threads,
// because a process with threads should not fork.
class Keeper {
 public:
  enum Command : char { kStart = 's', kKill = 'k', kStop = 't', kContinue = 'c' };
  struct Reply {
    uint16_t port = 0;  // 0: it did not work
  };

  Keeper() : orders_(make_pipe()), child_([this](const Child<Reply>::Pipe& pipe) { serve(pipe); }) {
    close(orders_[0]);
  }
  ~Keeper() { close(orders_[1]); }
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // True when it was done. The node is always on the same port.
  bool tell(Command command) {
    Reply reply;
    if (write(orders_[1], &command, 1) != 1 || !child_.next(&reply)) return false;
    port_ = reply.port;
    return reply.port != 0;
  }
  uint16_t port() const { return port_; }

 private:
  static std::array<int, 2> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) std::abort();
    return ends;
  }

  void serve(const Child<Reply>::Pipe& pipe) {
    close(orders_[1]);
    uint16_t port = 0;
    pid_t node = -1;
    for (char command = 0; read(orders_[0], &command, 1) == 1;) {
      if (command == kStart && port == 0) port = free_port();
      if (command == kStart) node = start(port);
      if (command == kKill) kill(node, SIGKILL), waitpid(node, nullptr, 0);
      if (command == kStop) kill(node, SIGSTOP);
      if (command == kContinue) kill(node, SIGCONT);
      pipe.tell({node > 0 ? port : uint16_t{0}});
    }
    if (node > 0) kill(node, SIGKILL);
  }
  static std::unique_ptr<aggregation::Aggregator> open(uint16_t port) {
    aggregation::AggregatorOptions options;
    options.address = kAddress;
    options.port = port;
    auto aggregator = aggregation::Aggregator::start(options);
    return aggregator ? std::move(*aggregator) : nullptr;
  }
  static uint16_t free_port() {
    const Descriptor fd(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof(address);
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) return 0;
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    return ntohs(address.sin_port);
  }
  static pid_t start(uint16_t port) {
    const auto ready = make_pipe();
    const pid_t node = fork();
    if (node == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // it is not to outlive the test
      close(ready[0]);
      const auto aggregator = open(port);
      const char up = aggregator != nullptr ? 1 : 0;
      if (write(ready[1], &up, 1) != 1 || up == 0) _exit(1);
      for (;;) pause();
    }
    close(ready[1]);
    char up = 0;
    const bool is_up = read(ready[0], &up, 1) == 1 && up == 1;
    close(ready[0]);
    return is_up ? node : -1;
  }

  std::array<int, 2> orders_;
  uint16_t port_ = 0;
  Child<Reply> child_;
};

int64_t number(const std::string& json, const std::string& name) {
  const size_t at = json.find("\"" + name + "\":");
  return at == std::string::npos ? -1 : std::stoll(json.substr(at + name.size() + 3));
}

// What the ranks do until they are told to end: sums of several lengths, every element looked at.
class Job {
 public:
  explicit Job(uint16_t port) : world_(options(port)) {}
  const Status& status() const { return world_.status(); }

  // In turns, each within the patience of a watchdog.
  void start() {
    thread_ = std::thread([this] {
      do {
        turn_began_ = std::chrono::steady_clock::now();
        outcomes_ = world_.run([this](Member& member) { return work(member); });
      } while (!ending_ && std::all_of(outcomes_.begin(), outcomes_.end(), [](const Status& outcome) {
        return outcome.is_ok();
      }));
      done_ = true;
    });
  }
  std::vector<Status> end() {
    ending_ = true;
    thread_.join();
    return outcomes_;
  }
  // Operations of rank 0 that are through, every element right.
  uint64_t rounds() const { return rounds_; }
  bool is_done() const { return done_; }
  bool is_active() { return stats().find("\"stage\":\"active\"") != std::string::npos; }
  // What each rank says of its way to the node.
  std::string stats() {
    std::string all;
    for (int rank = 0; rank < world_.size(); ++rank) {
      const std::string text = world_.comm(rank).context().stats_json();
      all += text.substr(text.find("\"aggregation\"")) + "\n";
    }
    return all;
  }
  int64_t recoveries() { return number(stats(), "recoveries"); }

  // Until `reached()`; false when the job ends first or patience does.
  template <class Reached>
  bool await(Reached reached) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatience_s);
    while (!reached()) {
      if (done_ || std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

 private:
  static WorldOptions options(uint16_t port) {
    WorldOptions options;
    options.ranks = 3;
    options.config = "aggregator=" + std::string(kAddress) + ":" + std::to_string(port) +
                     "\naggregator_share=0.5\n" + job_key_line();
    return options;
  }

  Status work(Member& member) {
    Communicator& comm = *member.comm;
    std::vector<int32_t> data(60'000);
    for (uint32_t round = 0;; ++round) {
      member.doing("round " + std::to_string(round));
      const size_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 2000 : data.size();
      for (size_t i = 0; i < count; ++i) {
        data[i] = static_cast<int32_t>(i % 101 + round % 17) * (member.rank + 1);
      }
      // Rank 0 says when it is over.
      if (count == 1) data[0] = member.rank == 0 && is_turn_over() ? 1 : 0;
      NEZHA_RETURN_IF_ERROR(
          comm.all_reduce(data.data(), data.data(), count, Dtype::int32, ReduceOp::sum, {}, nullptr));
      if (count == 1) {
        if (data[0] == 1) return Status::ok();
        if (data[0] != 0) return error(Code::internal, "a flag became %d", data[0]);
        continue;
      }
      for (size_t i = 0; i < count; ++i) {
        const int32_t expected = static_cast<int32_t>(i % 101 + round % 17) * 6;
        if (data[i] == expected) continue;
        return error(Code::internal, "rank %d, round %u, element %zu: %d, not %d", member.rank, round, i,
                     data[i], expected);
      }
      if (member.rank == 0) ++rounds_;
    }
  }

  bool is_turn_over() const {
    constexpr auto kTurn = std::chrono::seconds(5);
    return ending_ || std::chrono::steady_clock::now() - turn_began_ > kTurn;
  }

  World world_;
  std::thread thread_;
  std::chrono::steady_clock::time_point turn_began_;
  std::vector<Status> outcomes_;
  std::atomic<bool> ending_{false};
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> rounds_{0};
};

void expect_ok(const std::vector<Status>& outcomes) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_TRUE(outcomes[rank]) << "rank " << rank << ": " << outcomes[rank].to_string();
  }
}

// `inflict` and `heal` one fault after the other, each confirmed by a repair.
template <class Inflict, class Heal>
void run_campaign(const char* name, int faults, Job& job, Inflict inflict, Heal heal) {
  using Clock = std::chrono::steady_clock;
  job.start();
  for (int fault = 0; fault < faults; ++fault) {
    const ::testing::ScopedTrace which(__FILE__, __LINE__, "fault " + std::to_string(fault));
    ASSERT_TRUE(job.await([&] { return job.is_active(); })) << "the node is not used: " << job.stats();
    const uint64_t some_later = job.rounds() + 20 + static_cast<uint64_t>(fault) % 7;
    ASSERT_TRUE(job.await([&] { return job.rounds() > some_later; }));
    const int64_t recoveries = job.recoveries();
    const auto began = Clock::now();
    ASSERT_TRUE(inflict());
    ASSERT_TRUE(job.await([&] { return job.recoveries() > recoveries; })) << "it went unnoticed";
    const uint64_t rounds = job.rounds();
    ASSERT_TRUE(job.await([&] { return job.rounds() > rounds + 1; })) << "no more operations";
    // tests/campaigns/r22_aggregator.py reads it, and the number of operations.
    std::printf("fault %s %.4f s\n", name, std::chrono::duration<double>(Clock::now() - began).count());
    ASSERT_TRUE(heal());
  }
}

class AggregatorFaults : public ::testing::Test {
 protected:
  void kill(int faults) { run("kill", faults, Keeper::kKill, Keeper::kStart); }
  void stop(int faults) { run("stop", faults, Keeper::kStop, Keeper::kContinue); }

 private:
  void run(const char* name, int faults, Keeper::Command inflict, Keeper::Command heal) {
    ASSERT_TRUE(keeper_.tell(Keeper::kStart));
    Job job(keeper_.port());
    ASSERT_TRUE(job.status()) << job.status().to_string();
    run_campaign(name, faults, job, [&] { return keeper_.tell(inflict); },
                 [&] { return keeper_.tell(heal); });
    expect_ok(job.end());
    std::printf("operations %llu\n", static_cast<unsigned long long>(job.rounds()));
  }

  Keeper keeper_;
};

TEST_F(AggregatorFaults, KilledAndStartedAgain) { kill(3); }
TEST_F(AggregatorFaults, StoppedAndContinued) { stop(3); }
// `make faults` and `make soak` run these.
TEST_F(AggregatorFaults, DISABLED_AHundredKills) { kill(100); }
TEST_F(AggregatorFaults, DISABLED_AHundredStops) { stop(100); }

}  // namespace
}  // namespace nezha::testing
